"""Extras: the optional packages of gpnn, and the command that installs them."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires


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
