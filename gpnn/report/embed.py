"""What goes into a page so that it needs nothing else: data as JSON, and plotly.js itself."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpnn.extra import install_command
from gpnn.train.atomic import finite

NEEDED = ("plotly", "jinja2")


def can_write() -> bool:
    """Whether the libraries that a page is made with are installed."""
    return all(find_spec(name) is not None for name in NEEDED)


def advice() -> str:
    """The message of a run whose report cannot be written, with the command that installs what it needs."""
    return f"report.html not written: {install_command('report')}"


def check_extra() -> None:
    """Raise ImportError, with the way out, unless a page can be written."""
    if not can_write():
        raise ImportError(f"A report needs plotly and jinja2: {install_command('report')}")


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: no text in it can end the element or open a comment.

    >>> script_json({"label": "</script>"})
    '{"label":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def plotly_script() -> str:
    """plotly.js as the installed package holds it, compressed to base64: 2 MB of text instead of 4.8."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    code = (Path(spec.origin).parent / "package_data" / "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(code, 6, mtime=0)).decode()
