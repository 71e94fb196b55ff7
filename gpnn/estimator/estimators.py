"""GPNNClassifier and GPNNRegressor: graph partition neural networks with scikit-learn's fit and predict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from gpnn.data.arrays import encode_labels, encode_numbers
from gpnn.estimator.node_estimator import NodeEstimator
from gpnn.estimator.node_input import NodeInput
from gpnn.train.regression import Regression
from gpnn.train.task import Classification, parse_task

if TYPE_CHECKING:
    from torch_geometric.data import Data


class GPNNClassifier(ClassifierMixin, NodeEstimator):
    """Semi-supervised node classification over PyG's `Data`, or over arrays with −1 for unlabelled nodes.

    The model and its training are those of `gpnn train` with the same recipe, arguments and seed, to the same bits.
    Arguments left at None are as the recipe has them. Sizes that are "auto" there follow the graph
    (:mod:`gpnn.schedule.make_schedule`) and are printed when `verbose`.

    scikit-learn's tools take rows: `cross_val_score(classifier, nodes, y, params={"graph": data})` and
    `GridSearchCV(classifier, grid).fit(nodes, y, graph=data)` hide the labels of the nodes held out, and keep the graph
    whole (:mod:`gpnn.model_selection` has splitters).

    Args:
        recipe: the model and its training, a name of :data:`gpnn.recipes.RECIPES`; "auto": a race chooses the recipe
            with the best validation metric. None: "auto", or "spread" where an argument below changes the model or its
            training.
        budget: time of a race: seconds, or text such as "10m"; "auto" follows the numbers of nodes and recipes.
        blend: whether the recipes of a race are averaged, with the weights of the least loss on the validation nodes.
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
        class_weight: "balanced", a weight for each class `{class: weight}` (1 where it is missing), or a list of them;
            None: classes count by their nodes.
        columns: a transformer of scikit-learn for the features, cloned and fitted to the rows of the training nodes.
        train_options: further settings of :class:`gpnn.train.Recipe`.
        validation_fraction: share of the training nodes that selects the best weights where `Data` has no
            `val_mask`; 0 keeps the last weights.
        seed: of partition, schedule, weights, masks and validation nodes.
        device: "auto", "cpu", "cuda", ….
        engine: how the training is run, a name of `gpnn.memory.engine.ENGINES`; "auto" is the fastest that fits.
        memory: the most memory of the training, such as "16GiB", or a number of GB; None: most of what is free.
        device_memory: the most memory of a GPU, which is enforced; None: most of what is free there.
        disk: folder for files of states and features when memory is short; None: there are no such files.
        verbose: show the sizes and the engine chosen, the epochs as they pass, and one line at the end.

    Attributes:
        classes_: the classes, `[C]`.
        multilabel_: whether a node may have several of them.
        recipe_: the name of the recipe in use.
        race_: the :class:`gpnn.race.RaceRecord` of what was tried, where there was a race.
        members_: weight and estimator of each other recipe that predicts with it, by name.
        undirected_: whether edges that had no reverse were given one.
        sizes_: the sizes in use: `k`, `rounds`, `hidden_channels`.
        model_: the trained :class:`gpnn.nn.GPNN`.
        partition_: the subgraphs, or None under a schedule that needs none.
        vocabulary_: what columns, classes and edge types of the tables learnt from mean; empty where there were none.
        known_: the nodes learnt from, which keep their subgraphs in a graph that has grown.
        history_: one record per epoch.
        metrics_: final metrics.
        columns_: the fitted `columns`.
        graph_: the graph whose nodes were learnt from, where they were given as nodes of one.
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

    def predict_proba(self, X: Any, *, adjacency: Any = None, graph: Any = None) -> np.ndarray:
        """The probability of each class for every node, or for the nodes `X` of `graph`, `[N, C]`, as in `classes_`.

        The rows sum to one, unless a node may have several labels (`multilabel_`). The graph may be the one
        learnt from, grown since, or another. Nodes learnt from keep their subgraph and their embedding
        (:meth:`gpnn.run.known_nodes.KnownNodes.find` says which they are), new ones join a neighbour's; embeddings need
        a graph that shares nodes with the one learnt from, by their ids.
        """
        outputs = self._outputs(self._read(X, None, adjacency, graph))
        return self.task_.predict(outputs).numpy()

    def predict(self, X: Any, *, adjacency: Any = None, graph: Any = None) -> np.ndarray:
        """The most likely class of every node, `[N]`; multi-label: zeros and ones, `[N, C]`."""
        return self._predict(self._read(X, None, adjacency, graph))

    def _predict(self, given: NodeInput) -> np.ndarray:
        probability = self.task_.predict(self._outputs(given)).numpy()
        return (probability > 0.5).astype(np.int64) if self.multilabel_ else self.classes_[probability.argmax(1)]

    def score(
        self, X: Any, y: Any = None, *, adjacency: Any = None, graph: Any = None, sample_weight: Any = None
    ) -> float:
        """The accuracy over the labelled nodes of `y`, or of a `Data`'s `test_mask` (without one: all).

        Multi-label, a node counts when all its labels are right, as in scikit-learn.
        """
        given = self._read(X, None, adjacency, graph)
        labels, classes = (given.own_labels(), self.classes_) if y is None else encode_labels(y)
        known = given.scored_nodes(labels, all_labels=y is not None)
        truth = labels if self.multilabel_ else classes[labels]
        predicted = self._predict(given)
        return accuracy_score(truth[known], predicted[known], sample_weight=_pick(sample_weight, known))

    def _take_classes(self, data: Data, classes: np.ndarray | None) -> None:
        self.classes_ = np.arange(data.num_classes) if classes is None else classes
        self.multilabel_ = data.y.dim() == 2

    def _learned(self) -> dict[str, Any]:
        return {"classes_": self.classes_.tolist(), "multilabel_": self.multilabel_, "task_": self.task_.to_mapping()}

    def _take_learned(self, saved: Mapping[str, Any]) -> None:
        self.classes_, self.multilabel_ = np.asarray(saved["classes_"]), bool(saved["multilabel_"])
        older = Classification(len(self.classes_), self.multilabel_).to_mapping()  # versions without a temperature
        self.task_ = parse_task(saved.get("task_", older), "classifier.json")
        if not isinstance(self.task_, Classification) or self.task_.multi_label != self.multilabel_:
            raise ValueError(f"the task {self.task_.name}")
        if self.classes_.shape != (self.task_.num_classes,) or self.classes_.dtype.kind == "O":
            raise ValueError(f"classes of shape {list(self.classes_.shape)} for {self.task_.num_classes} outputs")


