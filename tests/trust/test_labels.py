"""Labels at every door: the same values are unlabelled, and measurements are not taken for classes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from gpnn import GPNNClassifier
from gpnn.build import build, load_config
from gpnn.cli import app

NAN = float("nan")


def write_folder(folder: Path, labels: list[str]) -> Path:
    """A ring of nodes in CSV, with these labels and one feature."""
    folder.mkdir(exist_ok=True)
    rows = [f"{node},{label},{node % 3}" for node, label in enumerate(labels)]
    (folder / "nodes.csv").write_text("id,label,size\n" + "\n".join(rows) + "\n")
    ring = [f"{node},{(node + 1) % len(labels)}" for node in range(len(labels))]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(ring) + "\n")
    return folder


def ring(num_nodes: int) -> torch.Tensor:
    nodes = torch.arange(num_nodes)
    return torch.stack([torch.cat([nodes, nodes.roll(-1)]), torch.cat([nodes.roll(-1), nodes])])


def matrix(num_nodes: int) -> np.ndarray:
    values = np.zeros((num_nodes, num_nodes))
    values[tuple(ring(num_nodes).numpy())] = 1
    return values


def fit_folder(labels: list[Any], folder: Path) -> Any:
    text = ["" if label is None else str(label) for label in labels]
    return build(load_config(overrides=[f"data.name={write_folder(folder / 'graph', text)}", "partition.k=2"])).data


def fit_parquet(labels: list[Any], folder: Path) -> Any:
    import pyarrow
    from pyarrow import parquet

    path = write_folder(folder / "graph", ["0"] * len(labels))
    (path / "nodes.csv").unlink()
    table = {"id": list(range(len(labels))), "label": pyarrow.array(labels, from_pandas=False)}
    parquet.write_table(pyarrow.table(table), path / "nodes.parquet")
    return build(load_config(overrides=[f"data.name={path}", "partition.k=2"])).data


def fit_file(labels: list[Any], folder: Path) -> Any:
    y = torch.tensor([NAN if label is None else label for label in labels])
    torch.save(Data(x=torch.ones(len(y), 2), edge_index=ring(len(y)), y=y), folder / "graph.pt")
    return build(load_config(overrides=[f"data.name={folder / 'graph.pt'}", "partition.k=2"])).data


def fit_data(labels: list[Any], folder: Path) -> Any:
    y = torch.tensor([NAN if label is None else label for label in labels])
    data = Data(x=torch.ones(len(y), 2), edge_index=ring(len(y)), y=y)
    return GPNNClassifier(epochs=1, k=2).fit(data)


def fit_arrays(labels: list[Any], folder: Path) -> Any:
    y = np.array(labels, object if None in labels else None)
    return GPNNClassifier(epochs=1, k=2).fit(np.ones((len(y), 2)), y, adjacency=matrix(len(y)))


def fit_list(labels: list[Any], folder: Path) -> Any:
    return GPNNClassifier(epochs=1, k=2).fit(np.ones((len(labels), 2)), labels, adjacency=matrix(len(labels)))


DOORS: dict[str, Callable[[list[Any], Path], Any]] = {
    "folder": fit_folder, "parquet": fit_parquet, "file": fit_file, "Data": fit_data, "arrays": fit_arrays,
    "list": fit_list,
}  # fmt: skip


def num_classes(fitted: Any) -> int:
    return len(fitted.classes_) if isinstance(fitted, GPNNClassifier) else fitted.num_classes


class TestEveryDoor:
    @pytest.mark.parametrize("door", DOORS)
    @pytest.mark.parametrize("unknown", [NAN, None, -1], ids=str)
    def test_unlabelled_nodes_are_no_class(self, door: str, unknown: Any, tmp_path: Path) -> None:
        if door == "parquet" and unknown is None:
            labels: list[Any] = [0, 1, unknown] * 4
        else:
            labels = [0.0, 1.0, unknown] * 4 if unknown != -1 else [0, 1, -1] * 4
        assert num_classes(DOORS[door](labels, tmp_path)) == 2

    @pytest.mark.parametrize("door", ["folder", "parquet", "arrays", "list"])
    @pytest.mark.parametrize("unknown", [NAN, None, -1, ""], ids=repr)
    def test_unlabelled_nodes_among_words(self, door: str, unknown: Any, tmp_path: Path) -> None:
        if door == "parquet" and unknown is not None:
            unknown = str(unknown)  # a column of Parquet has one type
        assert num_classes(DOORS[door](["red", "blue", unknown] * 4, tmp_path)) == 2

    @pytest.mark.parametrize("door", ["Data", "arrays", "list"])
    def test_a_classifier_refuses_real_numbers(self, door: str, tmp_path: Path) -> None:
        values = [round(0.5 + 0.37 * node, 2) for node in range(12)]
        with pytest.raises(ValueError, match=r"must hold classes, .* are for GPNNRegressor, .*\. Got .*0\.5"):
            DOORS[door](values, tmp_path)

    @pytest.mark.parametrize("door", ["folder", "parquet", "file"])
    def test_real_numbers_are_a_regression(self, door: str, tmp_path: Path) -> None:
        values = [round(0.5 + 0.37 * node, 2) for node in range(11)] + [None if door == "folder" else NAN]
        data = DOORS[door](values, tmp_path)
        assert data.task == "regression"
        assert data.y[:11].tolist() == pytest.approx(values[:11])
        assert bool(data.y[11].isnan())

    @pytest.mark.parametrize("door", DOORS)
    def test_a_number_for_almost_every_node_is_refused(self, door: str, tmp_path: Path) -> None:
        shared = r"Labels must be classes that nodes share; .*\. Got 29 different labels on 30 labelled nodes\."
        with pytest.raises(ValueError, match=shared):
            DOORS[door]([*range(29), 0], tmp_path)

    @pytest.mark.parametrize("door", DOORS)
    def test_no_label_at_all(self, door: str, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"^A training needs labels\. Got none: all 12 are empty, NaN or -1\.$"):
            DOORS[door]([-1] * 12, tmp_path)


def test_the_command_line_says_what_it_saw(tmp_path: Path) -> None:
    ids = write_folder(tmp_path / "ids", [f"{137 * node}" for node in range(30)])
    none = write_folder(tmp_path / "none", ["", "nan", "-1"] * 4)
    for folder, sentence in (
        (
            ids,
            "gpnn: Labels must be classes that nodes share; continuous numbers are for GPNNRegressor, or "
            "data.task=regression. Got 30 different labels on 30 labelled nodes.",
        ),
        (none, "gpnn: A training needs labels. Got none: all 12 are empty, NaN or -1."),
    ):
        result = CliRunner().invoke(app, ["train", str(folder), "--out", str(tmp_path / "run")])
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, sentence)
        assert not (tmp_path / "run").exists()
