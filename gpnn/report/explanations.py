"""Why some nodes get their classes: a picture and a table of each, right and wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from gpnn.data.facts import split_mask
from gpnn.explain import Explanation, draw_explanation
from gpnn.report.content import Drawing, Section, Table
from gpnn.report.record import Record

if TYPE_CHECKING:
    from torch_geometric.data import Data

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
    """The picture and the table of an explanation."""
    title = explanation.title + (f" ({about})" if about else "")
    rows = [(name, kind, f"{effect:.3g}") for kind, name, effect in explanation.rows()]
    if not rows:
        return [Table(title, ("", ""), [("nothing whose deletion costs it probability", "")], wide=True, text=True)]
    table = Table(f"Without: {title}", ("", "what", "probability lost"), rows, wide=True, text=True)
    return [Drawing(title, draw_explanation(explanation)), table]
