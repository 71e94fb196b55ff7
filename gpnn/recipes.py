"""RECIPES: what a model is and how it is trained, by a name that means the same in Python and on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpnn.check import check_choice
from gpnn.data.features import DIRECTIONS, TYPED, Undirected
from gpnn.data.splits import GraphFacts
from gpnn.pipeline import MOST_TYPES, Pipeline
from gpnn.train.recipe import DEFAULT_RECIPE, Recipe

EXACT = "float32"  # the precision that rounds nothing else


@dataclass(frozen=True)
class NamedRecipe:
    """One recipe of `RECIPES`.

    Attributes:
        about: the recipe in a line.
        pipeline: partition, schedule and model.
        train: the settings of :func:`gpnn.train.fit`.
        suits: whether a race tries it on a graph with these facts.
        in_shards: whether several processes can train it.
        undirected: what a race does where edges have no reverse, so that messages go both ways: it adds it (True), or
            adds that of every edge as another type ("typed"), for a model that learns a map per type and direction, or
            as the other one of two types ("directions"), for one that learns a map per direction alone; a recipe that
            knows the direction of edges takes them as they are (False).
        scale_features: how features are scaled, "auto" or "none", unless that is set.
        random: whether another seed gives another model.
    """

    about: str
    pipeline: Pipeline
    train: Recipe
    suits: Callable[[GraphFacts], bool] = lambda facts: True
    in_shards: bool = True
    undirected: Undirected = False
    scale_features: Literal["auto", "none"] = "auto"
    random: bool = True

    @property
    def train_settings(self) -> dict[str, Any]:
        """What a race sets of the training, unless it is set: numbers are rounded by name only."""
        return {} if self.train.precision == EXACT else {"precision": EXACT}

    def data_settings(self, *, one_way: bool, num_edge_types: int) -> dict[str, Any]:
        """What a race sets of the data: `undirected` where edges have no reverse, `scale_features` where not "auto".

        Args:
            one_way: whether there are edges without a reverse.
            num_edge_types: types of edges; too many have no map of their own, but each direction has one.
        """
        many = self.undirected == TYPED and 2 * num_edge_types > MOST_TYPES
        reverse = DIRECTIONS if many else self.undirected
        found: dict[str, Any] = {"undirected": reverse} if one_way and self.undirected else {}
        return found if self.scale_features == "auto" else found | {"scale_features": self.scale_features}


MANY_LABELS, FEW_COLUMNS = 200, 32  # from where on, and up to where, cells of many rounds learn what few labels cannot
FEW_LABELS = 50  # per class, up to which random passes that agree tell more than the labels
SMALL_VOCABULARY = 1000  # columns that propagate themselves
MANY_COLUMNS = 4096  # from where on a labelled node has but few of them, as the rule of the weight decay has it
ALIKE = 0.2  # assortativity from which on neighbours are alike
MOST_ROWS = 50_000  # nodes whose rows of a propagation matrix are soon found
SEEDS_APART = 1_000_000  # of the trainings of one recipe in a race
LARGE_GRAPH = 1_000_000  # nodes from which on a race tries what keeps no state of the whole graph
AUTO = "auto"  # the name that stands for the best of them, found by a race
LARGE = "large"  # the recipe that keeps none
DEFAULT = "spread"  # the recipe that settings of a model or a training change where none is named
# Settings of a training that leave the choice of a recipe open, so that a race keeps them.
OPEN = ("metric", "class_weight", "precision", "target_scale", "checkpoint_every", "checkpoint_seconds")


def _can_be_deep(facts: GraphFacts) -> bool:
    return facts.num_labels >= MANY_LABELS or facts.num_columns <= FEW_COLUMNS


def _are_alike(facts: GraphFacts) -> bool:
    return facts.assortativity is None or facts.assortativity >= ALIKE


def _can_average(facts: GraphFacts) -> bool:
    return _are_alike(facts) and facts.num_columns > 0 and facts.labels_per_class <= FEW_LABELS


def _can_sample(facts: GraphFacts) -> bool:
    return _can_average(facts) and facts.num_nodes <= MOST_ROWS


def _has_many_columns(facts: GraphFacts) -> bool:
    return facts.num_columns > MANY_COLUMNS and facts.rows_differ and _can_average(facts)


_SPREAD = Pipeline(
    partition="auto",
    schedule="auto",
    normalization="symmetric_split",
    self_loops=True,
    model_options={"cell": "linear", "input_dropout": 0.5, "dropout": 0.2, "drop_node": 0.5},
)

_AVERAGED = Pipeline(
    partition="auto",
    schedule="auto",
    rounds=6,
    normalization="symmetric_split",
    self_loops=True,
    hidden_channels=128,
    model_options={
        "cell": "linear",
        "predict": "after",
        "readout": "mean",
        "cell_options": {"alpha": 0.0},
        "input_dropout": 0.6,
        "dropout": 0.7,
        "drop_node": 0.5,
    },
)
_SHARP = replace(
    DEFAULT_RECIPE, epochs=500, patience=200, consistency=1.5, temperature=0.3, weight_decay=2e-4, clip=0.0
)

_SAMPLED = Pipeline(
    schedule="synchronous",
    rounds=10,
    normalization="graph",
    self_loops=True,
    hidden_channels=64,
    model_options={
        "cell": "linear",
        "cell_options": {"alpha": 0.2},
        "predict": "features",
        "readout": "last",
        "input_dropout": 0.5,
        "dropout": 0.2,
        "drop_node": 0.5,
    },
)
_BATCHES = Recipe(
    epochs=450,
    patience=150,
    self_training="auto",
    weight_decay=1e-3,
    clip=0.0,
    passes=2,
    batch=100,
    consistency=1.5,
    consistency_warmup=100,
    temperature=0.1,
)

_CONVOLUTIONS = Pipeline(
    schedule="synchronous",
    rounds=4,
    normalization="symmetric_split",
    self_loops=True,
    hidden_channels=64,
    model_options={"sharing": "round", "concat": "none"},
)
_LEVEL = Recipe(epochs=400, patience=100, tolerance=0.001, weight_decay="auto")  # ends where the curve is level

RECIPES: dict[str, NamedRecipe] = {
    "sparse": NamedRecipe(
        "scores of sparse features as they are, propagated with a teleport; random passes agree a little",
        Pipeline(
            partition="auto",
            schedule="auto",
            rounds=10,
            normalization="split",
            self_loops=True,
            hidden_channels=128,
            model_options={
                "cell": "linear",
                "cell_options": {"alpha": 0.1},
                "readout": "last",
                "input_dropout": 0.3,
                "dropout": 0.2,
                "drop_node": 0.5,
            },
        ),
        replace(DEFAULT_RECIPE, epochs=300, consistency=0.25, consistency_warmup=50),
        suits=_has_many_columns,
        in_shards=False,  # whose features are scaled already
        undirected=True,
        scale_features="none",
    ),
    "spread": NamedRecipe(
        "scores of the features, propagated by the linear cell; random passes agree with their sharpened average",
        _SPREAD,
        DEFAULT_RECIPE,
        undirected=True,
    ),
    "raw": NamedRecipe(
        "the same of features as they are, whose rows have different lengths",
        _SPREAD,
        DEFAULT_RECIPE,
        suits=lambda facts: facts.rows_differ,
        in_shards=False,  # whose features are scaled already
        undirected=True,
        scale_features="none",
    ),
    "averaged": NamedRecipe(
        "states of the features, averaged over the rounds, with much dropout; random passes agree more sharply",
        _AVERAGED,
        _SHARP,
        suits=lambda facts: _can_average(facts) and not facts.can_self_train,
        undirected=True,
    ),
    "self_trained": NamedRecipe(
        "the same in three generations, each of which learns what the one before predicts of nodes without a label",
        _AVERAGED,
        replace(_SHARP, epochs=450, patience=150, self_training=150),
        suits=lambda facts: _can_average(facts) and facts.can_self_train,
        in_shards=False,
        undirected=True,
    ),
    "smoothed": NamedRecipe(
        "the features themselves, averaged over the rounds and standardised, through two layers; random passes agree",
        Pipeline(
            partition="auto",
            schedule="auto",
            rounds=5,
            normalization="symmetric_split",
            self_loops=True,
            hidden_channels=32,
            model_options={
                "cell": "linear",
                "predict": "features",
                "readout": "mean",
                "norm": "batch",
                "cell_options": {"alpha": 0.0},
                "input_dropout": 0.6,
                "dropout": 0.8,
                "drop_node": 0.5,
            },
        ),
        replace(DEFAULT_RECIPE, epochs=300, temperature=0.2, weight_decay=1e-3, learning_rate=0.2, clip=0.0),
        suits=lambda facts: _can_average(facts) and facts.num_columns <= SMALL_VOCABULARY,
        in_shards=False,
        undirected=True,
    ),
    "convolution": NamedRecipe(
        "a graph convolution per round, beside a share of the initial states; features as they are",
        replace(
            _CONVOLUTIONS,
            model_options={
                **_CONVOLUTIONS.model_options,
                "cell": "gcnii",
                "input_dropout": 0.5,
                "dropout": 0.5,
            },
        ),
        _LEVEL,
        undirected=True,
        scale_features="none",
    ),
    "residual": NamedRecipe(
        "a graph convolution per round, behind layer normalisation, in a residual connection, with much dropout",
        replace(
            _CONVOLUTIONS,
            model_options={
                **_CONVOLUTIONS.model_options,
                "cell": "residual",
                "message": "auto",
                "input_dropout": 0.5,
                "update_dropout": 0.5,
                "dropout": 0.5,
            },
        ),
        _LEVEL,
        undirected=TYPED,
        scale_features="none",
    ),
    "gcn": NamedRecipe(
        "the same without a weight for a node's own state, with little dropout",
        replace(
            _CONVOLUTIONS,
            model_options={
                **_CONVOLUTIONS.model_options,
                "cell": "gcn_residual",
                "encoder": [64],
                "input_dropout": 0.2,
                "update_dropout": 0.2,
                "dropout": 0.2,
            },
        ),
        replace(_LEVEL, learning_rate=0.003),
        suits=lambda facts: _can_be_deep(facts) and _are_alike(facts),
        undirected=True,
        scale_features="none",
    ),
    "deep": NamedRecipe(
        "convolutions as of `residual` over eight rounds of the neighbours' mean, with little dropout",
        Pipeline(
            schedule="synchronous",
            rounds=8,
            normalization="graph",
            hidden_channels=64,
            model_options={
                "cell": "residual",
                "sharing": "round",
                "message": "auto",
                "concat": "none",
                "encoder": [64],
                "update_dropout": 0.2,
                "dropout": 0.2,
            },
        ),
        replace(_LEVEL, learning_rate=0.003),
        suits=_can_be_deep,
        undirected=DIRECTIONS,
        scale_features="none",
    ),
    "sage": NamedRecipe(
        "a convolution of own state and neighbours' mean per round, with batch normalisation and a residual connection",
        Pipeline(
            schedule="synchronous",
            rounds=6,
            normalization="graph",
            hidden_channels=64,
            model_options={
                "cell": "batch_residual",
                "sharing": "round",
                "message": "auto",
                "concat": "none",
                "encoder": [64],
                "norm": "batch",
                "update_dropout": 0.3,
                "dropout": 0.3,
            },
        ),
        replace(_LEVEL, learning_rate=0.003),
        suits=_can_be_deep,
        in_shards=False,  # batch normalisation sees all nodes
        undirected=DIRECTIONS,
        scale_features="none",
    ),
    "gated": NamedRecipe(
        "states of the GRU cell over ten rounds, with batch normalisation; no node is dropped",
        Pipeline(
            partition="auto",
            schedule="auto",
            rounds=10,
            normalization="graph",
            hidden_channels=64,
            model_options={"cell": "gru", "norm": "batch", "dropout": 0.2},
        ),
        _LEVEL,
        suits=_can_be_deep,
        in_shards=False,  # batch normalisation sees all nodes
        undirected=True,
    ),
    LARGE: NamedRecipe(
        "states of the GRU cell, the cut held for three steps, in 16 bits: for graphs of many millions of nodes",
        Pipeline(
            partition="clustered",
            schedule="held_cut",
            rounds=1,
            schedule_options={"intra": 3},
            normalization="symmetric_split",
            self_loops=True,
            hidden_channels=128,
            model_options={"cell": "gru", "concat": "none", "dropout": 0.0},
        ),
        Recipe(epochs=100, patience=10, tolerance=0.001, weight_decay="auto", precision="bf16_states", check_every=5),
        suits=lambda facts: facts.num_nodes >= LARGE_GRAPH,
        in_shards=False,
        scale_features="none",
    ),
    "sampled": NamedRecipe(
        "propagated features through two layers, in mini-batches whose random passes agree, and in three generations",
        _SAMPLED,
        _BATCHES,
        suits=lambda facts: _can_sample(facts) and facts.num_columns > SMALL_VOCABULARY,
        in_shards=False,
        undirected=True,
    ),
    "sampled_unit": NamedRecipe(
        "the same of few columns: rows scaled to length one, columns standardised, few labelled nodes at a time",
        replace(_SAMPLED, model_options={**_SAMPLED.model_options, "norm": "unit", "input_dropout": 0.2}),
        replace(_BATCHES, labelled=5, clip=0.1, weight_decay=1e-2),
        suits=lambda facts: _can_sample(facts) and facts.num_columns <= SMALL_VOCABULARY,
        in_shards=False,
        undirected=True,
    ),
    "features": NamedRecipe(
        "a node's own features through two layers, with batch normalisation; the graph is not used",
        Pipeline(
            schedule="synchronous",
            rounds=0,
            hidden_channels=128,
            model_options={
                "cell": "linear",
                "readout": "last",
                "norm": "batch",
                "input_dropout": 0.2,
                "dropout": 0.5,
            },
        ),
        Recipe(epochs=DEFAULT_RECIPE.epochs, patience=DEFAULT_RECIPE.patience, weight_decay="auto"),
        suits=lambda facts: facts.num_columns > 0,
        in_shards=False,
    ),
    "columns": NamedRecipe(
        "ridge regression or boosted trees on a node's columns, its neighbours' and their training labels",
        Pipeline(schedule="synchronous", rounds=3, model="columns"),
        Recipe(epochs=16, patience=0),  # it has fewer settings
        in_shards=False,
        random=False,
    ),
}


def find_recipe(name: str) -> NamedRecipe:
    """The recipe of this name.

    Raises:
        ValueError: when there is none, with the names that there are.

    >>> find_recipe("gated").pipeline.rounds
    10
    """
    check_choice("recipe", name, RECIPES)
    return RECIPES[name]


def name_training(recipe: str, number: int) -> str:
    """The name of a recipe's training in a race, which has a seed of its own.

    >>> name_training("gated", 1), name_training("gated", 2)
    ('gated', 'gated.2')
    """
    return recipe if number == 1 else f"{recipe}.{number}"


def parse_training(name: str) -> tuple[str, int]:
    """The recipe of a training of that name, and its number.

    >>> parse_training("gated"), parse_training("gated.2")
    (('gated', 1), ('gated', 2))
    """
    recipe, _, number = name.partition(".")
    return (recipe, int(number)) if number.isdecimal() else (name, 1)


def training_seed(seed: int, number: int) -> int:
    """The seed of a training of that number in a race of this seed.

    >>> training_seed(7, 1), training_seed(7, 2)
    (7, 1000007)
    """
    return seed + SEEDS_APART * (number - 1)
