"""NodeEstimator: what GPNNClassifier and GPNNRegressor share: arguments, training, prediction, saving."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gpnn.check import check_choice, parse_memory
from gpnn.data.arrays import hold_out, kind_of_frame, to_frame
from gpnn.data.features import TYPED, choose_scale, transform_data
from gpnn.data.files import sha256_of
from gpnn.data.labels import check_trainable
from gpnn.data.splits import GraphFacts
from gpnn.data.tables.binary import read_parquet_columns
from gpnn.data.tables.vocabulary import Choices, Vocabulary
from gpnn.explain import Explained
from gpnn.export import check_program, export_models, save_program
from gpnn.incremental.follower import Followed, Follower, start_predictor
from gpnn.kernels.execution import choose_device
from gpnn.nn import NodeModel
from gpnn.nn.columns import ColumnModel
from gpnn.node_input import (
    NodeInput,
    apply_columns,
    check_features,
    fit_columns,
    is_graph,
    read_arrays,
    read_graph,
    read_nodes,
)
from gpnn.partition import Partition
from gpnn.pipeline import Assembly, Auto, Pipeline, Sizes
from gpnn.progress import Progress
from gpnn.race import Finals, RaceRecord, Start, Variants, choose_members, parse_budget, run_race
from gpnn.recipes import AUTO, DEFAULT, OPEN, find_recipe
from gpnn.run.checkpoint import LEAST_BOUND, restore_model
from gpnn.run.folder import RunFolder
from gpnn.run.known_nodes import KnownNodes, RowDigests
from gpnn.run.predictions import known_labels, predictions_table, split_names, true_labels, write_predictions
from gpnn.storage.atomic import make_folder, write_json
from gpnn.storage.read import read_json, shorten
from gpnn.text import in_notebook
from gpnn.train.blend import Blend, blend_predictions
from gpnn.train.evaluate import predict_outputs
from gpnn.train.fit import Callback, FitResult, training_html
from gpnn.train.notes import Note, NoteWarning, take_notes, training_notes
from gpnn.train.recipe import Recipe
from gpnn.train.task import Prediction, Task, parse_task

if TYPE_CHECKING:
    from torch_geometric.data import Data

NODES = "nodes.parquet"  # of a saved estimator
# the arguments of a pipeline, of its model's options and of a recipe
STRUCTURE = (
    "partition",
    "k",
    "schedule",
    "rounds",
    "schedule_options",
    "normalization",
    "self_loops",
    "hidden_channels",
)
CELL = ("cell", "input_dropout", "dropout", "drop_node")
TRAINING = ("epochs", "learning_rate", "weight_decay", "patience")


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
                node); or nodes of `graph`, their ids or, where they have none, their rows, `[n]` or `[n, 1]`.
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
            ValueError: when there is nothing to learn from, or the training diverged.
        """
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
            self._train(data, Path(folder), progress, callbacks)
        if graph is not None:
            self.graph_ = graph
        self._learnt_from, self._follower = (X, adjacency, graph), None
        return self

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

    def _train(self, data: Data, folder: Path, progress: Progress, callbacks: Sequence[Callback]) -> None:
        """Train the recipe, or where that is open the best of a race; a blend adds others where that is better."""
        variants, name = Variants(data), self.recipe or (DEFAULT if self._chooses_model() else AUTO)
        names = choose_members(GraphFacts.of(data)) if name == AUTO else [name]
        settings = {each: self._data_settings(each, variants, race=name == AUTO) for each in names}
        starts = {each: self._start(each, variants.get(**settings[each])) for each in names}
        finals = self._race(starts, folder, progress)
        name, *others = finals.names
        result = self._train_finalist(finals, name, settings[name], progress, callbacks)
        if result.problem is not None or result.task is None:
            del self.model_  # what diverged predicts nothing
            raise ValueError(result.problem)
        self._warn(training_notes(self.history_, self.task_.chance))
        if others and self.blend:
            members = {each: self._member() for each in others}
            for each, member in members.items():
                member._train_finalist(finals, each, settings[each], progress)
            self._blend(members, finals, data)
        self._print(json.dumps(self.metrics_))

    def _start(self, name: str, data: Data) -> Start[Assembly]:
        """How the training of a recipe is built."""

        def build(recipe: Recipe) -> Assembly:
            return self._pipeline(name).assemble(data, recipe, keep_schedule=False).resolve_target_scale()

        return Start(build, self._recipe(name))

    def _race(self, starts: Mapping[str, Start[Assembly]], folder: Path, progress: Progress) -> Finals[Assembly]:
        """The finalists of a race, or the one recipe that there is."""
        if len(starts) == 1:
            return Finals(starts, folder, None)
        self.race_ = run_race(
            starts,
            folder,
            budget=parse_budget(self.budget),
            on_record=self._print_race,
            on_training=progress.rung,
            on_measure=progress.measure,
            callbacks=[progress],
        )
        return Finals(starts, folder, self.race_)

    def _train_finalist(
        self,
        finals: Finals[Assembly],
        name: str,
        settings: Mapping[str, Any],
        progress: Progress,
        callbacks: Sequence[Callback] = (),
    ) -> FitResult:
        """Train the model of a recipe as the estimator's own, over the data with these settings."""
        self.undirected_, self.scale_features_ = settings["undirected"], settings["scale_features"]
        self.recipe_, self.members_ = name, {}

        def begin(made: Assembly) -> Sequence[Callback]:
            self._take_assembly(made)
            progress.stage("training", made.recipe.epochs)
            return [progress, *callbacks]

        result = finals.train(name, begin)[1]
        self.history_, self.metrics_, self.n_iter_ = result.history, result.metrics, len(result.history)
        if result.task is not None:
            self.task_ = self.own_task_ = result.task
        return result

    def _take_assembly(self, made: Assembly) -> None:
        """Take the objects that are about to be trained."""
        self.sizes_, self.partition_ = made.pipeline.sizes, made.partition
        self._take_model(made.model, made.model_arguments)
        self._print(f"{self.sizes_}, {made.plan.num_messages:,} messages per pass, {made.plan.device}")
        if made.engine is not None:
            self._print(f"engine {made.engine}")
        self.known_ = KnownNodes.of(made.data, self.partition_)
        self._warn(self._notes(made), 8)

    def _data_settings(self, name: str, variants: Variants, *, race: bool) -> dict[str, Any]:
        """How a recipe takes the data; reverses are added in a race alone."""
        recipe = find_recipe(name)
        own = variants.settings(recipe) if race else recipe.data_settings(one_way=False, num_edge_types=1)
        scale = own.get("scale_features", "auto") if self.scale_features == "auto" else self.scale_features
        scale = choose_scale(variants.data.get("x")) if scale == "auto" else scale
        return {"undirected": own.get("undirected", False), "scale_features": scale}

    def _member(self) -> Self:
        """An estimator of the same arguments and data for another model, which prints nothing and warns of nothing."""
        member = clone(self).set_params(verbose=False)
        vars(member).update({name: value for name, value in vars(self).items() if name.endswith("_")})
        member.quiet_ = True
        return member

    def _blend(self, members: Mapping[str, Self], finals: Finals[Assembly], data: Data) -> None:
        """Predict together with other finalists of a race where that is better on the validation nodes."""
        self.race_ = finals.choose_blend(data)
        blend = self.race_.blend
        self._print(f"race {blend}")
        if blend is None or not blend.weights:
            return
        self.weight_, *weights = blend.weights.values()
        self.members_ = {name: (weight, members[name]) for name, weight in zip(list(blend.weights)[1:], weights)}
        found = []
        for name, weight in blend.weights.items():
            result = finals.train(name)[1]
            assert result.task is not None
            assert result.logits is not None
            found.append(Prediction(weight, result.task, result.logits))
        self.task_, _, scores = blend_predictions(found, data)
        self.metrics_ = {**self.metrics_, **scores, "num_members": len(found)}

    def _print_race(self, record: RaceRecord) -> None:
        self._print(f"race {record.rows[-1]}" if record.rows else f"race {record}")

    def _outputs(self, given: NodeInput) -> Tensor:
        """What the model, or the blend, gives for every node requested, `[n, num_outputs]`.

        The graph may be the one learnt from, grown since, or another; embeddings know their own graph only. Nodes
        learnt from keep their subgraph, new ones join a neighbour's.
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
            data, pipeline, part = each._place(graph)
            scaled = each.scale_features_ == "rows"
            yield Explained(each.model_, data, pipeline, each.own_task_, part, weight=weight, scaled=scaled)

    def _place(self, data: Data) -> tuple[Data, Pipeline, Partition | None]:
        """A graph as the model takes it, the arguments of its schedule, and the subgraphs of the nodes learnt from."""
        data = transform_data(self._transform_columns(data), undirected=self.undirected_)
        row = self.known_.find(data)
        if isinstance(self.model_, ColumnModel):
            self.model_.move_labels(torch.from_numpy(row))
        part = None if self.partition_ is None else self.known_.partition(data, row)
        return data, replace(self._pipeline(), **asdict(self.sizes_)), part

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
        undirected: bool = False,
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
            undirected: when a graph starts: whether edges come and go both ways, each distinct one once. A graph whose
                edges were given their reverse in :meth:`fit` has it so.
            columns: names of the columns `id`, `source`, `target`, `type`, `weight` and `label`, as of
                :func:`gpnn.from_frames`.

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
        choices = Choices(vocabulary=self.vocabulary_, **columns)  # type: ignore[arg-type]
        table = self._follower.update(nodes, edges, removed_nodes, removed_edges, ids, choices)
        return to_frame(table, kind_of_frame(edges if nodes is None else nodes))

    def _follow(self, start: tuple[Any, Any, Any] | None, undirected: bool) -> Follower:
        if start is None:
            raise ValueError("`graph` must be the graph before the change, where the estimator was loaded. Got none.")
        X, adjacency, graph = start
        data = self._read(X, None, adjacency, graph).data
        models = [self._followed(data, self.weight_ if self.members_ else 1.0, undirected)]
        models += [member._followed(data, weight, undirected) for weight, member in self.members_.values()]
        return Follower(models, data, self.task_, self._class_names())

    def _followed(self, data: Data, weight: float, undirected: bool) -> Followed:
        """The estimator's own model and a graph, which it follows."""
        placed, pipeline, _ = self._place(data)
        both_ways = self.undirected_ or undirected
        predictor = start_predictor(self.model_, placed, pipeline, self.known_, undirected=both_ways)
        return Followed(weight, self.own_task_, predictor, self._transform_columns)

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
            return to_frame(self._follower.table(), None)
        given = self._read(X, None, adjacency, graph)
        data = given.data
        _check_meaning(data.get("vocabulary"), self.vocabulary_)
        classes = self._class_names()
        table = predictions_table(
            self.task_.columns(self.task_.predict(self._outputs(replace(given, rows=None))), classes),
            nodes=data.get("node_name"),
            labelled=known_labels(data),
            label=true_labels(data, classes),
            also={"split": split_names(data)},
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
        if hasattr(self, "columns_"):
            raise ValueError("`save` pickles nothing, and so keeps no transformer of scikit-learn. Got `columns`.")
        run = RunFolder(Path(folder))
        make_folder(run.path)
        for name, (_, member) in self.members_.items():
            member.save(run.members / name)
        run.write_model(self.model_.state_dict(), self.model_arguments_)
        nodes, digests = run.path / NODES, self.known_.digests
        write_predictions([self.known_.to_table()], nodes)
        learned = {"sizes_": asdict(self.sizes_), "scale_features_": self.scale_features_, **self._learned()}
        learned |= {"recipe_": self.recipe_, "undirected_": self.undirected_}
        learned["vocabulary_"] = self.vocabulary_.to_mapping()
        if self.members_:
            weights = {self.recipe_: self.weight_, **{name: weight for name, (weight, _) in self.members_.items()}}
            sealed = {name: sha256_of(run.members / name / f"{self.kind}.json") for name in self.members_}
            own_task = self.own_task_.to_mapping()
            learned["blend_"] = {**Blend(weights).to_mapping(), "task": own_task, "sha256": sealed}
        learned["rows_"] = None if digests is None else digests._asdict()
        measured = {"metrics_": self.metrics_, "n_iter_": self.n_iter_}
        # what a kill leaves of two estimators is not an estimator
        whole = {"model_sha256": sha256_of(run.model), "nodes_sha256": sha256_of(nodes)}
        write_json(run.path / f"{self.kind}.json", {"parameters": self.get_params(), **learned, **measured, **whole})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The estimator that :meth:`save` wrote; nothing is unpickled.

        Raises:
            ValueError: when the folder holds none.
        """
        path = Path(folder)
        try:
            saved = read_json(path / f"{cls.kind}.json")
            found = cls(**saved["parameters"])
            found.sizes_ = Sizes(**saved["sizes_"])
            if not isinstance(found.sizes_.rounds, int) or found.sizes_.rounds > LEAST_BOUND:
                raise ValueError(f"{shorten(found.sizes_.rounds)} rounds")
            found.metrics_, found.scale_features_ = saved["metrics_"], saved["scale_features_"]
            found.n_iter_ = saved["n_iter_"]
            found.recipe_ = saved.get("recipe_") or found.recipe or DEFAULT  # older versions have no race
            find_recipe(found.recipe_)
            found.undirected_ = saved.get("undirected_", False)
            check_choice("undirected_", found.undirected_, (False, True, TYPED))
            words = saved.get("vocabulary_")  # older versions have none
            found.vocabulary_ = Vocabulary() if words is None else Vocabulary.from_mapping(words)
            found._take_learned(saved)
            found._take_members(path, saved.get("blend_"))
            if saved["model_sha256"] != sha256_of(path / "model.safetensors"):
                raise ValueError("the model of another")
            found._take_nodes(_read_nodes(path, saved, f"{cls.kind}.json"))
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{str(path)!r} must hold a saved {cls.kind}. Got: {str(error)[:100]}.") from None
        weights, arguments = RunFolder(path).read_model()
        if arguments.get("out_channels") != found.task_.num_outputs:
            raise ValueError(f"{str(path)!r} must hold a saved {cls.kind}. Got a model with other outputs.")
        found._take_model(restore_model(arguments, weights, "model.safetensors"), arguments)
        return found

    def _take_members(self, path: Path, saved: Mapping[str, Any] | None) -> None:
        """Take the other models of a blend back from a saved estimator, which may have none."""
        self.members_, self.own_task_ = {}, self.task_
        if saved is None:
            return
        (_, self.weight_), *others = Blend.from_mapping(saved).weights.items()
        self.own_task_ = parse_task(saved["task"], f"{self.kind}.json")
        for name, weight in others:
            find_recipe(name)
            if saved["sha256"][name] != sha256_of(path / "members" / name / f"{self.kind}.json"):
                raise ValueError("the member of another")
            self.members_[name] = weight, type(self).load(path / "members" / name)

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
        x = X if adjacency is None else check_features(self, X, reset=reset)
        return read_arrays(x, y, adjacency, self.task_name, sample_weight)

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

    def _notes(self, made: Assembly) -> list[Note]:
        """What the training does not use; without validation nodes only where some were wanted."""
        wanted = self.validation_fraction or made.data.get("val_mask") is not None
        return take_notes(made.facts if wanted else replace(made.facts, num_validation=None))

    def _warn(self, notes: list[Note], stacklevel: int = 4) -> None:
        for note in () if self.quiet_ else notes:  # at the line that called fit
            warnings.warn(f"{note.what}; {note.argument}", NoteWarning, stacklevel=stacklevel)

    def _print(self, text: str) -> None:
        if self.verbose:
            print(f"{type(self).__name__}: {text}")

    def _chooses_model(self) -> bool:
        """Whether an argument chose the model, or how it is trained, so that there is nothing to race for."""
        open_ones = set(self.train_options or ()) <= set(OPEN)
        return bool(self._given(*STRUCTURE, *CELL, *TRAINING, "model_options")) or not open_ones

    def _recipe(self, name: str) -> Recipe:
        weight = {} if self.class_weight_ is None else {"class_weight": self.class_weight_}
        return replace(find_recipe(name).train, **{**self._given(*TRAINING), **weight, **(self.train_options or {})})

    def _pipeline(self, name: str | None = None) -> Pipeline:
        pipeline = find_recipe(name or self.recipe_).pipeline
        options = {**pipeline.model_options, **self._given(*CELL)}
        options |= self.model_options or {}
        start = options.pop("embedding_start", pipeline.embedding_start)
        own = self._given(*STRUCTURE, "seed", "device", "engine", "disk")
        if pipeline.schedule == "auto":
            own.setdefault("schedule", "partitioned")  # which a saved estimator need not name
        own |= {name: parse_memory(name, size) for name, size in self._given("memory", "device_memory").items()}
        return replace(pipeline, **own, model_options=options, embedding_start=start)

    def _given(self, *names: str) -> dict[str, Any]:
        """The arguments of these names that are not None."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}

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


def _read_nodes(path: Path, saved: Mapping[str, Any], file: str) -> KnownNodes:
    """The nodes of a saved estimator, also of older versions, which knew them by their edges."""
    if "nodes_sha256" not in saved:
        import pyarrow

        stored = path / "partition.safetensors"
        labels = Partition.load(stored).labels.numpy() if stored.exists() else None
        rows = pyarrow.array(np.arange(0 if labels is None else len(labels)))
        return KnownNodes(rows, labels, RowDigests(saved["graph_"], ""))
    if saved["nodes_sha256"] != sha256_of(path / NODES):
        raise ValueError("the nodes of another")
    rows = saved["rows_"]
    digests = None if rows is None else RowDigests.parse(rows, file)
    return KnownNodes.from_table(read_parquet_columns(path / NODES), digests, NODES)
