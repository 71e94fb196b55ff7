"""How tables are read: the user's options, and the meaning of columns, classes and edge types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from typing import Any, TypeAlias

from gpnn.check import check_choice, check_seed
from gpnn.data.labels import TASKS

Name: TypeAlias = str | int


MOST_HASHES = 1 << 16  # features of a column of text
NUMBERS = ("auto", "standard", "normal", "raw")
LISTS = ("categorical", "ignore", "edge_features")  # of columns
ATTRIBUTES = ("label", "categorical", "ignore", "numbers", "undirected", "task", "seed")  # options of any graph
COLUMNS = ("id", "source", "target", "type", "weight", "edge_features", *ATTRIBUTES)  # options of tables


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, which becomes one feature: (value − `mean`) / `deviation`.

    Attributes:
        name: of the column.
        mean, deviation: of the numbers that there are.
        quantiles: of them, in equal steps from the least to the largest, where a number becomes the normal deviate of
            its rank instead; else none.
        gaps: whether some are missing: they count as the mean, and a second feature is 1 for them.
        date: whether the values are dates, which count in days.
    """

    name: str
    mean: float = 0.0
    deviation: float = 1.0
    quantiles: tuple[float, ...] = ()
    gaps: bool = False
    date: bool = False

    @property
    def feature_names(self) -> list[str]:
        return [self.name, *([f"{self.name} is missing"] if self.gaps else [])]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories, which becomes one feature per category: 1 for the category of the node.

    A node whose value is empty, or not one of `categories`, has zeros.
    """

    name: str
    categories: tuple[Name, ...]

    @property
    def feature_names(self) -> list[str]:
        return [f"{self.name}={category}" for category in self.categories]


@dataclass(frozen=True)
class TextColumn:
    """A column of text, whose words become features by their hash: 1 for each of the node's words.

    Attributes:
        name: of the column.
        width: number of features; words with the same hash share one.
    """

    name: str
    width: int

    @property
    def feature_names(self) -> list[str]:
        return [f"{self.name}:{number}" for number in range(self.width)]


Column: TypeAlias = NumberColumn | CategoryColumn | TextColumn


@dataclass(frozen=True)
class Vocabulary:
    """The meaning of a graph's tables.

    Attributes:
        columns: the columns of the nodes that are features, in the order of the features.
        classes: the label of each class, or None where the tables do not name them.
        edge_types: the name of each edge type, or None for a graph of one type.
        edge_columns: the columns of the edges that are features of edges.

    >>> Vocabulary.from_mapping(Vocabulary(classes=("blue", "red")).to_mapping()).classes
    ('blue', 'red')
    """

    columns: tuple[Column, ...] = ()
    classes: tuple[Name, ...] | None = None
    edge_types: tuple[Name, ...] | None = None
    edge_columns: tuple[Column, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        return [name for column in self.columns for name in column.feature_names]

    def to_mapping(self) -> dict[str, Any]:
        """The vocabulary as JSON holds it."""
        return {
            "columns": [_column_mapping(column) for column in self.columns],
            "classes": _listed(self.classes),
            "edge_types": _listed(self.edge_types),
            **(
                {"edge_columns": [_column_mapping(column) for column in self.edge_columns]} if self.edge_columns else {}
            ),
        }

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Vocabulary:
        """The vocabulary that :meth:`to_mapping` wrote.

        Raises:
            ValueError: when it is not a vocabulary.
        """
        try:
            columns = tuple(_read_column(column) for column in mapping["columns"])
            further = tuple(_read_column(column) for column in mapping.get("edge_columns", ()))
            return cls(columns, _tuple(mapping["classes"]), _tuple(mapping["edge_types"]), further)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"A vocabulary must hold columns, classes and edge_types. Got: {error}.") from None


def _column_mapping(column: Column) -> dict[str, Any]:
    if isinstance(column, CategoryColumn):
        return {"name": column.name, "categories": list(column.categories)}
    if isinstance(column, TextColumn):
        return {"name": column.name, "width": column.width}
    further = {"quantiles": list(column.quantiles), "gaps": column.gaps, "date": column.date}
    own = {"name": column.name, "mean": column.mean, "deviation": column.deviation}
    return own | {name: value for name, value in further.items() if value}


def _read_column(mapping: Mapping[str, Any]) -> Column:
    if "categories" in mapping:
        return CategoryColumn(mapping["name"], tuple(mapping["categories"]))
    if "width" in mapping:
        if not 0 < mapping["width"] <= MOST_HASHES:
            raise ValueError(f"a width of {mapping['width']}")
        return TextColumn(mapping["name"], int(mapping["width"]))
    quantiles = tuple(float(each) for each in mapping.get("quantiles", ()))
    if any(not low <= high for low, high in pairwise(quantiles)):
        raise ValueError("quantiles that fall")
    own = (float(mapping["mean"]), float(mapping["deviation"]))
    return NumberColumn(mapping["name"], *own, quantiles, bool(mapping.get("gaps")), bool(mapping.get("date")))


def _listed(names: Sequence[Name] | None) -> list[Name] | None:
    return None if names is None else list(names)


def _tuple(names: Sequence[Name] | None) -> tuple[Name, ...] | None:
    return None if names is None else tuple(names)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """How tables are to be understood; see :func:`gpnn.data.tables.tables`.

    Lists of columns may be given as text, separated by commas.
    """

    label: str = "label"
    categorical: Sequence[str] = ()
    ignore: Sequence[str] = ()
    numbers: str = "auto"
    undirected: bool = False
    seed: int = 0
    vocabulary: Vocabulary | None = None
    task: str = "auto"
    id: str = "id"
    source: str = "source"
    target: str = "target"
    type: str = "type"
    weight: str = "weight"
    edge_features: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in LISTS:
            given = getattr(self, name)
            object.__setattr__(self, name, split_list(given) if isinstance(given, str) else tuple(given))
        check_choice("numbers", self.numbers, NUMBERS)
        check_choice("task", self.task, TASKS)
        check_choice("undirected", self.undirected, (False, True))
        check_seed("seed", self.seed)

    @property
    def node_names(self) -> dict[str, str]:
        """What we call columns of the nodes -> what the user does."""
        known = [] if self.vocabulary is None else [column.name for column in self.vocabulary.columns]
        return {name: name for name in (self.label, "split", *known)} | {"id": self.id}

    @property
    def edge_names(self) -> dict[str, str]:
        """What we call columns of the edges -> what the user does."""
        return {name: getattr(self, name) for name in ("source", "target", "type", "weight")}

    @property
    def edge_columns(self) -> tuple[str, ...]:
        """The columns of the edges that are features: the user's choice, else what a model was trained on."""
        known = () if self.vocabulary is None else self.vocabulary.edge_columns
        return tuple(self.edge_features) or tuple(column.name for column in known)


