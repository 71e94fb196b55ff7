"""Divergence: what is said of a training whose numbers are no longer finite."""

from __future__ import annotations

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
