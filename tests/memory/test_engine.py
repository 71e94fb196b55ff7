"""The engine is chosen by memory, said in words, and refused with a way out."""

import re

import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

import gpnn
from gpnn.data.features import from_scipy, map_features
from gpnn.engine import Streamed
from gpnn.memory import estimate
from gpnn.memory.engine import ENGINES, GIVEN_MARGIN, DoesNotFit, EngineChoice, build_within_memory, choose_engine
from gpnn.memory.estimate import estimate_memory
from gpnn.train import Recipe, fit
from tests.oracle.parameters import rest_thorough
from tests.oracle.training_cases import choose_among

RECIPE = Recipe(epochs=2)


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process holds already is the same at every call."""
    monkeypatch.setattr(estimate, "resident_bytes", lambda device="cpu": 1e8)


def planted_data(num_nodes: int) -> Data:
    random = torch.Generator().manual_seed(0)
    src, share = torch.randint(num_nodes, (4 * num_nodes,), generator=random), torch.rand(num_nodes, generator=random)
    dst = (src + torch.randint(1, 20, src.shape, generator=random)) % num_nodes
    y = torch.arange(num_nodes) * 3 // num_nodes
    x = torch.nn.functional.one_hot(y, 6) + torch.randn(num_nodes, 6, generator=random)
    masks = {"train_mask": share < 0.2, "val_mask": (share > 0.2) & (share < 0.4), "test_mask": share > 0.6}
    return Data(x=x, y=y, edge_index=torch.stack([src, dst]), num_classes=3, **masks)


def sparse_features(x: torch.Tensor) -> torch.Tensor:
    return from_scipy(scipy.sparse.csr_matrix(x.numpy()), sparse=True)


def parts(num_nodes: int = 400, cell: str = "gru", width: int = 16):
    data = planted_data(num_nodes)
    schedule = gpnn.schedule.partitioned(data, torch.arange(num_nodes) * 4 // num_nodes, rounds=3)
    plan = gpnn.lower(data, schedule)
    return data, plan, gpnn.nn.GPNN(data.num_features, width, data.num_classes, cell=cell, num_rounds=3)


def needs(name: str, data, plan, model, folder) -> float:
    return choose_engine(model, data.x, plan, RECIPE, engine=name, folder=folder).estimate.peak


def test_the_fastest_that_fits_is_chosen(tmp_path):
    data, plan, model = parts()
    names = [name for name, engine in ENGINES.items() if "cpu" in engine.devices]
    peaks = [needs(name, data, plan, model, tmp_path) for name in names]
    assert peaks[0] > peaks[1] > peaks[2] > peaks[3]
    for name, peak in list(zip(names, peaks))[:4]:
        choice = choose_engine(model, data.x, plan, RECIPE, memory=(peak + 1) / GIVEN_MARGIN, folder=tmp_path)
        assert choice.name == name
    assert choose_engine(model, data.x, plan, RECIPE).name == "fused"


def test_rounded_states_are_taken_by_name_only():
    """They move losses: where they alone fit, the refusal names them, and the user decides."""
    data, plan, model = parts()
    peak = needs("streamed_bf16", data, plan, model, None)
    assert peak < needs("streamed", data, plan, model, None)
    with pytest.raises(DoesNotFit, match="engine=streamed_bf16, which rounds the states between rounds"):
        choose_engine(model, data.x, plan, RECIPE, memory=(peak + 1) / GIVEN_MARGIN)
    assert choose_engine(model, data.x, plan, RECIPE, engine="streamed_bf16", memory=1).name == "streamed_bf16"
    with pytest.raises(DoesNotFit) as refusal:
        choose_engine(model, data.x, plan, RECIPE, memory=(peak - 1) / GIVEN_MARGIN)
    assert "bf16" not in str(refusal.value)


def test_auto_takes_exact_engines_only(tmp_path):
    data, plan, model = parts()
    for share in range(1, 40):
        try:
            choice = choose_engine(model, data.x, plan, RECIPE, memory=share * 5e6 + 1.5e8, folder=tmp_path)
        except DoesNotFit:
            continue
        assert ENGINES[choice.name].exact
    assert [name for name, each in ENGINES.items() if not each.exact] == ["streamed_bf16"]


def test_what_cannot_fit_is_refused_with_what_would():
    data, plan, model = parts()
    with pytest.raises(ValueError, match=re.escape("Training must fit in 0.0 GB of memory. Got at least")) as refusal:
        choose_engine(model, data.x, plan, RECIPE, memory=1e6)
    assert "disk=FOLDER" in str(refusal.value)
    assert "recipe=large" not in str(refusal.value)


def test_a_refusal_tells_of_the_way_that_takes_least(tmp_path):
    data, plan, model = parts(4000)
    names = [name for name, engine in ENGINES.items() if "cpu" in engine.devices and engine.exact]
    peaks = {name: needs(name, data, plan, model, tmp_path) for name in names}
    with pytest.raises(DoesNotFit) as refusal:
        choose_engine(model, data.x, plan, RECIPE, memory=1e6, folder=tmp_path)
    assert refusal.value.estimate.peak == min(peaks.values())
    assert peaks["mapped"] > min(peaks.values())


def test_of_a_large_graph_the_refusal_names_the_recipe_for_it(monkeypatch):
    monkeypatch.setattr("gpnn.memory.engine.MANY_NODES", 10)
    data, plan, model = parts()
    with pytest.raises(ValueError, match="recipe=large, which keeps no state of the whole graph"):
        choose_engine(model, data.x, plan, RECIPE, memory=1e6)


def test_unknown_engines_and_missing_folders_are_named(tmp_path):
    data, plan, model = parts()
    with pytest.raises(ValueError, match=r"`engine` must be one of auto, fused, .* Got 'fast'"):
        choose_engine(model, data.x, plan, RECIPE, engine="fast")
    with pytest.raises(ValueError, match="'mapped' needs a folder"):
        choose_engine(model, data.x, plan, RECIPE, engine="mapped")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"`disk` must be a folder. '.*file' is not."):
        choose_engine(model, data.x, plan, RECIPE, engine="mapped", folder=tmp_path / "file")


@pytest.mark.parametrize("cell", rest_thorough(["gru", "lstm", "mlp", "linear", "gcnii"], ["gru", "linear"]))
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "streamed_host"])
def test_every_engine_trains_every_cell_alike(cell, engine, tmp_path):
    data, plan, model = parts(cell=cell)
    fit(model, data, plan, recipe=RECIPE)
    _, _, other = parts(cell=cell)
    other.runner = ENGINES[engine].runner(tmp_path)
    if ENGINES[engine].maps_features:
        data.x = map_features(data.x, tmp_path)
    fit(other, data, plan, recipe=RECIPE)
    tolerance = 0.05 if engine == "streamed_bf16" else 1e-4
    for a, b in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)
    assert not list(tmp_path.iterdir())


def test_estimating_changes_nothing():
    data, plan, model = parts()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    estimate_memory(model, data.x, plan, RECIPE)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.runner is None


def test_embeddings_and_sparse_features_are_estimated():
    data, plan, _ = parts()
    model = gpnn.nn.GPNN(0, 16, 3, input="embedding", num_nodes=400, concat="none")
    assert estimate_memory(model, None, plan, RECIPE).peak > 0
    sparse = gpnn.nn.GPNN(data.num_features, 16, 3, input_dropout=0.5)
    assert estimate_memory(sparse, sparse_features(data.x), plan, RECIPE).features > 0


def test_passes_are_kept_side_by_side():
    data, plan, model = parts()
    one = estimate_memory(model, data.x, plan, Recipe(passes=1))
    two = estimate_memory(model, data.x, plan, Recipe(passes=2))
    assert two.kept == 2 * one.kept


def test_where_nothing_fits_there_are_more_subgraphs():
    """One subgraph of the ring is most of what streaming takes, so that dividing it further makes room."""
    data = planted_data(4000)
    tried = []

    def build(k: int, memory: float | None = None):
        tried.append(k)
        part = torch.arange(data.num_nodes) * k // data.num_nodes
        plan = gpnn.lower(data, gpnn.schedule.partitioned(data, part, rounds=2, intra=8))
        model = gpnn.nn.GPNN(data.num_features, 16, data.num_classes, cell="gru", num_rounds=2)
        return choose_engine(model, data.x, plan, RECIPE, memory=memory)

    with pytest.raises(DoesNotFit) as refusal:
        build(2, 1e6)
    assert refusal.value.more_parts(2) is None
    tightest = refusal.value.estimate
    budget = (tightest.peak - 0.6 * tightest.piece) / GIVEN_MARGIN
    tried.clear()
    choice = build_within_memory(lambda k: build(k, budget), 2, 100)
    assert choice.estimate.peak <= budget
    assert tried == [2, 7]
    with pytest.raises(DoesNotFit):
        build_within_memory(lambda k: build(k, budget), 2, 2)


@pytest.mark.thorough
def test_several_processes_choose_by_memory_too(processes):
    for names, refusal in processes(choose_among, size=2):
        assert names == ["fused", "streamed"]
        assert refusal.startswith("Training must fit in 0.0 GB of memory. Got at least")
        assert "disk" not in refusal
        assert "bf16" not in refusal


def test_predictions_hold_few_states_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: the states of all nodes count where predictions of all are made of them."""
    for module in ("gpnn.engine.recompute", "gpnn.memory.engine"):
        monkeypatch.setattr(f"{module}.PART_DEVICES", ("cpu",))
    monkeypatch.setattr("gpnn.engine.rows.CPU_ROWS", 256)  # of a piece of a pass
    num_nodes = 40_000
    nodes = torch.arange(num_nodes)
    graph = gpnn.Graph(nodes, nodes.roll(1), num_nodes)
    plan = gpnn.lower(gpnn.schedule.held_cut(graph, nodes // 200, 1, intra=2))
    model, x = gpnn.nn.GPNN(64, 64, 3, cell="gru", num_rounds=1, concat="none"), torch.randn(num_nodes, 64)

    def choose(memory: float | None) -> EngineChoice:
        return choose_engine(model, x, plan, RECIPE, engine="streamed", memory=memory, rows=10, train=nodes[:10])

    roomy = choose(None)
    tight = choose(roomy.estimate.peak - 1)
    assert isinstance(tight.runner, Streamed)
    assert (tight.runner.scored, tight.runner.part_edges) == (0.125, 1.0)
    assert roomy.estimate.scoring - tight.estimate.scoring == 0.875 * num_nodes * 64 * 4


def test_parts_of_few_edges_are_taken_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: a hub's edges are copied for the step before the last where there is room for them."""
    monkeypatch.setattr("gpnn.engine.recompute.PART_DEVICES", ("cpu",))
    monkeypatch.setattr("gpnn.memory.engine.PART_DEVICES", ("cpu",))
    num_nodes, random = 4000, torch.Generator().manual_seed(0)
    hubs = torch.randint(20, (60_000,), generator=random) * 200
    src = torch.cat([torch.randint(num_nodes, (60_000,), generator=random), hubs])
    ptr, col, _ = gpnn.Graph(src, src.roll(60_000), num_nodes).in_edges(with_edge=False)
    graph = gpnn.Graph.from_csr(torch.from_numpy(ptr), torch.from_numpy(col), symmetric=True)
    plan = gpnn.lower(gpnn.schedule.held_cut(graph, torch.arange(num_nodes) % 2, 1, intra=3))
    model, x = gpnn.nn.GPNN(8, 8, 3, cell="gru", num_rounds=1, concat="none"), torch.randn(num_nodes, 8)
    train = torch.arange(1, num_nodes, 401)

    def choose(memory: float | None) -> EngineChoice:
        return choose_engine(model, x, plan, RECIPE, engine="streamed", memory=memory, rows=len(train), train=train)

    roomy = choose(None)
    assert roomy.runner == "streamed"
    tight = choose(roomy.estimate.peak - 1)
    assert isinstance(tight.runner, Streamed)
    assert tight.runner.part_edges < 1
    assert tight.estimate.plan < roomy.estimate.plan