def split_list(text: str) -> tuple[str, ...]:
    """The names of a list that is separated by commas.

    >>> split_list("age, size")
    ('age', 'size')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def with_choices(options: Sequence[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of a reader of graphs: these options of :class:`Choices` become keyword arguments of it.

    The reader is a function of a source, choices and keyword options of its own; decorated, of the source, a vocabulary
    and all options, which its signature shows with their defaults.

    >>> read = with_choices(("label",))(lambda source, choices: choices.label)
    >>> read("nodes.csv", label="kind"), str(inspect.signature(read))
    ('kind', "(source, vocabulary=None, *, label='label')")
    """
    shared = {name: "" if name in LISTS else getattr(Choices(), name) for name in options}

    def decorate(read: Callable[..., Any]) -> Callable[..., Any]:
        source, _, *own = inspect.signature(read).parameters.values()
        names = {option.name for option in own}

        @wraps(read)
        def reader(source: Any, /, vocabulary: Vocabulary | None = None, **given: Any) -> Any:
            chosen = {name: value for name, value in given.items() if name not in names}
            return read(source, Choices(vocabulary=vocabulary, **chosen), **{n: given[n] for n in names & set(given)})

        vocabulary = inspect.Parameter("vocabulary", source.kind, default=None)
        further = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=shared[name]) for name in options]
        reader.__signature__ = inspect.Signature([source, vocabulary, *own, *further])  # type: ignore[attr-defined]
        return reader

    return decorate
