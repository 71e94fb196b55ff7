"""NodeEstimator: what GPNNClassifier and GPNNRegressor share: arguments, training, prediction, saving."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gpnn.check import check_probabilities, check_seed, wrong_types
from gpnn.data.arrays import hold_out, kind_of_frame, to_frame
from gpnn.data.features import transform_data
from gpnn.data.labels import check_trainable
from gpnn.data.tables.vocabulary import Choices, Vocabulary
from gpnn.estimator.node_input import (
    NodeInput,
    apply_columns,
    check_features,
    fit_columns,
    frame_table,
    is_graph,
    read_arrays,
    read_columns,
    read_graph,
    read_nodes,
)
from gpnn.estimator.saved import load_estimator, save_estimator
from gpnn.estimator.training import pipeline_of, train_estimator
from gpnn.explain import Explained, Explanation, explain_node, find_node
from gpnn.export import check_program, export_models, save_program
from gpnn.incremental.follower import Followed, Follower, start_predictor
from gpnn.kernels.execution import choose_device
from gpnn.nn import NodeModel
from gpnn.partition import Partition
from gpnn.pipeline import Auto, Pipeline
from gpnn.progress import Progress
from gpnn.race import RaceRecord
from gpnn.recipes import AUTO
from gpnn.run.known_nodes import KnownNodes, place_model
from gpnn.run.predictions import known_labels, node_types, predictions_table, split_names, true_labels
from gpnn.storage.read import shorten
from gpnn.text import in_notebook
from gpnn.train.evaluate import predict_outputs
from gpnn.train.fit import Callback, training_html
from gpnn.train.notes import NoteWarning
from gpnn.train.task import Prediction, Task

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(kw_only=True, eq=False, repr=False)
class NodeEstimator(BaseEstimator):
    """A model of the nodes of a graph under scikit-learn's conventions; :class:`gpnn.GPNNClassifier` has the arguments.

    Attributes:
        kind: what errors and files call it.
        task_name: "classification" or "regression".
    """

    kind: ClassVar[str]
    task_name: ClassVar[str]
    recipe: str | None = None
    budget: str | float = AUTO
    blend: bool = True
    k: int | Auto | None = None
    partition: str | None = None
    schedule: str | None = None
    rounds: int | Auto | None = None
    schedule_options: Mapping[str, Any] | None = None
    normalization: str | None = None
    self_loops: bool | None = None
    hidden_channels: int | Auto | None = None
    cell: str | None = None
    scale_features: str = "auto"
    input_dropout: float | None = None
    dropout: float | None = None
    drop_node: float | None = None
    model_options: Mapping[str, Any] | None = None
    epochs: int | None = None
    learning_rate: float | None = None
    weight_decay: float | str | None = None
    patience: int | None = None
    class_weight: str | Mapping[Any, float] | Sequence[float] | None = None
    columns: Any = None
    train_options: Mapping[str, Any] | None = None
    validation_fraction: float = 0.2
    seed: int = 0
    device: str = "auto"
    engine: str = "auto"
    memory: str | float | None = None
    device_memory: str | float | None = None
    disk: str | None = None
    verbose: bool = False

    task_: Task = field(init=False)
    own_task_: Task = field(init=False)
    race_: RaceRecord = field(init=False)
    members_: dict[str, tuple[float, Self]] = field(init=False)
    _learnt_from: tuple[Any, Any, Any] | None = field(init=False, default=None)  # X, adjacency and graph
    _follower: Follower | None = field(init=False, default=None)
    weight_ = 1.0
    quiet_ = False

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        adjacency: Any = None,
        graph: Any = None,
        sample_weight: Any = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn from `fit(data)`, `fit(X, y, adjacency=A)`, or from nodes of a graph, `fit(nodes, y, graph=data)`.

        Args:
            X: a PyG `Data` or `HeteroData` with labels and masks; or features `[N, F]` (None: learn an embedding per
                node; a frame with text or gaps: columns as :func:`gpnn.from_frames` reads them); or nodes of `graph`,
                their ids or, where they have none, their rows, `[n]` or `[n, 1]`.
            y: a label per node, −1, NaN, None or "" where it is unknown, `[N]`; or multi-label, zeros and ones `[N, C]`
                with a row of −1 where a node is unlabelled. Of a regressor a number per node, of which −1 is one.
            adjacency: scipy sparse matrix, array `[N, N]`, networkx graph of the nodes 0…N−1 (other names:
                :meth:`gpnn.Graph.from_networkx`) or :class:`gpnn.Graph` of N nodes.
            graph: a `Data`, a `HeteroData` or a :class:`gpnn.Graph`, whose nodes `X` names: all its edges and features
                are used, and of labels those of `y` alone. `predict(nodes)` then takes the same graph.
            sample_weight: of each row of `X` in the loss, from 0, `[N]` or `[n]`; 0 leaves a node out.
            callbacks: each follows the training: `start(history)`, then `epoch(record)`; True ends it
                (:class:`gpnn.train.fit.Callback`). Of a race they see the training of the best recipe.

        Warns:
            NoteWarning: of what is not used, and of an absurd loss, with the argument that mends it
                (:mod:`gpnn.train.notes`).

        Raises:
            ValueError: when an argument is wrong, there is nothing to learn from, or the training diverged.
        """
        self._check_arguments()
        for name in ("graph_", "columns_", "feature_names_in_"):  # of an earlier training
            self.__dict__.pop(name, None)
        given = self._read(X, y, adjacency, graph, sample_weight, reset=True)
        data = given.data
        if data.get("y") is None:
            raise ValueError(
                f"`y` must give labels to learn from: {type(self).__name__} requires y to be passed, but the target y "
                "is None."
            )
        if given.classes is None:
            check_trainable(data.y, data.get("class_names"))
        self.vocabulary_ = data.get("vocabulary") or _name_classes(data.get("class_names"))
        self.class_weight_ = self._weigh_classes(data, given.classes)
        self.n_features_in_ = 0 if data.get("x") is None else data.x.shape[1]
        if self.columns is not None:
            self.columns_, data = fit_columns(self.columns, data)
        data = hold_out(data, self.validation_fraction, self.seed)
        self._take_classes(data, given.classes)
        with (
            TemporaryDirectory() as folder,
            Progress("preparing", silent=not (self.verbose or in_notebook())) as progress,
        ):
            train_estimator(self, data, Path(folder), progress, callbacks)
        if graph is not None:
            self.graph_ = graph
        self._learnt_from, self._follower = (X, adjacency, graph), None
        return self

    def _check_arguments(self) -> None:
        """Raise ValueError, a sentence for each argument of another type."""
        given = self.get_params(deep=False)
        del given["class_weight"]  # a mapping, a list or an array: checked with the classes
        if problems := wrong_types(given, get_type_hints(NodeEstimator)):
            raise ValueError(" ".join(problems))
        check_seed("seed", self.seed)
        check_probabilities(validation_fraction=self.validation_fraction)

    def __getstate__(self) -> dict[str, Any]:
        """What pickle and copies take: neither the graph learnt from nor its states."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_learnt_from", "_follower")}

    def _weigh_classes(self, data: Data, classes: np.ndarray | None) -> Any:
        """The weights of the classes as a recipe takes them; None: as the recipe has them."""
        weight = self.class_weight
        if not isinstance(weight, Mapping):
            return weight if weight is None or isinstance(weight, str) else tuple(weight)
        names = data.get("class_names") if classes is None else classes.tolist()
        names = list(range(data.get("num_classes") or 0)) if names is None else list(names)
        for name in weight:
            if name not in names:
                raise ValueError(f"`class_weight` must name classes among {shorten(names)}. Got {shorten(name)}.")
        return tuple(float(weight.get(name, 1.0)) for name in names)

    def _outputs(self, given: NodeInput) -> Tensor:
        """What the model, or the blend, gives for every node requested, `[n, num_outputs]`.

        The graph may be the one learnt from, grown since, or another: :func:`gpnn.run.known_nodes.place_model`.
        """
        found = []
        for each in self._placed(given.data):
            outputs = predict_outputs(each.model, each.data.get("x"), each.plan)
            found.append(Prediction(each.weight, each.task, given.pick(outputs)))
        return self.task_.combine(found) if self.members_ else found[0].outputs

    def _placed(self, graph: Data) -> Iterator[Explained]:
        """Its own model and those of the other members, each with the graph as it takes it."""
        blend: list[tuple[float, Self]] = [(self.weight_, self), *self.members_.values()]
        for weight, each in blend:
            data, pipeline = each._take(graph)
            model, _, part = place_model(each.model_, each.known_, data)
            scaled = each.scale_features_ == "rows"
            yield Explained(model, data, pipeline, each.own_task_, part, weight=weight, scaled=scaled)

    def _take(self, data: Data) -> tuple[Data, Pipeline]:
        """A graph as the model takes it, and the arguments of its schedule."""
        data = transform_data(self._transform_columns(data), undirected=self.undirected_)
        return data, replace(pipeline_of(self, self.recipe_), **asdict(self.sizes_))

    def _transform_columns(self, data: Data) -> Data:
        """Nodes with their features as the model takes them."""
        if hasattr(self, "columns_"):
            data = apply_columns(self.columns_, data)
        return transform_data(data, scale_features=self.scale_features_)

    def update(
        self,
        nodes: Any = None,
        edges: Any = None,
        *,
        removed_nodes: Any = None,
        removed_edges: Any = None,
        graph: Any = None,
        adjacency: Any = None,
        ids: Sequence[Any] | None = None,
        undirected: bool | None = None,
        **columns: str,
    ) -> Any:
        """The predictions that a change of the graph may have changed, without computing the others again.

        The graph is the one learnt from, as earlier calls left it. First nodes and edges go, then nodes come or get
        other features, then edges come. The answer is that of predicting on the whole new graph: nodes learnt from keep
        their subgraph, others join a neighbour's. The first call predicts the whole graph and keeps its states.
        `predict_frame()` gives the predictions of all nodes.

        Args:
            nodes: nodes that are new or have new features: a frame as those learnt from, or features `[n, F]`.
            edges: new edges: a frame with the columns source, target and where the graph has them type and weight, or
                the ids of sources and targets, `[2, e]`.
            removed_nodes: ids of nodes that go, with all their edges.
            removed_edges: edges that go, as `edges`: all from a source to a target, of the type where one is given.
            graph: start from another graph, which :meth:`predict_frame` would take as `X`.
            adjacency: of `graph`, as of :meth:`fit`.
            ids: of the rows of `nodes` that are an array; None: new numbers, which follow the last.
            undirected: when a graph starts: whether edges come and go both ways, each distinct one once. None: as the
                graph was read; one whose edges were given their reverse in :meth:`fit` has it so in any case.
            columns: names of the columns `id`, `source`, `target`, `type`, `weight` and `label`, as of
                :func:`gpnn.from_frames`, whose names they have where it read the graph.

        Returns:
            A frame of the nodes that were computed again: `node` and its prediction.

        Warns:
            NoteWarning: where the model or its schedule has all nodes computed whatever changes.

        Raises:
            ValueError: when the change does not suit the graph, which then stays as it was.
        """
        check_is_fitted(self, "model_")
        if graph is not None or self._follower is None:
            self._follower = self._follow(self._learnt_from if graph is None else (graph, adjacency, None), undirected)
            if self._follower.whole:
                warnings.warn(f"every update computes all nodes: {self._follower.whole}", NoteWarning, stacklevel=2)
        choices = Choices(vocabulary=self.vocabulary_, **self._follower.frame_columns | columns)
        table = self._follower.update(nodes, edges, removed_nodes, removed_edges, ids, choices)
        return to_frame(table, self._follower.frame_kind or kind_of_frame(edges if nodes is None else nodes))

    def _follow(self, start: tuple[Any, Any, Any] | None, undirected: bool | None) -> Follower:
        if start is None:
            raise ValueError("`graph` must be the graph before the change, where the estimator was loaded. Got none.")
        X, adjacency, graph = start
        data = self._read(X, None, adjacency, graph).data
        undirected = bool(data.get("undirected")) if undirected is None else undirected
        models = [self._followed(data, self.weight_ if self.members_ else 1.0, undirected)]
        models += [member._followed(data, weight, undirected) for weight, member in self.members_.values()]
        return Follower(models, data, self.task_, self._class_names())

    def _followed(self, data: Data, weight: float, undirected: bool) -> Followed:
        """The estimator's own model and a graph, which it follows."""
        placed, pipeline = self._take(data)
        both_ways = self.undirected_ or undirected
        predictor = start_predictor(self.model_, placed, pipeline, self.known_, undirected=both_ways)
        return Followed(weight, self.own_task_, predictor, self._transform_columns)

    def explain(
        self, X: Any, node: Any, num: int = 10, *, adjacency: Any = None, graph: Any = None
    ) -> Explanation | list[Explanation]:
        """Why a node gets its class, or its number: the edges, neighbours and columns whose deletion costs it most.

        Args:
            X: the graph, as of :meth:`fit`.
            node: the user's id of the node, or its row where nodes have none; a list of them gives a list, and
                predicts the graph as it is once.
            num: how many of each to list, at most.
            adjacency: as of :meth:`fit`.
            graph: likewise.

        Raises:
            ValueError: when there is no such node.
        """
        members, several = list(self._placed(self._read(X, None, adjacency, graph).data)), isinstance(node, list)
        rows = [find_node(members[0].data, each) for each in (node if several else [node])]
        found = [explain_node(members, row, task=self.task_, classes=self._class_names(), num=num) for row in rows]
        return found if several else found[0]

    def predict_frame(self, X: Any = None, *, adjacency: Any = None, graph: Any = None) -> Any:
        """The answer for every node as a data frame, in the user's ids and order.

        The columns are those of `predictions.parquet` (:func:`gpnn.run.predictions.predictions_table`). The frame is of
        the kind that :func:`gpnn.from_frames` read, or that `X` is; of any other graph it is a pyarrow table.

        Args:
            X: the graph, as of :meth:`fit`. Frames that came later are read with the meaning of those learnt from:
                `gpnn.from_frames(nodes, edges, vocabulary=classifier.vocabulary_)`. None: the graph as :meth:`update`
                left it.
            adjacency: as of :meth:`fit`.
            graph: likewise.

        Raises:
            ValueError: when the columns of the graph's tables were given another meaning.
        """
        if X is None and adjacency is None and graph is None and self._follower is not None:
            return to_frame(self._follower.table(), self._follower.frame_kind)
        given = self._read(X, None, adjacency, graph)
        data = given.data
        _check_meaning(data.get("vocabulary"), self.vocabulary_)
        classes = self._class_names()
        table = predictions_table(
            self.task_.columns(self.task_.predict(self._outputs(replace(given, rows=None))), classes),
            nodes=data.get("node_name"),
            labelled=known_labels(data),
            label=true_labels(data, classes),
            also=node_types(data) | {"split": split_names(data)},
        )
        table = table if given.rows is None else table.take(given.rows)
        return to_frame(table, data.get("frame_kind") or kind_of_frame(X))

    def export(
        self, X: Any, file: str | Path | None = None, *, adjacency: Any = None, graph: Any = None
    ) -> torch.nn.Module:
        """The trained model over a fixed graph as a plain module of torch's own operations.

        It takes the features of all nodes as in `X`, dense `[N, F]` float32, and gives what :meth:`predict_proba` does,
        or of a regressor the number and the ends of its interval at 90 %, `[N, 3]`; in float32, on the CPU.

        Args:
            X: the graph, as of :meth:`fit`.
            file: ending in `.pt2`: write the module there, too, as a program that `torch.export.load` reads where gpnn
                is not installed; its `gpnn.json` names the classes.
            adjacency: as of :meth:`fit`.
            graph: likewise.

        Raises:
            ValueError: when there is a transformer of columns, or dense features would take too much memory.
        """
        given = self._read(X, None, adjacency, graph)
        if hasattr(self, "columns_"):
            raise ValueError("`export` takes a model without a transformer of scikit-learn. Got `columns`.")
        if file is not None:
            check_program(Path(file))
        x = given.data.get("x")
        module = export_models(list(self._placed(given.data)), x, self.task_)
        if file is not None:
            save_program(module, x, Path(file), self.task_.to_mapping() | {"classes": self._class_names()})
        return module

    def _class_names(self) -> Sequence[Any] | None:
        """The user's name of each class; None of a regressor."""
        named = self.vocabulary_.classes
        return self.classes_.tolist() if named is None and hasattr(self, "classes_") else named

    def save(self, folder: str | Path) -> None:
        """Write the estimator: weights as safetensors, nodes and their subgraphs as Parquet, the rest as JSON.

        Nothing is pickled.
        """
        check_is_fitted(self, "model_")
        save_estimator(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The estimator that :meth:`save` wrote; nothing is unpickled.

        Raises:
            ValueError: when the folder holds none.
        """
        return load_estimator(cls, Path(folder))

    def _take_classes(self, data: Data, classes: np.ndarray | None) -> None:
        """Take the classes of the data to learn from, and their names where labels were arrays."""

    def _learned(self) -> dict[str, Any]:
        """What a saved estimator holds of its own."""
        raise NotImplementedError

    def _take_learned(self, saved: Mapping[str, Any]) -> None:
        """Take that back from a file."""
        raise NotImplementedError

    def _read(
        self, X: Any, y: Any, adjacency: Any, graph: Any, sample_weight: Any = None, *, reset: bool = False
    ) -> NodeInput:
        """The graph that is meant and its nodes that are requested; `reset` where it is learnt from."""
        if not reset:
            check_is_fitted(self, "model_")
        if is_graph(X):
            return read_graph(X, self.task_name, sample_weight)
        if graph is None and adjacency is None:
            graph = getattr(self, "graph_", None)
        if graph is not None:
            return read_nodes(X, y, graph, self.task_name, sample_weight)
        if adjacency is None:
            return read_arrays(X, y, None, self.task_name, sample_weight)
        columns = None if reset else self.vocabulary_.columns
        table = None if columns == () else frame_table(X, known=bool(columns))
        if table is not None:
            return read_columns(table, columns, y, adjacency, self.task_name, sample_weight)
        return read_arrays(check_features(self, X, reset=reset), y, adjacency, self.task_name, sample_weight)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """scikit-learn's picture of the estimator and, once it is fitted, of its training."""
        bundle = super()._repr_mimebundle_(**options)
        if "text/html" in bundle and hasattr(self, "history_"):
            bundle["text/html"] += training_html(self.metrics_, self.history_)
        return bundle

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = True
        return tags

    def _take_nodes(self, known: KnownNodes) -> None:
        self.known_, labels = known, known.labels
        self.partition_ = None if labels is None else Partition(torch.from_numpy(labels), int(labels.max()) + 1)

    def _take_model(self, model: NodeModel, arguments: Mapping[str, Any]) -> None:
        self.model_ = model.to(choose_device(self.device))
        self.model_arguments_ = dict(arguments)
        if "n_features_in_" not in vars(self):
            self.n_features_in_ = arguments["in_channels"]


def _name_classes(names: Any) -> Vocabulary:
    """The vocabulary of a graph that came from no tables; `names` of its classes are a list, an array or None."""
    return Vocabulary(classes=None if names is None else tuple(names.tolist() if hasattr(names, "tolist") else names))


def _check_meaning(given: Vocabulary | None, learnt: Vocabulary) -> None:
    """Raise ValueError where both came from tables, and columns, classes or edge types mean different things."""
    if given is None or not learnt.columns:
        return
    alike = given.columns == learnt.columns and given.edge_types == learnt.edge_types
    if not alike or given.classes not in (None, learnt.classes):
        raise ValueError(
            "Tables must be read with the meaning of those learnt from: `vocabulary=classifier.vocabulary_` of "
            "`gpnn.from_frames` and `gpnn.load_dataset`. Got other columns, classes or edge types."
        )
