"""Nodes worth a look: mistakes, doubts, what to label next, as a table; and why some were predicted so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.data.labels import are_numbers, join_labels, labelled_nodes
from gpnn.data.splits import split_mask
from gpnn.explain import Explanation, draw_explanation
from gpnn.graph import Graph
from gpnn.report.counts import CHUNK, SPLIT_NAMES
from gpnn.report.numbers import View
from gpnn.report.record import Drawing, NodeFacts, Record, Search, Section, Table
from gpnn.run.predictions import true_labels
from gpnn.text import percent, value_text

if TYPE_CHECKING:
    from torch_geometric.data import Data


LONGEST = 60
NARROW = "\u202f"  # a space where no line ends


def nodes(record: Record) -> Section | None:
    """The lists of notable nodes and the sample; None where there is neither."""
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
    columns = ("node", "true", "prediction", *_middle(facts), "split", "subgraph", "edges")
    return Section("nodes", "Nodes", lead, [Search("Find a node", columns, groups)])


def _middle(facts: NodeFacts) -> tuple[str, ...]:
    """The columns between a prediction and where the node is."""
    if facts.numbers is not None:
        return "low", "high"
    return ("least sure label",) if facts.y.dim() == 2 else ("probability", "second choice")


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
    if facts.y.dim() == 2:
        return (_short(facts.names[place]), *_labels(facts, place), *after)
    true, best = int(facts.y[place]), facts.probabilities[place].topk(min(2, facts.probabilities.shape[1]))
    first, *second = [_short(facts.classes[number]) for number in best.indices.tolist()]
    label = "–" if true < 0 else _short(facts.classes[true])
    also = _likely(second[0], best.values[1]) if second else "–"
    return (_short(facts.names[place]), label, first, percent(float(best.values[0])), also, *after)


def _labels(facts: NodeFacts, place: int) -> tuple[str, str, str]:
    """The true labels, those that are predicted, and the one nearest to a half."""
    true, likely = facts.y[place], facts.probabilities[place]
    named = join_labels(torch.stack([true > 0, likely > 0.5]), facts.classes).to_pylist()
    had, predicted = (_short(text) or "none" for text in named)
    nearest = int((likely - 0.5).abs().argmin())
    return "–" if bool((true < 0).any()) else had, predicted, _likely(_short(facts.classes[nearest]), likely[nearest])


def _likely(name: str, probability: Tensor) -> str:
    return f"{name} ({percent(float(probability)).replace(' ', NARROW)})"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


MAX_LISTED = 100
LISTS = ("surest mistakes", "least sure", "without a label", "worth a label next")


def rank_nodes(view: View, held_out: Tensor, degrees: Tensor) -> dict[str, Tensor]:
    """For each list the score of every node, −inf where it does not belong on it, `[n]`.

    A node is worth a label where the model is unsure and many edges meet: (1 − margin)·log(1 + degree), with the margin
    of the best class over the second; of several labels that of yes over no, where it is smallest; of numbers the
    length of the interval stands for 1 − margin. Of several labels the surest mistake has the label furthest off.

    Args:
        view: labels and predictions.
        held_out: which labelled nodes the model was not trained on, `[n]`.
        degrees: edges of each node, `[n]`.
    """
    unlabelled, everywhere = ~labelled_nodes(view.y), torch.ones_like(held_out)
    if view.numbers is not None:
        true, predicted, low, high = view.numbers.nan_to_num(0.0).T
        sure, doubt, wrong = (true - predicted).abs(), high - low, held_out
    elif view.y.dim() == 2:
        likely = view.probabilities.nan_to_num(0.5)
        off = (likely - view.y).abs().amax(1)
        margin = (2 * likely - 1).abs().amin(1)
        doubt, wrong = 1 - margin, held_out & (off >= 0.5)
        sure = torch.where(unlabelled, margin, off)
    else:
        best = view.probabilities.nan_to_num(0.0).topk(min(2, view.probabilities.shape[1]), dim=1).values
        sure, doubt = best[:, 0], 1 - (best[:, 0] - best[:, -1] if best.shape[1] > 1 else best[:, 0])
        wrong = held_out & (view.probabilities.argmax(1) != view.y)
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


def lead_of(explanation: Explanation) -> str:
    """What the effects of an explanation are."""
    numbers = explanation.probability is None
    effect = "by how much its number moves, up or down" if numbers else "the probability that its class loses"
    deleted = "Each edge, neighbour and column was deleted, and the node predicted again"
    return f"{deleted}: the effect is {effect}. An edge goes with its reverse; effects do not add up. "


def explanations(record: Record) -> Section | None:
    """A few right and wrong answers; None where there are no explanations."""
    if not record.explanations:
        return None
    parts = [part for about, why in record.explanations for part in parts_of(why, about)]
    lead = f"{lead_of(record.explanations[0][1])}For others: gpnn explain RUN NODE."
    return Section("explanations", "Why these answers", lead, parts)


def choose_examples(data: Data, predictions: Tensor, seed: int) -> dict[int, str]:
    """Rows of a few held-out nodes, the surest mistakes and some right ones, and what to say of each.

    Of several labels the most likely one counts, which is the one explained, where it is predicted. A number is wrong
    outside of its interval, and the surest mistake is the furthest off.

    Args:
        data: labels and masks.
        predictions: the probability of each class, `[N, C]`, or numbers and their intervals, `[N, 3]`.
        seed: draws the right ones.
    """
    held_out = next((mask for name in ("test", "val") if (mask := split_mask(data, name)).any()), None)
    if held_out is None:
        return {}
    best = predictions.max(1)
    if are_numbers(data.y):
        number, low, high = predictions.T
        sure, good = (number - data.y).abs(), (low <= data.y) & (data.y <= high)
    elif data.y.dim() == 1:
        sure, good = best.values, best.indices == data.y
    else:
        sure, good = best.values, data.y.gather(1, best.indices[:, None])[:, 0] > 0
        held_out = held_out & (sure > 0.5)
    wrong = (held_out & ~good).nonzero().flatten()
    surest = wrong[sure[wrong].argsort(descending=True, stable=True)][:NUM_EACH].tolist()
    right = (held_out & good).nonzero().flatten().numpy()
    drawn = np.random.default_rng(seed).permutation(right)[:NUM_EACH].tolist()
    true = true_labels(data, data.get("class_names"))
    assert true is not None
    called = {row: value_text(true[row].as_py()) or "none" for row in surest}
    return {row: f"wrong: it is {name}" for row, name in called.items()} | dict.fromkeys(drawn, "right")


def parts_of(explanation: Explanation, about: str = "") -> list[Drawing | Table]:
    """The picture of an explanation with its table folded below."""
    title = explanation.title + (f" ({about})" if about else "")
    rows = [(name, kind, lost) for kind, name, lost in explanation.shown()]
    if not rows:
        return [Table(title, ("", ""), [("nothing whose deletion costs it probability", "")], wide=True, text=True)]
    return [
        Drawing(title, draw_explanation(explanation), Table("", ("without", "", explanation.effect), rows, text=True))
    ]