class GPNNRegressor(RegressorMixin, NodeEstimator):
    """Semi-supervised node regression over PyG's `Data`, or over arrays with NaN for nodes whose number is unknown.

    Targets are standardised inside and predicted in the user's unit; positive, skewed ones are learnt by their
    logarithms where that is better on the validation nodes (`train_options={"target_scale": "linear"}` forbids it). A
    prediction comes with an interval (:class:`gpnn.train.regression.Regression`).

    Args: those of :class:`GPNNClassifier`; there are no classes to weigh.

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

    def predict(
        self, X: Any, *, adjacency: Any = None, graph: Any = None, interval: float | None = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The number of every node, `[N]`; with `interval` also the ends of an interval that holds it, `[N]` each.

        Args:
            X: the graph, as of :meth:`GPNNClassifier.predict_proba`.
            adjacency: as of :meth:`fit`.
            graph: likewise.
            interval: the probability with which the interval holds the number, such as 0.9.
        """
        outputs = self._outputs(self._read(X, None, adjacency, graph))
        task = cast(Regression, self.task_)
        if interval is None:
            return task.predict(outputs)[:, 0].numpy()
        number, low, high = task.predict_interval(outputs, interval).numpy().T
        return number, low, high

    def score(
        self, X: Any, y: Any = None, *, adjacency: Any = None, graph: Any = None, sample_weight: Any = None
    ) -> float:
        """R² over the known numbers of `y`, or of a `Data`'s `test_mask` (without one: all)."""
        given = self._read(X, None, adjacency, graph)
        numbers = given.own_labels() if y is None else encode_numbers(y)
        known = given.scored_nodes(numbers, all_labels=y is not None)
        predicted = self.task_.predict(self._outputs(given))[:, 0]
        return r2_score(numbers[known], predicted[known], sample_weight=_pick(sample_weight, known))

    def _learned(self) -> dict[str, Any]:
        return {"task_": self.task_.to_mapping()}

    def _take_learned(self, saved: Mapping[str, Any]) -> None:
        self.task_ = parse_task(saved["task_"], "regressor.json")


def _pick(weights: Any, known: np.ndarray) -> np.ndarray | None:
    return None if weights is None else np.asarray(weights)[known]
