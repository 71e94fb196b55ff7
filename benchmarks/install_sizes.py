"""How many megabytes does an install take? The core, and what each extra adds.

    python benchmarks/install_sizes.py --out benchmarks/results/install_sizes.md

Follows the requirements of pyproject.toml through the packages that are installed and adds up the files that each has
noted, compiled Python included. Nothing is downloaded. A package that is not installed here is named and not counted.
"""

import argparse
import platform
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
SHOWN = ("metis", "networkx", "duckdb", "log", "dev")


def needed(requirements: list[str], found: dict[str, int | None] | None = None) -> dict[str, int | None]:
    """The packages that requirements bring, with their bytes; None for one that is not installed here."""
    found = {} if found is None else found
    for text in requirements:
        requirement = Requirement(text)
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        extras = requirement.extras or {""}
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        if name in found:
            continue
        try:
            own = distribution(name)
        except PackageNotFoundError:
            found[name] = None
            continue
        paths = [Path(str(own.locate_file(path))) for path in own.files or ()]
        found[name] = sum(path.stat().st_size for path in paths if path.is_file())
        needed([each for each in own.requires or () if _applies(each, extras)], found)
    return found


def _applies(text: str, extras: set[str]) -> bool:
    marker = Requirement(text).marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras})


def page() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core, extras = needed(project["dependencies"]), project["optional-dependencies"]
    lines = ["| install | packages | MB |", "|---|---:|---:|", f"| the core | {len(core)} | {megabytes(core)} |"]
    lines.append(f"| of that torch {version('torch')} | 1 | {megabytes({'torch': core['torch']})} |")
    for extra in SHOWN:
        more = {name: size for name, size in needed(extras[extra]).items() if name not in core}
        lines.append(f"| and {extra} | {len(more)} | {megabytes(more)} |")
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    command = "python benchmarks/install_sizes.py --out FILE"
    head = f"# Sizes of the installs\n\n    {command}\n\n{about}\n\nMachine: {machine}.\n\n"
    return head + "\n".join(lines) + "\n"


def megabytes(sizes: dict[str, int | None]) -> str:
    """The sum, and what is not counted in it."""
    absent = [name for name, size in sizes.items() if size is None]
    total = f"{sum(size or 0 for size in sizes.values()) / 1e6:,.0f}"
    return total + (f", without {', '.join(absent[:3])}{' and others' * (len(absent) > 3)}" if absent else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    text = page()
    print(text)
    if chosen.out is not None:
        sys.path.insert(0, str(ROOT))
        from gpnn.storage.atomic import write_text

        write_text(chosen.out, text)


if __name__ == "__main__":
    main()
