"""One, two and four processes train as one does alone: the same losses, metrics, best epoch and embeddings."""

import json

import pytest
import torch

from gpnn.data.files import sha256_of
from gpnn.storage.read import seal
from gpnn.storage.tensors import SHA256, digest_file
from tests.oracle.training_cases import planted, train, train_on_another_graph

CELLS = {
    "gru": {"cell": "gru", "message": "linear"},
    "lstm": {"cell": "lstm"},
    "mlp": {"cell": "mlp", "message": "mlp"},
    "linear": {"cell": "linear", "predict": "before", "readout": "learned", "concat": "none"},
    "gcnii": {"cell": "gcnii", "concat": "initial"},
    "residual": {"cell": "residual", "concat": "none", "update_dropout": 0.3, "sharing": "round", "num_rounds": 2},
}
ALONE = {}  # what one process gives, by its options: tests of several sizes share it


def train_alone(options, data_options):
    key = repr((options, data_options))
    if key not in ALONE:
        ALONE[key] = train(None, options, data_options)
    return ALONE[key]


def assert_same(processes, size, options, data_options, tolerance=1e-10):
    history, metrics, rows = train_alone(options, data_options)
    for other_history, other, other_rows in processes(train, options, data_options, size=size):
        assert len(other_history) == len(history)
        for ours, theirs in zip(history, other_history):
            for name in ("loss", "gradient_norm", *(name for name in ours if name.startswith("val_"))):
                assert theirs[name] == pytest.approx(ours[name], rel=0, abs=tolerance), (ours["epoch"], name)
        for name in (name for name in metrics if name.startswith(("val_", "test_"))):
            assert other[name] == pytest.approx(metrics[name], rel=tolerance, abs=tolerance), name
        assert other["best_epoch"] == metrics["best_epoch"]
        torch.testing.assert_close(other_rows, rows, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "size", [1, pytest.param(2, marks=pytest.mark.thorough), pytest.param(4, marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell(processes, cell, size):
    """Twenty epochs with the default recipe's dropout, DropNode and consistency, the GRU over three types of edges."""
    assert_same(processes, size, CELLS[cell], {"typed": cell == "gru"})


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.thorough
def test_embeddings_live_where_their_nodes_do(processes, size):
    recipe = {"optimizer": "lazy_adam", "clip": 0.5, "epochs": 8}
    options = {**CELLS["gru"], "input": "both", "recipe": recipe}
    assert_same(processes, size, options, {})


@pytest.mark.parametrize("recipe", [{"class_weight": "balanced"}, {"consistency_threshold": 0.5}, {"patience": 2}])
def test_recipes(processes, recipe):
    recipe = {**recipe, "label_smoothing": 0.1, "consistency_on": "unlabelled", "epochs": 10}
    options = {**CELLS["linear"], "recipe": recipe}
    assert_same(processes, 2, options, {})


def test_several_labels_a_node(processes):
    recipe = {"class_weight": "balanced", "epochs": 10}
    assert_same(processes, 2, {**CELLS["linear"], "recipe": recipe}, {"multi_label": True})


@pytest.mark.parametrize("size", [2, 4])
def test_numbers(processes, size):
    """Targets are standardised, intervals calibrated and metrics taken over the nodes of all processes."""
    assert_same(processes, size, {**CELLS["linear"], "recipe": {"epochs": 10}}, {"numbers": True}, tolerance=1e-8)


@pytest.mark.thorough
def test_single_precision(processes):
    """float32 sums in another order: losses agree to 2e-5 over twenty epochs."""
    assert_same(processes, 2, CELLS["gru"], {"dtype": torch.float32}, tolerance=2e-5)


def test_traffic_is_counted(processes):
    """T_S = 2 and T_C = 1: cut phases send a third of what synchronous propagation of three steps per round would.

    By hand: rows that cross, 8 columns of 8 bytes, two rounds, forward twice and once to validate, backward twice.
    """
    from gpnn import Graph, partition_graph
    from gpnn.distributed import NodeOrder, ShardBuilder

    (history, metrics, _), (other, _, _) = processes(train, {"cell": "gru", "recipe": {"epochs": 3}}, {}, size=2)
    for record, same in zip(history, other):
        assert record["sent_bytes"] == same["sent_bytes"] > 0
        assert 3 * record["sent_bytes"] == record["synchronous_bytes"]
    assert metrics["num_processes"] == 2
    assert metrics["sent_bytes"] == max(record["sent_bytes"] for record in history)
    data = planted()
    graph = Graph.from_data(data)
    order = NodeOrder.of(graph, partition_graph(data, 6, seed=3), 2)
    halo = [len(ShardBuilder(graph, order).build(rank).halo) for rank in (0, 1)]
    expected = max(2 * 64 * (3 * halo[1 - rank] + 2 * halo[rank]) for rank in (0, 1))
    assert {record["sent_bytes"] for record in history} == {expected}


@pytest.mark.parametrize(
    ("first", "then"), [(2, 4), *(pytest.param(*each, marks=pytest.mark.thorough) for each in [(2, 2), (4, 1)])]
)
def test_a_checkpoint_continues_with_another_number_of_processes(processes, tmp_path, first, then):
    options = {**CELLS["gru"], "input": "embedding", "concat": "none", "recipe": {"checkpoint_every": 2, "epochs": 8}}
    history, metrics, rows = train_alone(options, {})
    path = tmp_path / "checkpoint" / "training.safetensors"
    path.parent.mkdir()
    halted = processes(train, {**options, "stop": 5}, {}, path, size=first)[0]
    assert len(halted[0]) == 5
    assert halted[1] == {}
    assert sorted(each.name for each in path.parent.iterdir()) == ["epoch-000004", "epoch-000005"]
    for other_history, other, other_rows in processes(train, options, {}, path, size=then):
        assert [record["epoch"] for record in other_history] == list(range(1, 9))
        for ours, theirs in zip(history, other_history):
            assert theirs["loss"] == pytest.approx(ours["loss"], rel=0, abs=1e-10)
        assert other["test_accuracy"] == metrics["test_accuracy"]
        torch.testing.assert_close(other_rows, rows, rtol=0, atol=1e-10)


def test_a_checkpoint_is_plain_and_fits_its_model_alone(processes, tmp_path):
    path = tmp_path / "training.safetensors"
    processes(train, {"cell": "gru", "stop": 2}, {}, path, size=2)
    names = {file.suffix for file in (tmp_path / "epoch-000002").iterdir()}
    assert names == {".safetensors", ".json"}  # nothing to unpickle
    with pytest.raises(AssertionError, match="must fit the model"):
        processes(train, {"cell": "lstm"}, {}, path, size=2)


@pytest.mark.parametrize("damaged", ["shard-00002", "progress.json"])
def test_a_damaged_checkpoint_is_refused_by_every_process(processes, tmp_path, damaged):
    """A bit of the second process's tensors, which the first does not read, or a digit of the progress."""
    path = tmp_path / "training.safetensors"
    processes(train, {"cell": "gru", "stop": 2}, {}, path, size=2)
    file = next(each for each in (tmp_path / "epoch-000002").iterdir() if each.name.startswith(damaged))
    content = bytearray(file.read_bytes())
    content[content.rindex(b'"epoch": 2') + 9 if damaged == "progress.json" else -1] ^= 1
    file.write_bytes(content)
    with pytest.raises(AssertionError, match=r"must be (a checkpoint )?as it was written"):
        processes(train, {"cell": "gru"}, {}, path, size=2)
    with pytest.raises(AssertionError, match=r"must be (a checkpoint )?as it was written"):
        processes(train, {"cell": "gru"}, {}, path, size=1)


@pytest.mark.thorough
def test_the_checkpoint_before_replaces_a_damaged_one(processes, tmp_path):
    path, options = tmp_path / "training.safetensors", {"cell": "gru", "recipe": {"checkpoint_every": 1, "epochs": 4}}
    whole = processes(train, options, {}, size=2)[0]
    processes(train, {**options, "stop": 3}, {}, path, size=2)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["epoch-000002", "epoch-000003"]
    file = next((tmp_path / "epoch-000003").glob("shard-00002*"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    resumed = processes(train, options, {}, path, size=2)[0]
    assert [record["loss"] for record in resumed[0]] == [record["loss"] for record in whole[0]]


@pytest.mark.parametrize(("number", "digest"), [(2, sha256_of), (3, lambda path: digest_file(path, SHA256))])
def test_a_checkpoint_of_an_older_version_continues(processes, tmp_path, number, digest):
    """Format 2 has the sha256 of each file as a whole, format 3 that of its blocks."""
    path = tmp_path / "training.safetensors"
    options = {"cell": "gru", "recipe": {"checkpoint_every": 2, "epochs": 4}}
    processes(train, {**options, "stop": 2}, {}, path, size=2)
    progress = tmp_path / "epoch-000002" / "progress.json"
    header = json.loads(progress.read_text())
    header |= {"checkpoint": number, "files": {name: digest(progress.with_name(name)) for name in header["files"]}}
    del header["sha256"]
    progress.write_text(json.dumps(seal(header)))
    assert [len(history) for history, *_ in processes(train, options, {}, path, size=2)] == [4, 4]
    assert (tmp_path / "epoch-000004").is_dir()


def test_a_training_that_diverged_has_no_metrics_in_any_process(processes):
    options = {**CELLS["gru"], "recipe": {"learning_rate": 1e300, "clip": 0.0}}
    assert [len(history) < 20 and metrics == {} for history, metrics, _ in processes(train, options, {}, size=2)] == [
        True,
        True,
    ]


def test_the_plan_of_another_graph_is_refused(processes):
    for answer in processes(train_on_another_graph, size=2):
        assert answer.startswith("The plan must be lowered from the edges of `data`.")
