"""A run on disk: its folder, checkpoint, predictions and environment."""

from gpnn.run.folder import RunFolder

__all__ = ["RunFolder"]
