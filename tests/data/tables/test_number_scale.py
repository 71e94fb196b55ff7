"""The scale of columns of numbers, chosen by cross-validation."""

from pathlib import Path

import numpy as np
import pytest
import torch

import gpnn
from gpnn.data import load_dataset
from gpnn.data.tables.number_scale import FEWEST, NOTE, _neighbours_mean
from gpnn.train.notes import NoteWarning
from tests.data.tables.example import write

N = 400


def folder(path: Path, number: np.ndarray, label: list, split: list | None = None) -> Path:
    """A ring whose nodes have one number."""
    path.mkdir()
    names = [f"n{node}" for node in range(len(number))]
    split = split or [("train", "train", "val", "test")[node % 4] for node in range(len(number))]
    write(path / "nodes.csv", {"id": names, "size": number, "label": label, "split": split})
    write(path / "edges.csv", {"source": names, "target": [*names[1:], names[0]]})
    return path


@pytest.fixture
def normal() -> np.ndarray:
    return np.random.default_rng(0).normal(size=N)


@pytest.mark.parametrize("kind", ["classes", "numbers", "labels"])
def test_long_tails_become_normal_deviates_where_they_predict_better(tmp_path: Path, normal: np.ndarray, kind: str):
    label = np.where(normal > 0, "up", "down").tolist() if kind != "numbers" else (normal + 0.5).tolist()
    made = folder(tmp_path / "graph", np.exp(3 * normal), label)
    if kind == "labels":
        lines = (made / "nodes.csv").read_text().splitlines()
        (made / "nodes.csv").write_text("\n".join(",".join(line.split(",")[i] for i in (0, 1, 3)) for line in lines))
        write(
            made / "labels.csv",
            {"id": [f"n{n}" for n in range(N)], "a": (normal > 0).astype(int), "b": (normal > 1).astype(int)},
        )
    data, told = load_dataset(made), load_dataset(made, numbers="normal")
    assert torch.equal(data.x, told.x)
    assert data.vocabulary == told.vocabulary
    assert NOTE in data.notes
    assert NOTE not in told.notes
    assert abs(float(data.x.max())) < 4 < float(load_dataset(made, numbers="standard").x.max())


def test_numbers_that_are_as_good_stay_in_standard_units(tmp_path: Path, normal: np.ndarray):
    made = folder(tmp_path / "graph", normal, np.where(normal > 0, "up", "down").tolist())
    data = load_dataset(made)
    assert torch.equal(data.x, load_dataset(made, numbers="standard").x)
    assert NOTE not in data.notes
    random = folder(
        tmp_path / "random", np.exp(3 * normal), np.random.default_rng(1).permutation(["a", "b"] * 200).tolist()
    )
    assert torch.equal(load_dataset(random).x, load_dataset(random, numbers="standard").x)


def test_labels_that_are_held_out_choose_nothing(tmp_path: Path, normal: np.ndarray):
    """Those of training say nothing of the number; those of the others alone would take normal deviates."""
    train = np.arange(N) % 4 < 2
    drawn = np.random.default_rng(2).integers(2, size=N)
    for number, others in enumerate((normal > 0, normal < 0, drawn > 0)):
        made = folder(tmp_path / str(number), np.exp(3 * normal), np.where(train, drawn, others).astype(int).tolist())
        assert torch.equal(load_dataset(made).x, load_dataset(made, numbers="standard").x)
    made = folder(tmp_path / "trained", np.exp(3 * normal), np.where(train, normal > 0, drawn).astype(int).tolist())
    assert NOTE in load_dataset(made).notes


def test_few_training_nodes_choose_nothing(tmp_path: Path, normal: np.ndarray):
    label = np.where(normal > 0, "up", "down").tolist()
    for number, few in enumerate((FEWEST - 1, FEWEST)):
        split = ["train" if node < few else "val" for node in range(N)]
        notes = load_dataset(folder(tmp_path / str(number), np.exp(3 * normal), label, split)).notes
        assert (NOTE in notes) == (few == FEWEST)


def test_the_means_of_the_neighbours_count_too(tmp_path: Path, normal: np.ndarray):
    """A node's own number says nothing of its class, that of the next node all."""
    made = folder(tmp_path / "graph", np.exp(3 * normal), np.where(np.roll(normal, -1) > 0, "up", "down").tolist())
    assert NOTE in load_dataset(made).notes


def test_the_matrix_of_means_by_hand():
    mean = _neighbours_mean(np.array([[0, 1, 2], [1, 2, 1]]), np.array([1, 3]), 4)
    assert np.allclose(mean.toarray(), [[1 / 3, 0, 2 / 3, 0], [0, 0, 0, 0]])


def test_a_model_keeps_the_scale_of_its_training(tmp_path: Path, normal: np.ndarray):
    made = folder(tmp_path / "graph", np.exp(3 * normal), np.where(normal > 0, "up", "down").tolist())
    trained = load_dataset(made)
    shuffled = folder(
        tmp_path / "shuffled", np.exp(3 * normal), np.random.default_rng(1).permutation(["up", "down"] * 200)
    )
    later = load_dataset(shuffled, vocabulary=trained.vocabulary)
    assert torch.equal(later.x, trained.x)
    with pytest.warns(NoteWarning, match="have no reverse"):
        model = gpnn.GPNNClassifier(epochs=2, hidden_channels=8).fit(trained)
    assert np.array_equal(model.predict_proba(later), model.predict_proba(trained))
