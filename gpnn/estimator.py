"""GPNNClassifier and GPNNRegressor: graph partition neural networks with scikit-learn's fit and predict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from gpnn.data.arrays import encode_labels, encode_numbers
from gpnn.data.labels import labelled_nodes
from gpnn.explain import Explanation, explain_node, find_node
from gpnn.node_estimator import NodeEstimator
from gpnn.train.metrics import r2
from gpnn.train.regression import Regression
from gpnn.train.task import Classification, parse_task


class GPNNClassifier(ClassifierMixin, NodeEstimator):
    """Semi-supervised node classification over PyG's `Data`, or over arrays with −1 for unlabelled nodes.

    The model and its training are those of `gpnn train` with the same recipe, arguments and seed, to the same bits.
    Arguments left at None are as the recipe has them. Sizes that are "auto" there follow the graph
    (:mod:`gpnn.sizes`) and are printed when `verbose`.

    Args:
        recipe: what the model is and how it is trained, a name of :data:`gpnn.recipes.RECIPES`, or "auto": the best of
            them on the validation nodes, found by a race. None is "auto", or where an argument below chooses a model or
            a training, the recipe that it changes, "spread".
        budget: of a race: seconds, or a time such as "10m"; "auto" follows the number of nodes.
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
        device_memory: GB that it may take of a GPU, which is then held to it; None is most of what is free there.
        disk: folder where states and features may lie in files when memory is short; None allows none.
        verbose: print the sizes and the engine chosen and one line at the end.

    Attributes:
        classes_: the classes, `[C]`.
        multilabel_: whether a node may have several of them.
        recipe_: the name of the recipe in use.
        race_: the :class:`gpnn.race.RaceRecord` of what was tried, where there was a race.
        undirected_: whether edges that had no reverse were given one.
        sizes_: the sizes in use: `k`, `rounds`, `hidden_channels`.
        model_: the trained :class:`gpnn.nn.GPNN`.
        partition_: the subgraphs, or None under a schedule that needs none.
        vocabulary_: what columns, classes and edge types of the tables learnt from mean; empty where there were none.
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

    kind = "classifier"
    task_name = "classification"
    classes_: np.ndarray
    multilabel_: bool

    def fit(self, X: Any, y: Any = None, *, adjacency: Any = None) -> GPNNClassifier:
        """Learn from `fit(data)` or from `fit(X, y, adjacency=A)`.

        Args:
            X: a PyG `Data` or `HeteroData` with labels and masks, or features `[N, F]` (None: learn an embedding per
                node).
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
        data, classes = self._fit(X, y, adjacency)
        self.classes_ = np.arange(data.num_classes) if classes is None else classes
        self.multilabel_ = data.y.dim() == 2
        return self

    def predict_proba(self, X: Any, *, adjacency: Any = None) -> np.ndarray:
        """The probability of each class for every node, `[N, C]`, columns as in `classes_`.

        The rows sum to one, unless a node may have several labels (`multilabel_`). The graph may be the one
        learnt from, grown since, or another; embeddings know their own graph only. Nodes learnt from keep their
        subgraph (:meth:`gpnn.run.known_nodes.KnownNodes.find` says which they are), new ones join a neighbour's.
        """
        outputs = self._outputs(X, adjacency)
        return self.task_.predict(outputs).numpy()

    def predict(self, X: Any, *, adjacency: Any = None) -> np.ndarray:
        """The most likely class of every node, `[N]`; multi-label: zeros and ones, `[N, C]`."""
        probability = self.predict_proba(X, adjacency=adjacency)
        return (probability > 0.5).astype(np.int64) if self.multilabel_ else self.classes_[probability.argmax(1)]

    def score(self, X: Any, y: Any = None, *, adjacency: Any = None) -> float:
        """The accuracy over the labelled nodes of `y`, or of a `Data`'s `test_mask` (without one: all).

        Multi-label, a node counts when all its labels are right, as in scikit-learn.
        """
        X = self._read(X, None, adjacency)[0] if y is None else X
        predicted = self.predict(X, adjacency=adjacency)
        labels, classes = (X.y, self.classes_) if y is None else encode_labels(y)
        known = labelled_nodes(labels).numpy()
        if y is None and X.get("test_mask") is not None:
            known &= X.test_mask.numpy()
        if self.multilabel_:
            return float(np.mean((predicted == labels.numpy()).all(1)[known]))
        return float(np.mean(predicted[known] == classes[labels.numpy()[known]]))

    def explain(self, X: Any, node: Any, num: int = 10, *, adjacency: Any = None) -> Explanation:
        """Why a node gets its class: the edges, neighbours and columns whose deletion costs it most probability.

        Args:
            X: the graph, as of :meth:`predict_proba`.
            node: the user's id of the node, or its row where nodes have none.
            num: how many of each to list, at most.
            adjacency: as of :meth:`fit`.

        Raises:
            ValueError: when there is no such node.
        """
        data, pipeline, part = self._place(X, adjacency)
        return explain_node(
            self.model_,
            data,
            pipeline,
            find_node(data, node),
            task=self.task_,
            partition=part,
            classes=self._class_names(),
            scaled=self.scale_features_ == "rows",
            num=num,
        )

    def _learned(self) -> dict[str, Any]:
        return {"classes_": self.classes_.tolist(), "multilabel_": self.multilabel_, "task_": self.task_.to_mapping()}

    def _take_learned(self, saved: Mapping[str, Any]) -> None:
        self.classes_, self.multilabel_ = np.asarray(saved["classes_"]), bool(saved["multilabel_"])
        older = Classification(len(self.classes_), self.multilabel_).to_mapping()  # versions without a temperature
        self.task_ = parse_task(saved.get("task_", older), "classifier.json")


class GPNNRegressor(RegressorMixin, NodeEstimator):
    """Semi-supervised node regression over PyG's `Data`, or over arrays with NaN for nodes whose number is unknown.

    Targets are standardised inside and predicted in the user's unit; positive, skewed ones are learnt by their
    logarithms where that is better on the validation nodes (`train_options={"target_scale": "linear"}` forbids it). A
    prediction comes with an interval (:class:`gpnn.train.regression.Regression`).

    Args: those of :class:`GPNNClassifier`.

    Attributes:
        task_: the scale of the targets and the quantiles of the validation errors.
        recipe_, race_, sizes_, model_, partition_, vocabulary_, known_, history_, metrics_, n_features_in_, n_iter_:
            as of :class:`GPNNClassifier`.

    >>> import gpnn
    >>> data = gpnn.load_dataset("digits")
    >>> data.y = data.x.mean(1)
    >>> number, low, high = GPNNRegressor(epochs=2).fit(data).predict(data, interval=0.9)
    >>> number.shape
    (1797,)
    """

    kind = "regressor"
    task_name = "regression"

    def fit(self, X: Any, y: Any = None, *, adjacency: Any = None) -> GPNNRegressor:
        """Learn from `fit(data)` or from `fit(X, y, adjacency=A)`; arguments as of :meth:`GPNNClassifier.fit`.

        Args:
            X: a PyG `Data` with numbers `y` and masks, or features `[N, F]` (None: learn an embedding per node).
            y: a number per node, `[N]`, NaN, None or "" where it is unknown; −1 is a number.
            adjacency: the graph that joins the rows of `X`.

        Raises:
            ValueError: when there is nothing to learn from, or the training diverged.
        """
        self._fit(X, y, adjacency)
        return self

    def predict(
        self, X: Any, *, adjacency: Any = None, interval: float | None = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The number of every node, `[N]`; with `interval` also the ends of an interval that holds it, `[N]` each.

        Args:
            X: the graph, as of :meth:`GPNNClassifier.predict_proba`.
            adjacency: as of :meth:`fit`.
            interval: the probability with which the interval holds the number, such as 0.9.
        """
        outputs, task = self._outputs(X, adjacency), cast(Regression, self.task_)
        if interval is None:
            return task.predict(outputs)[:, 0].numpy()
        number, low, high = task.predict_interval(outputs, interval).numpy().T
        return number, low, high

    def score(self, X: Any, y: Any = None, *, adjacency: Any = None) -> float:
        """R² over the known numbers of `y`, or of a `Data`'s `test_mask` (without one: all)."""
        X = self._read(X, None, adjacency)[0] if y is None else X
        predicted = self.task_.predict(self._outputs(X, adjacency))
        numbers = X.y if y is None else encode_numbers(y)
        known = labelled_nodes(numbers)
        if y is None and X.get("test_mask") is not None:
            known &= X.test_mask
        return r2(predicted[known], numbers[known])

    def _learned(self) -> dict[str, Any]:
        return {"task_": self.task_.to_mapping()}

    def _take_learned(self, saved: Mapping[str, Any]) -> None:
        self.task_ = parse_task(saved["task_"], "regressor.json")
