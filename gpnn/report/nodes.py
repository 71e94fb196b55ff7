"""Nodes worth a look: mistakes, doubts, what to label next, as a table; and why some were predicted so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.data.splits import split_mask
from gpnn.explain import Explanation, draw_explanation
from gpnn.graph import Graph
from gpnn.report.counts import CHUNK, SPLIT_NAMES
from gpnn.report.numbers import View
from gpnn.report.record import Drawing, NodeFacts, Record, Search, Section, Table
from gpnn.text import percent

if TYPE_CHECKING:
    from torch_geometric.data import Data


LONGEST = 60
NARROW = "\u202f"  # a space where no line ends


def nodes(record: Record) -> Section | None:
    """The lists of notable nodes and the sample; None where nodes have several labels."""
    if record.notable is None:
        return None
    facts, lists = record.notable.facts, record.notable.lists
    groups = {name: _rows(facts, lists[name]) for name in LISTS if lists.get(name)}
    if record.sample is not None:
        some, number = record.sample.facts, record.sample.num_nodes
        name = "all nodes" if len(some.names) == number else f"{len(some.names):,} drawn at random"
        groups[name] = _rows(some, range(len(some.names)))
    if not groups:
        return None
    lead = (
        f"At most {MAX_LISTED} of each. Mistakes are among the held-out nodes. Worth a label next are nodes without "
        "one, where the model is unsure and many edges meet."
    )
    middle = ("probability", "second choice") if facts.numbers is None else ("low", "high")
    columns = ("node", "true", "prediction", *middle, "split", "subgraph", "edges")
    return Section("nodes", "Nodes", lead, [Search("Find a node", columns, groups)])


def _rows(facts: NodeFacts, places: range | list[int]) -> list[tuple[str, ...]]:
    return [_row(facts, place) for place in places]


def _row(facts: NodeFacts, place: int) -> tuple[str, ...]:
    split = int(facts.splits[place])
    where = "–" if facts.parts is None else str(int(facts.parts[place]))
    degree = "–" if facts.degrees is None else f"{int(facts.degrees[place]):,}"
    after = ("–" if split < 0 else list(SPLIT_NAMES.values())[split], where, degree)
    if facts.numbers is not None:
        values = [f"{value:.4g}" if value == value else "–" for value in facts.numbers[place].tolist()]
        return (_short(facts.names[place]), *values, *after)
    true, best = int(facts.y[place]), facts.probabilities[place].topk(min(2, facts.probabilities.shape[1]))
    first, *second = [_short(facts.classes[number]) for number in best.indices.tolist()]
    label = "–" if true < 0 else _short(facts.classes[true])
    also = f"{second[0]} ({percent(float(best.values[1])).replace(' ', NARROW)})" if second else "–"
    return (_short(facts.names[place]), label, first, percent(float(best.values[0])), also, *after)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


MAX_LISTED = 100
LISTS = ("surest mistakes", "least sure", "without a label", "worth a label next")


def rank_nodes(view: View, held_out: Tensor, degrees: Tensor) -> dict[str, Tensor]:
    """For each list the score of every node, −inf where it does not belong on it, `[n]`; none with several labels.

    A node is worth a label where the model is unsure and many edges meet: (1 − margin)·log(1 + degree), with the margin
    of the best class over the second; of numbers the length of the interval stands for 1 − margin.

    Args:
        view: labels and predictions.
        held_out: which labelled nodes the model was not trained on, `[n]`.
        degrees: edges of each node, `[n]`.
    """
    if view.y.dim() == 2:
        return {}
    if view.numbers is None:
        best = view.probabilities.nan_to_num(0.0).topk(min(2, view.probabilities.shape[1]), dim=1).values
        sure, doubt = best[:, 0], 1 - (best[:, 0] - best[:, -1] if best.shape[1] > 1 else best[:, 0])
        wrong = held_out & (view.probabilities.argmax(1) != view.y)
    else:
        true, predicted, low, high = view.numbers.nan_to_num(0.0).T
        sure, doubt, wrong = (true - predicted).abs(), high - low, held_out
    unlabelled, everywhere = view.y < 0, torch.ones_like(held_out)
    scores = (sure, doubt, sure if view.numbers is None else -doubt, doubt * torch.log1p(degrees.double()))
    members = (wrong, everywhere, unlabelled, unlabelled)
    kept = [torch.where(on, score.double(), -torch.inf) for score, on in zip(scores, members)]
    return dict(zip(LISTS, kept))


def first_nodes(scores: Tensor) -> Tensor:
    """The nodes of a list with the highest scores, at most a hundred, highest first."""
    best = scores.topk(min(MAX_LISTED, len(scores)))
    return best.indices[best.values > -torch.inf]


def count_degrees(graph: Graph) -> Tensor:
    """The edges into and out of each node, `[N]`.

    >>> count_degrees(Graph([0, 0], [1, 2], num_nodes=3)).tolist()
    [2, 1, 1]
    """
    degrees = torch.zeros(graph.num_nodes, dtype=torch.int64)
    for src, dst in graph.edge_chunks(CHUNK):
        degrees += torch.bincount(src, minlength=graph.num_nodes) + torch.bincount(dst, minlength=graph.num_nodes)
    return degrees


NUM_EACH = 3  # wrong, and as many right
MAX_EXPLAINED = 20_000  # nodes of a graph whose report explains some

LEAD = (
    "Each edge, neighbour and column was deleted, and the node predicted again: the effect is the probability that its "
    "class loses. An edge goes with its reverse; effects do not add up. "
)


def explanations(record: Record) -> Section | None:
    """A few right and wrong answers; None where there are no explanations."""
    if not record.explanations:
        return None
    parts = [part for about, why in record.explanations for part in parts_of(why, about)]
    return Section("explanations", "Why these answers", f"{LEAD}For others: gpnn explain RUN NODE.", parts)


def choose_examples(data: Data, predictions: Tensor, seed: int) -> dict[int, str]:
    """Rows of a few held-out nodes, the surest mistakes and some right ones, and what to say of each.

    Args:
        data: labels and masks.
        predictions: the probability of each class, `[N, C]`.
        seed: draws the right ones.
    """
    held_out = next((mask for name in ("test", "val") if (mask := split_mask(data, name)).any()), None)
    if held_out is None or data.y.dim() != 1:
        return {}
    names, predicted = data.get("class_names"), predictions.argmax(1)
    wrong = (held_out & (predicted != data.y)).nonzero().flatten()
    surest = wrong[predictions[wrong].amax(1).argsort(descending=True, stable=True)][:NUM_EACH].tolist()
    right = (held_out & (predicted == data.y)).nonzero().flatten().numpy()
    drawn = np.random.default_rng(seed).permutation(right)[:NUM_EACH].tolist()
    true = {row: int(data.y[row]) for row in surest}
    called = {row: label if names is None else names[label] for row, label in true.items()}
    return {row: f"wrong: it is {called[row]}" for row in surest} | dict.fromkeys(drawn, "right")


def parts_of(explanation: Explanation, about: str = "") -> list[Drawing | Table]:
    """The picture of an explanation with its table folded below."""
    title = explanation.title + (f" ({about})" if about else "")
    rows = [(name, kind, lost) for kind, name, lost in explanation.shown()]
    if not rows:
        return [Table(title, ("", ""), [("nothing whose deletion costs it probability", "")], wide=True, text=True)]
    return [
        Drawing(title, draw_explanation(explanation), Table("", ("without", "", "probability lost"), rows, text=True))
    ]
