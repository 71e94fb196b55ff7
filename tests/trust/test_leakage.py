"""Labels of held-out nodes: those of the test change nothing, those of validation choose and are learnt by nobody."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gpnn
from gpnn import GPNNClassifier, GPNNRegressor
from gpnn.build import Race, begin_run, build, load_config, race_run, read_trained, train_run
from gpnn.build.race import read_race
from gpnn.data.arrays import hold_out
from gpnn.data.splits import GraphFacts
from gpnn.recipes import RECIPES
from gpnn.train.fit import fit

NUM_NODES = 90
SPLITS = ("train", "val", "test")


@pytest.fixture
def short(monkeypatch):
    for name, recipe in RECIPES.items():
        monkeypatch.setitem(RECIPES, name, replace(recipe, train=replace(recipe.train, epochs=6, patience=0)))


def split_of(node: int) -> str:
    return SPLITS[node % 3]


def labels(shuffled: str = "") -> list[str]:
    """Classes that follow the columns; those of one split in another order."""
    found = ["red" if node % 4 < 2 else "blue" for node in range(NUM_NODES)]
    own = [node for node in range(NUM_NODES) if split_of(node) == shuffled]
    moved = np.random.default_rng(3).permutation(own)
    changed = list(found)
    for node, other in zip(own, moved):
        changed[node] = found[other]
    assert not shuffled or changed != found
    return changed


def write_folder(path: Path, shuffled: str = "") -> Path:
    """Numbers, some of them missing, categories, dates and words."""
    path.mkdir(parents=True)
    rng = np.random.default_rng(0)
    lines = ["id,label,split,age,city,born,about"]
    for node, label in enumerate(labels(shuffled)):
        age = "" if node % 7 == 0 else f"{rng.normal(node % 4):.3f}"
        words = " ".join(rng.choice(["blue", "sky", "red", "rose", "stone"], 4))
        city = ["Oslo", "Rome"][rng.integers(2)]
        lines.append(f"n{node},{label},{split_of(node)},{age},{city},2001-0{node % 9 + 1}-11,{words}")
    (path / "nodes.csv").write_text("\n".join(lines) + "\n")
    edges = [f"n{node},n{(node + step) % NUM_NODES}" for node in range(NUM_NODES) for step in (4, 8, 5)]
    (path / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    return path


def planted(shuffled: str = "") -> Data:
    data = gpnn.load_dataset("planted", num_nodes=NUM_NODES, num_classes=3, num_features=8, label_rate=0.3)
    if shuffled:
        own = data[f"{shuffled}_mask"].nonzero().flatten()
        data.y[own] = data.y[own].roll(1)
    return data


def run_folder(path: Path, shuffled: str) -> Any:
    """All that a race of `gpnn train` chose and learnt; true labels and times left out."""
    config = load_config(overrides=[f"data.name={write_folder(path / 'graph', shuffled)}", "recipe=auto"])
    run, begun = begin_run(lambda: config, path / "run", before=lambda config: Race(config.to_toml(), ()))
    train_run(run, race_run(run, begun), report=False)
    record = read_race(run.race).record
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in record.rows]
    table = gpnn.build.predict_trained(read_trained(run), load_config(run.config), begun.data).drop_columns(["label"])
    return read_trained(run).model.state_dict(), (rows, record.blend, read_trained(run).task), table


def fit_data(path: Path, shuffled: str) -> Any:
    return learnt(GPNNClassifier().fit(planted(shuffled)), planted())


def learnt(classifier: GPNNClassifier, X: Any) -> Any:
    race = classifier.race_
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in race.rows]
    return classifier.model_.state_dict(), (rows, race.blend, classifier.task_), classifier.predict_proba(X)


DOORS = {"folder": run_folder, "Data": fit_data}


@pytest.mark.thorough
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("door", DOORS)
def test_test_labels_change_neither_choice_nor_model_nor_predictions(door: str, tmp_path: Path) -> None:
    (weights, chosen, predicted), (again, chose, predicts) = (
        DOORS[door](tmp_path / (shuffled or "as given"), shuffled) for shuffled in ("", "test")
    )
    assert chosen == chose
    assert weights.keys() == again.keys()
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert predicted.equals(predicts) if door == "folder" else (predicted == predicts).all()


def built(path: Path, recipe: str, shuffled: str) -> Any:
    return build(load_config(overrides=[f"data.name={write_folder(path / (shuffled or 'given'), shuffled)}",
                                        f"recipe={recipe}", "train.epochs=3"]))  # fmt: skip


@pytest.mark.parametrize("split", ["val", "test"])
def test_columns_of_tables_follow_no_held_out_label(split: str, tmp_path: Path) -> None:
    given, moved = (gpnn.load_dataset(write_folder(tmp_path / (name or "given"), name)) for name in ("", split))
    x, other = (each.x if each.x.layout == torch.strided else each.x.to_dense() for each in (given, moved))
    assert torch.equal(x, other)
    assert list(given.feature_names) == list(moved.feature_names)
    assert given.vocabulary == moved.vocabulary
    assert GraphFacts.of(given) == GraphFacts.of(moved)
    assert not torch.equal(given.y, moved.y)


@pytest.mark.parametrize(
    "recipe", [name if name == "spread" else pytest.param(name, marks=pytest.mark.thorough) for name in RECIPES]
)
def test_validation_labels_are_learnt_by_no_recipe(recipe: str, tmp_path: Path) -> None:
    """The first steps are the same to the bit; later ones of a solver are those that validation chose."""
    histories = []
    for shuffled in ("", "val"):
        made = built(tmp_path, recipe, shuffled)
        result = fit(made.model, made.data, made.plan, recipe=made.config.train, seed=0)
        histories.append(result.history)
    for one, other in zip(*histories):
        assert (one["loss"], one["gradient_norm"]) == (other["loss"], other["gradient_norm"])
    first = [next(each["val_loss"] for each in history if "val_loss" in each) for history in histories]
    assert first[0] != first[1]
    assert len(histories[0]) == 3


def test_a_label_that_trains_is_learnt(tmp_path: Path) -> None:
    """What the tests above compare does change with the labels of training nodes."""
    one, other = (built(tmp_path, "spread", shuffled) for shuffled in ("", "train"))
    losses = [fit(each.model, each.data, each.plan, recipe=each.config.train, seed=0).history for each in (one, other)]
    assert losses[0][-1]["loss"] != losses[1][-1]["loss"]


def test_numbers_held_out_of_arrays_are_not_learnt() -> None:
    """An estimator that gets arrays holds some of them out itself; of classes it would draw another share."""
    data = planted()
    y = np.random.default_rng(1).lognormal(size=NUM_NODES).astype(np.float32)
    given = Data(x=data.x, edge_index=data.edge_index, y=torch.from_numpy(y), num_nodes=NUM_NODES)
    held = hold_out(given, 0.2, 0).val_mask.numpy()
    moved = y.copy()
    moved[held] = np.roll(y[held], 1)
    X, edges = data.x.to_dense().numpy(), np.zeros((NUM_NODES, NUM_NODES))
    edges[tuple(data.edge_index.numpy())] = 1
    linear = {"epochs": 3, "train_options": {"target_scale": "linear"}}
    one, other = (GPNNRegressor(**linear).fit(X, each, adjacency=edges) for each in (y, moved))
    assert [each["loss"] for each in one.history_] == [each["loss"] for each in other.history_]
    assert (one.task_.mean, one.task_.deviation) == (other.task_.mean, other.task_.deviation)
    assert one.history_[0]["val_loss"] != other.history_[0]["val_loss"]
