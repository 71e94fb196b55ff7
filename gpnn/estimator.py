"""GPNNClassifier: graph partition neural networks with scikit-learn's fit and predict."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from gpnn.data.arrays import data_from_arrays, encode_labels, hold_out
from gpnn.data.check import check_data
from gpnn.data.features import choose_scale, transform_data
from gpnn.data.files import sha256_of
from gpnn.data.labels import check_labels, check_trainable, labelled_nodes
from gpnn.data.tables.binary import read_parquet_columns
from gpnn.engine.device import choose_device
from gpnn.nn import GPNN
from gpnn.partition import Partition
from gpnn.pipeline import Auto, Pipeline, Sizes
from gpnn.recipes import DEFAULT, find_recipe
from gpnn.run.folder import RunFolder
from gpnn.run.known_nodes import KnownNodes, RowDigests
from gpnn.run.predictions import write_predictions
from gpnn.run.restore import LEAST_BOUND, restore_model
from gpnn.storage.atomic import write_json
from gpnn.storage.read import read_json, shorten
from gpnn.train.evaluate import predict_probabilities
from gpnn.train.fit import fit
from gpnn.train.notes import Facts, NoteWarning, take_notes, training_notes
from gpnn.train.recipe import Recipe

if TYPE_CHECKING:
    from torch_geometric.data import Data

NODES = "nodes.parquet"  # of a saved classifier


class GPNNClassifier(ClassifierMixin, BaseEstimator):
    """Semi-supervised node classification over PyG's `Data`, or over arrays with −1 for unlabelled nodes.

    The model and its training are those of `gpnn train` with the same recipe, arguments and seed, to the same bits.
    Arguments left at None are as the recipe has them. Sizes that are "auto" there follow the graph
    (:mod:`gpnn.sizes`) and are printed when `verbose`.

    Args:
        recipe: what the model is and how it is trained, a name of :data:`gpnn.recipes.RECIPES`.
        k: number of subgraphs K, or "auto".
        partition: the partitioner, a name of `gpnn.partition.PARTITIONERS`.
        schedule: a name of `gpnn.schedule.SCHEDULES`.
        rounds: outer rounds T, or "auto".
        schedule_options: further arguments of the schedule, such as `{"intra": 2, "cut": 1}`.
        normalization: "phase", "graph", "split", "symmetric", …; see :func:`gpnn.lower`.
        self_loops: every node also receives its own message.
        hidden_channels: width of the states, or "auto".
        cell: the update function: "linear", "gru" (the paper's), "lstm", "mlp", "gcnii".
        scale_features: "rows": the absolute values of each node's features sum to one; "none" leaves them; "auto":
            "none" where one is negative, so that measurements keep their size, else "rows".
        input_dropout: of the features.
        dropout: of hidden layers.
        drop_node: probability that a node's whole initial state is dropped in a pass.
        model_options: further arguments of :class:`gpnn.nn.GPNN`.
        epochs: the most epochs.
        learning_rate: the step size.
        weight_decay: wd, for wd·½‖w‖² added to the loss.
        patience: validations without improvement after which training stops; 0 never stops early.
        train_options: further settings of :class:`gpnn.train.Recipe`.
        validation_fraction: share of the training nodes that selects the best weights where `Data` has no
            `val_mask`; 0 keeps the last weights.
        seed: of partition, schedule, weights, masks and validation nodes.
        device: "auto", "cpu", "cuda", ….
        engine: how the training is run, a name of `gpnn.memory.engine.ENGINES`; "auto" is the fastest that fits.
        memory: GB that the training may take; None is most of what is free.
        disk: folder where states and features may lie in files when memory is short; None allows none.
        verbose: print the sizes and the engine chosen and one line at the end.

    Attributes:
        classes_: the classes, `[C]`.
        multilabel_: whether a node may have several of them.
        sizes_: the sizes in use: `k`, `rounds`, `hidden_channels`.
        model_: the trained :class:`gpnn.nn.GPNN`.
        partition_: the subgraphs, or None under a schedule that needs none.
        known_: the nodes learnt from, which keep their subgraphs in a graph that has grown.
        history_: one record per epoch.
        metrics_: final metrics.
        n_features_in_, n_iter_: number of features, epochs done.

    >>> import gpnn
    >>> data = gpnn.load_dataset("digits")
    >>> classifier = GPNNClassifier(epochs=2).fit(data)
    >>> classifier.predict(data).shape
    (1797,)
    """

    def __init__(
        self,
        *,
        recipe: str = DEFAULT,
        k: int | Auto | None = None,
        partition: str | None = None,
        schedule: str | None = None,
        rounds: int | Auto | None = None,
        schedule_options: Mapping[str, Any] | None = None,
        normalization: str | None = None,
        self_loops: bool | None = None,
        hidden_channels: int | Auto | None = None,
        cell: str | None = None,
        scale_features: str = "auto",
        input_dropout: float | None = None,
        dropout: float | None = None,
        drop_node: float | None = None,
        model_options: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | str | None = None,
        patience: int | None = None,
        train_options: Mapping[str, Any] | None = None,
        validation_fraction: float = 0.2,
        seed: int = 0,
        device: str = "auto",
        engine: str = "auto",
        memory: float | None = None,
        disk: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.recipe = recipe
        self.k = k
        self.partition = partition
        self.schedule = schedule
        self.rounds = rounds
        self.schedule_options = schedule_options
        self.normalization = normalization
        self.self_loops = self_loops
        self.hidden_channels = hidden_channels
        self.cell = cell
        self.scale_features = scale_features
        self.input_dropout = input_dropout
        self.dropout = dropout
        self.drop_node = drop_node
        self.model_options = model_options
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.train_options = train_options
        self.validation_fraction = validation_fraction
        self.seed = seed
        self.device = device
        self.engine = engine
        self.memory = memory
        self.disk = disk
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, adjacency: Any = None) -> GPNNClassifier:
        """Learn from `fit(data)` or from `fit(X, y, adjacency=A)`.

        Args:
            X: a PyG `Data` with labels and masks, or features `[N, F]` (None: learn an embedding a node).
            y: a label per node, −1, NaN, None or "" where it is unknown, `[N]`; or multi-label, zeros and ones `[N, C]`
                with a row of −1 where a node is unlabelled.
            adjacency: scipy sparse matrix, array `[N, N]`, networkx graph of the nodes 0…N−1 (other names:
                :meth:`gpnn.Graph.from_networkx`) or :class:`gpnn.Graph` of N nodes.

        Warns:
            NoteWarning: of what is not used, and of an absurd loss, with the argument that mends it
                (:mod:`gpnn.train.notes`).

        Raises:
            ValueError: when there is nothing to learn from, or the training diverged.
        """
        data, classes = _read(X, y, adjacency)
        if data.get("y") is None:
            raise ValueError("`y` must give labels to learn from. Got none.")
        if classes is None:
            check_trainable(data.y, data.get("class_names"))
        recipe = self._recipe()
        scale = self.scale_features
        self.scale_features_ = choose_scale(data.get("x")) if scale == "auto" else scale
        data = hold_out(transform_data(data, scale_features=self.scale_features_), self.validation_fraction, self.seed)
        self.classes_ = np.arange(data.num_classes) if classes is None else classes
        self.multilabel_ = data.y.dim() == 2
        made = self._pipeline().assemble(data, recipe, keep_schedule=False)
        data, plan = made.data, made.plan
        self.sizes_, self.partition_ = made.pipeline.sizes, made.partition
        self._take_model(made.model, made.model_arguments)
        if self.verbose:
            print(f"GPNNClassifier: {self.sizes_}, {plan.num_messages:,} messages a pass, {plan.device}")
            print(f"GPNNClassifier: engine {made.engine}")
        self.known_ = KnownNodes.of(data, self.partition_)
        self._warn(data)
        result = fit(self.model_, data, plan, recipe=recipe, seed=self.seed)
        if result.problem is not None:
            del self.model_  # what diverged predicts nothing
            raise ValueError(result.problem)
        self.history_, self.metrics_, self.n_iter_ = result.history, result.metrics, len(result.history)
        for note in training_notes(self.history_, data.num_classes, multi_label=self.multilabel_):
            warnings.warn(f"{note.what}; {note.argument}", NoteWarning, stacklevel=2)
        if self.verbose:
            print(f"GPNNClassifier: {json.dumps(self.metrics_)}")
        return self

    def predict_proba(self, X: Any, *, adjacency: Any = None) -> np.ndarray:
        """The probability of each class for every node, `[N, C]`, columns as in `classes_`.

        The rows sum to one, unless a node may have several labels (`multilabel_`). The graph may be the one
        learnt from, grown since, or another; embeddings know their own graph only. Nodes learnt from keep their
        subgraph (:meth:`gpnn.run.known_nodes.KnownNodes.find` says which they are), new ones join a neighbour's.
        """
        check_is_fitted(self, "model_")
        data = transform_data(_read(X, None, adjacency)[0], scale_features=self.scale_features_)
        pipeline = replace(self._pipeline(), **asdict(self.sizes_))
        plan = pipeline.lower_again(data, None if self.partition_ is None else self.known_.partition(data))
        return predict_probabilities(self.model_, data.get("x"), plan, multi_label=self.multilabel_).numpy()

    def predict(self, X: Any, *, adjacency: Any = None) -> np.ndarray:
        """The most likely class of every node, `[N]`; multi-label: zeros and ones, `[N, C]`."""
        probability = self.predict_proba(X, adjacency=adjacency)
        return (probability > 0.5).astype(np.int64) if self.multilabel_ else self.classes_[probability.argmax(1)]

    def score(self, X: Any, y: Any = None, *, adjacency: Any = None) -> float:
        """The accuracy over the labelled nodes of `y`, or of a `Data`'s `test_mask` (without one: all).

        Multi-label, a node counts when all its labels are right, as in scikit-learn.
        """
        predicted = self.predict(X, adjacency=adjacency)
        labels, classes = (check_labels(X.y, X.num_nodes), self.classes_) if y is None else encode_labels(y)
        known = labelled_nodes(labels).numpy()
        if y is None and X.get("test_mask") is not None:
            known &= X.test_mask.numpy()
        if self.multilabel_:
            return float(np.mean((predicted == labels.numpy()).all(1)[known]))
        return float(np.mean(predicted[known] == classes[labels.numpy()[known]]))

    def save(self, folder: str | Path) -> None:
        """Write the classifier: weights as safetensors, nodes and their subgraphs as Parquet, the rest as JSON.

        Nothing is pickled.
        """
        check_is_fitted(self, "model_")
        run = RunFolder(Path(folder))
        run.path.mkdir(parents=True, exist_ok=True)
        run.write_model(self.model_.state_dict(), self.model_arguments_)
        nodes, digests = run.path / NODES, self.known_.digests
        write_predictions(self.known_.to_table(), nodes)
        learned = {"classes_": self.classes_.tolist(), "sizes_": asdict(self.sizes_)}
        learned |= {"multilabel_": self.multilabel_, "scale_features_": self.scale_features_}
        learned["rows_"] = None if digests is None else digests._asdict()
        measured = {"metrics_": self.metrics_, "n_iter_": self.n_iter_}
        # what a kill leaves of two classifiers is not a classifier
        whole = {"model_sha256": sha256_of(run.model), "nodes_sha256": sha256_of(nodes)}
        write_json(run.path / "classifier.json", {"parameters": self.get_params(), **learned, **measured, **whole})

    @classmethod
    def load(cls, folder: str | Path) -> GPNNClassifier:
        """The classifier that :meth:`save` wrote; nothing is unpickled.

        Raises:
            ValueError: when the folder holds none.
        """
        path = Path(folder)
        try:
            saved = read_json(path / "classifier.json")
            classifier = cls(**saved["parameters"])
            classifier.classes_ = np.asarray(saved["classes_"])
            classifier.sizes_ = Sizes(**saved["sizes_"])
            if not isinstance(classifier.sizes_.rounds, int) or classifier.sizes_.rounds > LEAST_BOUND:
                raise ValueError(f"{shorten(classifier.sizes_.rounds)} rounds")
            classifier.metrics_, classifier.scale_features_ = saved["metrics_"], saved["scale_features_"]
            classifier.n_iter_, classifier.multilabel_ = saved["n_iter_"], bool(saved["multilabel_"])
            if saved["model_sha256"] != sha256_of(path / "model.safetensors"):
                raise ValueError("the model of another")
            classifier._take_nodes(_read_nodes(path, saved))
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{str(path)!r} must hold a saved classifier. Got: {str(error)[:100]}.") from None
        weights, arguments = RunFolder(path).read_model()
        classifier._take_model(restore_model(arguments, weights, "model.safetensors"), arguments)
        return classifier

    def _warn(self, data: Data) -> None:
        """Warn of what the training does not use; without validation nodes only where some were wanted."""
        facts = Facts.of(data, self.partition_, self.model_arguments_.get("message", "identity"))
        wanted = self.validation_fraction or data.get("val_mask") is not None
        for note in take_notes(facts if wanted else replace(facts, num_validation=None)):
            warnings.warn(f"{note.what}; {note.argument}", NoteWarning, stacklevel=3)

    def _recipe(self) -> Recipe:
        settings = self._given("epochs", "learning_rate", "weight_decay", "patience")
        return replace(find_recipe(self.recipe).train, **settings, **(self.train_options or {}))

    def _pipeline(self) -> Pipeline:
        pipeline = find_recipe(self.recipe).pipeline
        options = {**pipeline.model_options, **self._given("cell", "input_dropout", "dropout", "drop_node")}
        options |= self.model_options or {}
        start = options.pop("embedding_start", pipeline.embedding_start)
        own = self._given("partition", "k", "schedule", "rounds", "schedule_options", "normalization", "self_loops")
        own |= self._given("hidden_channels", "seed", "device", "engine", "disk")
        memory = None if self.memory is None else self.memory * 1e9
        return replace(pipeline, **own, model_options=options, embedding_start=start, memory=memory)

    def _given(self, *names: str) -> dict[str, Any]:
        """The arguments of these names that are not None."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _take_nodes(self, known: KnownNodes) -> None:
        self.known_, labels = known, known.labels
        self.partition_ = None if labels is None else Partition(torch.from_numpy(labels), int(labels.max()) + 1)

    def _take_model(self, model: GPNN, arguments: Mapping[str, Any]) -> None:
        self.model_ = model.to(choose_device(self.device))
        self.model_arguments_, self.n_features_in_ = dict(arguments), arguments["in_channels"]


def _read_nodes(path: Path, saved: Mapping[str, Any]) -> KnownNodes:
    """The nodes of a saved classifier, also of older versions, which knew them by their edges."""
    if "nodes_sha256" not in saved:
        import pyarrow

        stored = path / "partition.safetensors"
        labels = Partition.load(stored).labels.numpy() if stored.exists() else None
        rows = pyarrow.array(np.arange(0 if labels is None else len(labels)))
        return KnownNodes(rows, labels, RowDigests(saved["graph_"], ""))
    if saved["nodes_sha256"] != sha256_of(path / NODES):
        raise ValueError("the nodes of another")
    rows = saved["rows_"]
    digests = None if rows is None else RowDigests.parse(rows, "classifier.json")
    return KnownNodes.from_table(read_parquet_columns(path / NODES), digests, NODES)


def _read(X: Any, y: Any, adjacency: Any) -> tuple[Data, np.ndarray | None]:
    """The checked `Data`, and the classes where its labels were arrays."""
    if hasattr(X, "edge_index"):
        return check_data(X), None
    data, classes = data_from_arrays(X, y, adjacency)
    return check_data(data), classes
