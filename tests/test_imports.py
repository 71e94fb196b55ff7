"""Imports point one way, and the first import is cheap."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "gpnn"

# A module may import from its own room and from the rooms of earlier rows; rooms of one row do not know each other.
ROWS = [
    {
        "check",
        "text",
        "csr",
        "csr_kernel",
        "pages",
        "graph",
        "storage",
        "progress",
    },
    {"data", "partition"},
    {"schedule"},
    {"kernels"},
    {"engine"},
    {"nn"},
    {"run"},
    {"distributed"},
    {"train"},
    {"memory"},
    {"pipeline"},
    {"divide", "recipes"},
    {"incremental"},
    {"explain"},
    {"export"},
    {"race"},
    {"estimator", "report"},
    {"model_selection"},
    {"config"},
    {"build"},
    {"cli"},
    {"__main__"},
]
RANK = {room: row for row, rooms in enumerate(ROWS) for room in rooms}
OWN = ("gpnn.", "experiments.", "benchmarks.", "tests.", "docs.")
HEAVY = ("torch_geometric", "sklearn", "scipy", "pandas", "pyarrow", "networkx", "numba", "matplotlib")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
            if node.module == "gpnn":
                names = [f"gpnn.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("gpnn.")}
    return rooms


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    assert room in RANK, f"the room {room} has no place in the house"
    for other in imported_rooms(path) - {room}:
        same_row = RANK.get(other) == RANK[room] == 0
        assert other in RANK, f"{path.name} imports {other}, which has no place in the house"
        assert RANK[other] < RANK[room] or same_row, f"{room} must not import {other}"


def find_module(name: str) -> Path | None:
    """The file of a module of the package, or None."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


@cache
def top_level_names(path: Path) -> set[str]:
    """What a module defines or imports outside of functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


@pytest.mark.parametrize("folder", ["gpnn", "tests", "experiments", "benchmarks", "docs"])
def test_what_is_imported_exists(folder: str) -> None:
    """No script is left behind by a module that moved; nothing is imported, for some need a GPU."""
    for path in (PACKAGE.parent / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(OWN):
                continue
            module = find_module(node.module)
            names = set() if module is None else top_level_names(module)
            for alias in node.names:
                found = alias.name in names or find_module(f"{node.module}.{alias.name}")
                assert found, f"{path} imports {alias.name} from {node.module}, which has no such name"


def test_every_public_name_loads() -> None:
    import gpnn

    for name in gpnn.__all__:
        assert getattr(gpnn, name) is not None


def test_every_room_is_an_attribute_of_the_package() -> None:
    """In a fresh interpreter: another test may have imported the room already."""
    code = "import gpnn; print(gpnn.graph.as_graph(gpnn.Graph([0], [1], num_nodes=2)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "Graph(num_nodes=2, num_edges=1)"


def test_import_loads_nothing_heavy() -> None:
    """`import gpnn` may cost little more than `import torch`; what torch itself loads does not count."""
    code = (
        "import sys, torch; before = set(sys.modules); import gpnn; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & set(HEAVY), loaded
