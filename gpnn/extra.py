"""Extras: the optional packages of gpnn, and the command that installs them."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from types import ModuleType


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra, wherever gpnn itself was installed from.

    It names the packages, which are on the package index, and not gpnn, which may have come from a clone or a wheel.

    >>> install_command("metis").startswith("pip install ")
    True
    """
    marker = re.compile(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""")
    try:
        wanted = [line.partition(";")[0].strip() for line in requires("gpnn") or () if marker.search(line)]
    except PackageNotFoundError:  # a clone that was put on the path
        wanted = []
    packages = " ".join(f'"{each}"' for each in wanted)
    return f"pip install {packages}" if packages else f'pip install ".[{extra}]" in a clone of gpnn'


def import_extra(module: str, extra: str, what: str) -> ModuleType:
    """The module of an optional package. Raise ValueError, with the way out, where it is not installed.

    Args:
        module: its name.
        extra: the extra that brings it.
        what: what needs it, for the error.
    """
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(f"{what} needs {module}: {install_command(extra)}. Got none.") from None
