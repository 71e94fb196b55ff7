"""Divergence: the sentence and the note on a training whose numbers are no longer finite, or finite and absurd."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gpnn.train.notes import Note

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


def training_notes(history: Sequence[Mapping[str, Any]], num_classes: int, *, multi_label: bool) -> list[Note]:
    """The note on a last training loss more than ten times that of guessing; nothing where it is smaller.

    Guessing costs log C, or log 2 per label where a node may have several.

    >>> [note.what for note in training_notes([{"epoch": 1, "loss": 1e15}], 3, multi_label=False)]
    ['the training loss ends at 1e+15, more than 10 times that of guessing (1.1): the training may have diverged']
    """
    chance, last = math.log(2 if multi_label else max(2, num_classes)), history[-1].get("loss") if history else None
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
