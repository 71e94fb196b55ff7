"""TensorBoard: a callback that draws a training's curves, on request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnn.check import import_extra

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """The callback that writes every metric of every epoch as scalars; look at them with `tensorboard --logdir FOLDER`.

    A training that goes on from a checkpoint has its curves drawn anew from its history, so that neither what a kill
    lost nor what it left behind the checkpoint shows. Whoever makes one closes it.

    Args:
        folder: where the event files go; it is made with the first one.

    Raises:
        ValueError: when TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        check_tensorboard()
        self.folder = folder
        self.writer: SummaryWriter | None = None

    def start(self, history: list[dict[str, Any]]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.close()
        self.writer = SummaryWriter(str(self.folder), purge_step=1 if self.folder.exists() else None)
        for record in history:
            self._write(record)
        self.writer.flush()

    def epoch(self, record: dict[str, Any]) -> None:
        assert self.writer is not None, "start comes first"
        self._write(record)
        self.writer.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None

    def _write(self, record: dict[str, Any]) -> None:
        assert self.writer is not None
        for name, value in record.items():
            if name not in ("epoch", "best_epoch", "patience_left") and value is not None:
                self.writer.add_scalar(curve_name(name), value, record["epoch"])


def check_tensorboard() -> None:
    """Raise ValueError unless TensorBoard is installed."""
    import_extra("tensorboard", "log", "A curve of TensorBoard")


def curve_name(name: str) -> str:
    """The name of a metric's curve; those of one split stand together.

    >>> [curve_name(name) for name in ("loss", "val_loss", "val_accuracy", "learning_rate")]
    ['training/loss', 'validation/loss', 'validation/accuracy', 'training/learning_rate']
    """
    if name.startswith("val_"):
        return f"validation/{name.removeprefix('val_')}"
    return f"training/{name}"
