"""Notes: what a training leaves unused, does otherwise than expected, or ends in, and the setting that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from gpnn.data.labels import are_numbers, labelled_nodes
from gpnn.graph import Graph, as_graph
from gpnn.graph.convert import edge_weight
from gpnn.partition import Partition
from gpnn.partition.partition_graph import is_degenerate
from gpnn.storage.read import shorten

if TYPE_CHECKING:
    from torch_geometric.data import Data


class NoteWarning(UserWarning):
    """The category of notes that :class:`gpnn.GPNNClassifier` warns with."""


@dataclass(frozen=True)
class Note:
    """One note.

    Attributes:
        what: what is not used, or what happens instead.
        setting: what mends it on the command line; "" where nothing need be.
        argument: what mends it in Python.
    """

    what: str
    setting: str = ""
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.setting}" if self.setting else self.what


@dataclass(frozen=True)
class Facts:
    """What notes follow from, of data, partition and model; None where something is not there.

    Attributes:
        num_one_way: distinct edges, loops aside, without a reverse.
        num_edge_types: types of edges.
        num_edge_attributes: columns of `edge_attr` that are not the edges' weight.
        num_validation: labelled validation nodes; None where none are wanted.
        num_parts: subgraphs of the partition.
        largest_part: share of the nodes in the largest of them.
        message: the model's message function, a name of :data:`gpnn.nn.MESSAGES`.
        num_unseen_classes: classes of validation or test nodes that no training node has.
        num_rare_classes: classes that have a training node, but fewer than `FEW` and than half of the mean class.
    """

    num_one_way: int
    num_edge_types: int
    num_edge_attributes: int
    num_validation: int | None = None
    num_parts: int | None = None
    largest_part: float | None = None
    message: str | None = None
    num_unseen_classes: int = 0
    num_rare_classes: int = 0

    @classmethod
    def of(
        cls, data: Data, partition: Partition | None = None, message: str | None = None, *, sends: bool = True
    ) -> Facts:
        """The facts of a dataset, and of its partition and model where they are known.

        A model that sends no messages (`sends` False) loses nothing by the directions and types of edges.
        """
        graph = as_graph(data)
        return cls(
            num_one_way=count_one_way(graph) if sends else 0,
            num_edge_types=graph.num_edge_types if sends else 1,
            num_edge_attributes=_unused_columns(data),
            num_validation=_count_validation(data),
            num_parts=None if partition is None else partition.num_parts,
            largest_part=None if partition is None else int(partition.sizes.max()) / partition.num_nodes,
            message=message,
            num_unseen_classes=_count_unseen(data),
            num_rare_classes=_count_rare(data),
        )

    @classmethod
    def parse(cls, values: Any, file: str) -> Facts:
        """The facts that a file holds as JSON.

        Raises:
            ValueError: when it holds others.
        """
        names = {field.name for field in fields(cls)}
        added = {"num_unseen_classes", "num_rare_classes"}  # shards of older versions do not count them
        if not isinstance(values, Mapping) or not names - added <= set(values) <= names:
            raise ValueError(f"{file} must hold the facts {', '.join(sorted(names))}. Got {shorten(values)}.")
        for name, value in values.items():
            if value is not None and not isinstance(value, str if name == "message" else int | float):
                raise ValueError(f"`{name}` in {file} must be a fact of a graph. Got {shorten(value)}.")
        return cls(**values)


def take_notes(facts: Facts, decided: Iterable[str] | None = None) -> list[Note]:
    """What was decided when the data was read, then the notes on facts of it, in the order of `CHECKS`.

    >>> [str(note) for note in take_notes(Facts(num_one_way=1, num_edge_types=1, num_edge_attributes=0))]
    ['1 edges have no reverse, so that messages go one way along them; data.undirected=true adds it']
    """
    found = [note for check in CHECKS.values() if (note := check(facts)) is not None]
    return [*map(Note, decided or ()), *found]


def _one_way(facts: Facts) -> Note | None:
    if not facts.num_one_way:
        return None
    what = f"{facts.num_one_way:,} edges have no reverse, so that messages go one way along them"
    return Note(what, "data.undirected=true adds it", "torch_geometric.transforms.ToUndirected() adds it")


def _merged_types(facts: Facts) -> Note | None:
    if facts.num_edge_types < 2 or facts.message != "identity":
        return None
    return Note(
        f"{facts.num_edge_types:,} edge types count as one: the message function {facts.message} is the same for all",
        "model.message=linear with model.cell=gru learns a map for each",
        'model_options={"message": "linear"} with cell="gru" learns a map for each',
    )


def _unused_attributes(facts: Facts) -> Note | None:
    if not facts.num_edge_attributes:
        return None
    mend = "edge_weight takes one number per edge, edge_type one type, and gpnn.nn.Scheduled(conv) takes edge_attr"
    return Note(f"edge_attr, of {facts.num_edge_attributes:,} columns, is refused by a training", mend, mend)


def _no_validation(facts: Facts) -> Note | None:
    if facts.num_validation != 0:
        return None
    return Note(
        "no node validates: the weights of the last epoch are kept, and training does not stop early",
        "a column split (or val_mask) names validation nodes, and more labels let some be drawn",
        "val_mask names validation nodes, and more labels let some be drawn",
    )


def _unseen_classes(facts: Facts) -> Note | None:
    if not facts.num_unseen_classes:
        return None
    mend = "training nodes of these classes make them known; a split without a column is drawn class by class"
    return Note(
        f"{facts.num_unseen_classes:,} classes of validation or test nodes have no training node: none of them can be "
        "predicted",
        mend,
        mend,
    )


def _rare_classes(facts: Facts) -> Note | None:
    if not facts.num_rare_classes:
        return None
    rare = "1 class has" if facts.num_rare_classes == 1 else f"{facts.num_rare_classes:,} classes have"
    what = f"{rare} fewer than {FEW} training nodes, and little can be learnt from so few"
    return Note(what, "train.class_weight=balanced weighs them more", 'class_weight="balanced" weighs them more')


def _degenerate_partition(facts: Facts) -> Note | None:
    if facts.num_parts is None or facts.largest_part is None or not is_degenerate(facts.num_parts, facts.largest_part):
        return None
    balance = facts.largest_part * facts.num_parts
    return Note(
        f"the largest of {facts.num_parts:,} subgraphs has {100 * facts.largest_part:.0f} % of the nodes, "
        f"{balance:.1f} times the mean: memory and schedule follow it",
        "partition.method=refined makes them equal",
        'partition="refined" makes them equal',
    )


CHECKS: dict[str, Callable[[Facts], Note | None]] = {
    "one-way edges": _one_way,
    "merged edge types": _merged_types,
    "unused edge attributes": _unused_attributes,
    "no validation": _no_validation,
    "unseen classes": _unseen_classes,
    "rare classes": _rare_classes,
    "degenerate partition": _degenerate_partition,
}


def count_one_way(graph: Graph) -> int:
    """How many distinct edges, loops aside, lack their reverse.

    >>> count_one_way(Graph([0, 1, 1, 1], [1, 0, 2, 1], num_nodes=3))
    1
    """
    from gpnn.partition.neighbours import count_unanswered, survey

    if graph.rows is not None and graph.rows.symmetric:
        return 0
    if graph.rows is not None and graph.rows.by_sender is not None:
        arrays = (graph.rows.ptr, graph.rows.col, *graph.rows.by_sender)
        return int(count_unanswered(*(each.cpu().numpy() for each in arrays)))
    src, dst = graph.src.numpy(), graph.dst.numpy()
    if survey(src, dst)[0]:  # one pass; what follows sorts
        return 0
    proper = src != dst
    src, dst = src[proper], dst[proper]
    pairs = np.minimum(src, dst) * graph.num_nodes + np.maximum(src, dst)
    edges = np.sort(2 * pairs + (src < dst))  # not np.unique, whose hash table takes several times as long
    num_distinct, num_pairs = (np.count_nonzero(np.diff(each)) + 1 for each in (edges, edges >> 1))
    return int(2 * num_pairs - num_distinct)  # a pair counts once or, joined both ways, twice


def _unused_columns(data: Data) -> int:
    attributes = data.get("edge_attr")
    if attributes is None or attributes is edge_weight(data):
        return 0
    return 1 if attributes.dim() == 1 else attributes.shape[1]


def _count_validation(data: Data) -> int | None:
    y, mask = data.get("y"), data.get("val_mask")
    if y is None:
        return None
    return 0 if mask is None else int((mask & labelled_nodes(y)).sum())


def _count_unseen(data: Data) -> int:
    y, masks = data.get("y"), [data.get(name) for name in ("train_mask", "val_mask", "test_mask")]
    if y is None or are_numbers(y) or masks[0] is None:
        return 0
    seen, *judged = (_classes_in(y, mask) for mask in masks if mask is not None)
    return len(set().union(*judged) - seen)


def _count_rare(data: Data) -> int:
    y, mask = data.get("y"), data.get("train_mask")
    if y is None or mask is None or are_numbers(y):
        return 0
    known = y[mask & labelled_nodes(y)]
    counts = known.bincount() if y.dim() == 1 else (known == 1).sum(0)
    mean = counts.double().sum() / max(1, int((counts > 0).sum()))
    return int(((counts > 0) & (counts < FEW) & (counts < mean / 2)).sum())


def _classes_in(y: Tensor, mask: Tensor) -> set[int]:
    """The classes of the labelled nodes of a mask."""
    known = y[mask & labelled_nodes(y)]
    return set((known.unique() if y.dim() == 1 else (known == 1).any(0).nonzero()[:, 0]).tolist())


FEW = 5  # training nodes below which a class is rare, where others have more
RISE, LONG = 2.0, 20  # a validation loss that rose again by so much, over so many epochs, shows overfitting
FAR = 10.0  # a last loss of so many times that of guessing is absurd
TRY = "a smaller gradient norm (`clip`), float32 precision, or features of a smaller scale"


def divergence(what: str, epoch: int, loss: float, rate: float) -> str:
    """The one sentence for a training that diverged.

    Args:
        what: which number is not finite: "loss", "gradient", ….
        epoch: the epoch in which it was found.
        loss: of that epoch.
        rate: its learning rate.

    >>> divergence("loss", 2, float("nan"), 1e30)[:79]
    'The loss is not finite in epoch 2, where the loss is nan: a training that diver'
    """
    return (
        f"The {what} is not finite in epoch {epoch}, where the loss is {loss:g}: a training that diverged has no "
        f"predictions; try a smaller learning rate than {rate:g}, {TRY}."
    )


def training_notes(history: Sequence[Mapping[str, Any]], chance: float) -> list[Note]:
    """The note on a last training loss more than ten times that of guessing; nothing where it is smaller.

    Args:
        history: one record per epoch.
        chance: the loss of guessing, :attr:`gpnn.train.task.Task.chance`.

    >>> [note.what for note in training_notes([{"epoch": 1, "loss": 1e15}], 1.1)]
    ['the training loss ends at 1e+15, more than 10 times that of guessing (1.1): the training may have diverged']
    """
    last = history[-1].get("loss") if history else None
    if last is None or last <= FAR * chance:
        return []
    what = f"the training loss ends at {last:.3g}, more than {FAR:g} times that of guessing ({chance:.1f})"
    return [
        Note(
            f"{what}: the training may have diverged",
            "a smaller train.learning_rate or train.clip, or data.scale_features=rows, may mend it",
            'a smaller learning_rate or clip, or scale_features="rows", may mend it',
        )
    ]


def overfitting_notes(history: Sequence[Mapping[str, Any]]) -> list[Note]:
    """The note on a validation loss that rose again to more than twice its least; nothing where it did not.

    >>> history = [{"epoch": epoch, "val_loss": abs(epoch - 10) + 1} for epoch in range(1, 31)]
    >>> [note.what[:56] for note in overfitting_notes(history)]
    ['it overfits: the validation loss is least in epoch 10 (1']
    """
    checked = [(each["val_loss"], each["epoch"]) for each in history if each.get("val_loss") is not None]
    if not checked:
        return []
    (least, epoch), (last, end) = min(checked), checked[-1]
    if last <= RISE * least or end < LONG:
        return []
    note = Note(
        f"it overfits: the validation loss is least in epoch {epoch:,} ({least:.3g}) and {last:.3g} in the last, "
        f"{end:,}; the weights are those of the best validation",
        "more model.dropout or train.weight_decay, or fewer model.hidden_channels, may mend it",
        "more dropout or weight_decay, or fewer hidden_channels, may mend it",
    )
    return [note]
