"""save_figure: a matplotlib figure as a small SVG that is the same for the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpnn.storage.atomic import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#4878a8", "#c44e52", "#55a868", "#8172b3", "#ccb974", "#64b5cd", "#8c8c8c", "#d98032")


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure to `path` as SVG, without a date and with identifiers that do not change.

    A dollar sign in a name is a dollar sign: half a formula would end the drawing.
    """
    from matplotlib import rc_context
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)

    def write(partial: Path) -> None:
        with rc_context({"svg.hashsalt": path.name}):
            figure.savefig(partial, format="svg", dpi=100, metadata={"Date": None})

    replace_file(path, write)
