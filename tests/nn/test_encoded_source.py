"""States made of features whenever they are needed give what kept states give."""

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

import gpnn
from gpnn.engine import Plan, Streamed
from gpnn.engine.saved_states import release_host_rows
from gpnn.nn import GPNN, MaskKey
from gpnn.nn.encoded_source import EncodedSource, HostFeatures, place_features
from gpnn.nn.layers import states_in
from tests.oracle.parameters import rest_thorough

NUM_NODES, ROWS = 120, 30
RUNNERS = {
    "near": Streamed(),
    "features on the host": Streamed(features="cpu"),
    "states on the host": Streamed(device="cpu", features="cpu"),
    "the last state near": Streamed(device="cpu", features="cpu", near=1),
}
MODELS = {
    "gru": {"concat": "features", "dropout": 0.3, "input_dropout": 0.2, "state_dropout": 0.1, "drop_node": 0.1},
    "linear": {"predict": "before", "readout": "learned", "cell_options": {"alpha": 0.0}, "concat": "none"},
    "lstm": {"concat": "initial", "readout": "mean"},
}
RESIDUAL = {  # which read initial states in every step: blocks of a lone round have them
    "linear": {"cell_options": {"alpha": 0.2}, "readout": "learned", "num_rounds": 1, "predict": "before"},
    "gcnii": {"concat": "initial"},
}


def plan_of(name: str, rounds: int = 2, *, stored: bool = False, **lowering: Any) -> Plan:
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randint(NUM_NODES - 5, (300,), generator=random) for _ in range(2))
    graph = gpnn.Graph(torch.cat([a, b]), torch.cat([b, a]), NUM_NODES)
    if stored:
        ptr, col, _ = graph.in_edges(with_edge=False)
        graph = gpnn.Graph.from_csr(torch.from_numpy(ptr), torch.from_numpy(col), symmetric=True)
    part = gpnn.Partition(torch.randint(4, (NUM_NODES,), generator=random), 4)
    schedules = {
        "synchronous": lambda: gpnn.schedule.synchronous(graph, rounds),
        "partitioned": lambda: gpnn.schedule.partitioned(graph, part, rounds, intra=2, cut=2),
        "held_cut": lambda: gpnn.schedule.held_cut(graph, part, rounds, intra=3),
        "inside": lambda: gpnn.schedule.partitioned(graph, part, rounds, intra=2, cut=0),
    }
    return gpnn.lower(schedules[name](), **lowering)


def features() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    return torch.randn(NUM_NODES, 7, generator=random), torch.randperm(NUM_NODES, generator=random)[:ROWS]


def passes(model: GPNN, x: Tensor, plan: Plan, rows: Tensor, count: int = 2) -> list[Tensor | None]:
    """Scores and gradients of the last of several passes: a runner may begin the next from what the last one left."""
    for _ in range(count):
        model.zero_grad()
        scores = model(x, plan, key=MaskKey(3, 1), rows=rows)
        (scores * torch.linspace(-1, 1, scores.numel()).view_as(scores)).sum().backward()
    return [scores.detach(), *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("rounds", rest_thorough([1, 3], [3]))
@pytest.mark.parametrize("cell", MODELS)
@pytest.mark.parametrize("schedule", ["synchronous", "partitioned", "held_cut"])
def test_gradients_are_those_of_kept_states(schedule: str, cell: str, rounds: int) -> None:
    plan, (x, rows) = plan_of(schedule, rounds), features()
    expected = passes(GPNN(7, 8, 3, cell=cell, num_rounds=rounds, **MODELS[cell]), x, plan, rows, 1)
    for runner in RUNNERS.values():
        model = GPNN(7, 8, 3, cell=cell, num_rounds=rounds, runner=runner, **MODELS[cell])
        assert model.recomputes_initial_states(x, plan)
        for ours, theirs in zip(passes(model, x, plan, rows), expected, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None and theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rounds", rest_thorough([1, 3], [3]))
@pytest.mark.parametrize("cell", rest_thorough(["gru", "lstm"], ["gru"]))
@pytest.mark.parametrize("schedule", ["held_cut", "inside", "partitioned", "synchronous"])
def test_a_loss_by_rows_has_the_gradients_of_a_whole_one(
    schedule: str, cell: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_loss_by_rows(schedule, cell, rounds, monkeypatch)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_blocks_of_a_lone_round_make_what_they_read(cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of a loss by rows, and scores of nodes, without a state or a gradient of all rows."""
    monkeypatch.setattr("gpnn.engine.blockwise_backward.MOST_HELD", 100)
    made, new_state = [], EncodedSource.new_state
    monkeypatch.setattr(EncodedSource, "new_state", lambda self: made.append(1) or new_state(self))
    check_loss_by_rows("held_cut", cell, 1, monkeypatch)
    plan, (x, rows) = plan_of("held_cut", 1), features()
    for runner in (*RUNNERS.values(), "fused"):
        model = GPNN(7, 8, 3, cell=cell, runner=runner).eval()
        with torch.no_grad():
            found, scores = model(x, plan, rows=rows), model(x, plan)
            assert not made
            torch.testing.assert_close(found, scores[rows])
            for nodes, piece in model.score_pieces(x, plan):
                torch.testing.assert_close(piece, scores[nodes])
            made.clear()


@pytest.mark.parametrize("cell", RESIDUAL)
@pytest.mark.parametrize("parts", [False, True], ids=["blocks", "parts of blocks"])
def test_initial_states_of_a_lone_round(cell: str, parts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpnn.engine.blockwise_backward.MOST_HELD", 100)
    monkeypatch.setitem(MODELS, cell, RESIDUAL[cell])
    if parts:
        monkeypatch.setattr("gpnn.engine.recompute.PART_DEVICES", ("cpu",))
    check_loss_by_rows("held_cut", cell, 1, monkeypatch)
    plan, (x, rows) = plan_of("held_cut", 1), features()
    expected = passes(GPNN(7, 8, 3, cell=cell, **MODELS[cell]), x, plan, rows, 1)
    for runner in RUNNERS.values():
        model = GPNN(7, 8, 3, cell=cell, runner=runner, **MODELS[cell])
        assert model.recomputes_initial_states(x, plan)
        assert not model.recomputes_initial_states(x, plan_of("held_cut", 2))
        torch.testing.assert_close(passes(model, x, plan, rows), expected, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            scores = model.eval()(x, plan)
            torch.testing.assert_close(model(x, plan, rows=rows), scores[rows])


@pytest.mark.thorough
@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("schedule", ["held_cut", "partitioned", "synchronous"])
@pytest.mark.parametrize("rule", ["phase", "symmetric_split"])
def test_the_last_step_as_a_block_of_some_rows(
    rule: str, schedule: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a GPU takes it, with weights per entry and as factors: the gradients and scores of all steps for all rows."""
    monkeypatch.setattr("gpnn.engine.recompute.PART_DEVICES", ("cpu",))
    monkeypatch.setattr("gpnn.engine.row_blocks.weighs_entries", lambda rule, device: False)
    for stored, few in ((False, 4), (True, 4), (True, 0)):
        monkeypatch.setattr("gpnn.engine.recompute.FEW", few)
        check_loss_by_rows(schedule, "gru", rounds, monkeypatch, stored=stored, normalization=rule, self_loops=True)
    monkeypatch.setitem(RUNNERS, "near", Streamed(part_edges=0.1))  # parts of few edges
    check_loss_by_rows(schedule, "gru", rounds, monkeypatch, stored=True, normalization=rule, self_loops=True)
    plan, (x, rows) = plan_of(schedule, rounds), features()
    found = []
    for runner in (Streamed(), "fused"):
        with torch.no_grad():
            found.append(GPNN(7, 8, 3, runner=runner).eval()(x, plan, rows=rows))
    torch.testing.assert_close(*found)


def check_loss_by_rows(schedule: str, cell: str, rounds: int, monkeypatch: pytest.MonkeyPatch, **lowering: Any) -> None:
    monkeypatch.setattr("gpnn.engine.rows.CPU_ROWS", 2)
    plan, (x, rows) = plan_of(schedule, rounds, **lowering), features()
    options = {**MODELS[cell]} if rounds == 1 else {**MODELS[cell], "readout": "last"}
    factor = torch.linspace(-1, 1, ROWS * 3).view(ROWS, 3)

    def passed(model: GPNN, loss: Tensor | None) -> list[Tensor | None]:
        assert loss is not None
        (2 * loss).backward()
        return [loss.detach(), *(parameter.grad for parameter in model.parameters())]

    model = GPNN(7, 8, 3, cell=cell, **options)
    expected = passed(model, (model(x, plan, key=MaskKey(3, 1), rows=rows) * factor).sum())
    for runner in RUNNERS.values():
        model = GPNN(7, 8, 3, cell=cell, runner=runner, **options)
        for _ in range(2):
            model.zero_grad()
            ours = passed(model, model.loss(x, plan, rows, lambda y, at: (y * factor[at]).sum(), MaskKey(3, 1)))
        for mine, theirs in zip(ours, expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("schedule", ["held_cut", "partitioned"])
def test_features_of_8_bits_are_those_that_they_stand_for(schedule: str) -> None:
    plan, (x, rows) = plan_of(schedule, 1), features()
    narrow, found = x.to(torch.float8_e4m3fn), []
    for given in (narrow, narrow.float()):
        model = GPNN(7, 8, 3, runner=Streamed(), concat="none")
        loss = model.loss(given, plan, rows, lambda y, at: y.square().sum(), MaskKey(3, 1))
        assert loss is not None
        loss.backward()
        found.append([loss.detach(), *(parameter.grad for parameter in model.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_fused_runner_has_no_loss_by_rows() -> None:
    x, rows = features()
    share = lambda y, at: y.sum()  # noqa: E731
    assert GPNN(7, 8, 3).loss(x, plan_of("held_cut"), rows, share) is None


@pytest.mark.parametrize("runner", RUNNERS)
def test_scores_of_all_nodes_are_in_the_users_order(runner: str) -> None:
    plan, (x, rows) = plan_of("held_cut"), features()
    model = GPNN(7, 8, 3, runner=RUNNERS[runner]).eval()
    with torch.no_grad():
        every = model(x, plan)
        torch.testing.assert_close(model(x, plan, rows=rows), every[rows])
        model.runner = "fused"
        torch.testing.assert_close(every, model(x, plan))


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_scores_of_a_share_of_the_nodes_at_a_time(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lone round, which gives the states of some nodes at a time, as a GPU takes it."""
    monkeypatch.setattr("gpnn.engine.blockwise_backward.MOST_HELD", 100)
    monkeypatch.setattr("gpnn.engine.recompute.PART_DEVICES", ("cpu",))
    monkeypatch.setattr("gpnn.engine.rows.CPU_ROWS", 7)
    plan, (x, _) = plan_of("held_cut", 1), features()
    expected = GPNN(7, 8, 3, num_rounds=1, readout="mean").eval()(x, plan)
    model = GPNN(7, 8, 3, num_rounds=1, readout="mean", runner=Streamed(scored=share)).eval()
    pieces = list(model.score_pieces(x, plan))
    assert [nodes.start for nodes, _ in pieces[1:]] == [nodes.stop for nodes, _ in pieces[:-1]]
    torch.testing.assert_close(torch.cat([scores for _, scores in pieces]), expected)
    assert not any(scores.requires_grad for _, scores in pieces)


def test_pieces_of_features(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("gpnn.engine.saved_states", "gpnn.nn.encoded_source"):
        monkeypatch.setattr(f"{module}.PIECE_ROWS", 7)
    plan, (x, rows) = plan_of("synchronous"), features()
    expected = passes(GPNN(7, 8, 3), x, plan, rows, 1)
    ours = passes(GPNN(7, 8, 3, runner=RUNNERS["states on the host"]), x, plan, rows)
    release_host_rows()  # other tests have pieces of another length
    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("cell", "limit"), [("gru", 3e-2), ("lstm", 3e-2), ("mlp", 3e-2), ("linear", 3e-2), ("residual", 1e-1)]
)  # a state near zero that is rounded to the other side of a ReLU has another gradient
def test_states_in_bfloat16(cell: str, limit: float) -> None:
    plan, (x, rows) = plan_of("held_cut"), features()
    expected = passes(GPNN(7, 16, 3, cell=cell), x, plan, rows, 1)
    for runner in ("fused", *RUNNERS.values()):
        with states_in(torch.bfloat16):
            ours = passes(GPNN(7, 16, 3, cell=cell, runner=runner), x, plan, rows)
        assert ours[0] is not None
        assert ours[0].dtype == torch.float32
        for mine, theirs in zip(ours, expected, strict=True):
            assert mine is not None
            assert theirs is not None
            assert float((mine - theirs).norm() / theirs.norm()) < limit


def test_a_second_backward_pass_is_refused() -> None:
    plan, (x, rows) = plan_of("synchronous"), features()
    loss = GPNN(7, 8, 3, runner="streamed")(x, plan, rows=rows).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        loss.backward()


def test_models_that_need_kept_states() -> None:
    plan, (x, _) = plan_of("synchronous"), features()
    sparse = (x * (torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.05)).contiguous()
    for model, given in (
        (GPNN(7, 8, 3), x),  # fused
        (GPNN(7, 8, 3, runner="streamed", norm="batch"), x),
        (GPNN(7, 8, 3, runner="streamed", cell="gcnii"), x),
        (GPNN(7, 8, 3, runner="streamed", predict="features"), x),
        (GPNN(7, 8, 3, runner="streamed"), sparse),
    ):
        assert not model.recomputes_initial_states(given, plan)


def test_masks_of_a_training_pass_without_gradients() -> None:
    """Finite differences evaluate a model in training mode: with the masks of the pass that is differentiated."""
    plan, (x, _) = plan_of("held_cut"), features()
    model = GPNN(7, 8, 3, runner="streamed", dropout=0.5, input_dropout=0.5)
    with torch.no_grad():
        without = model(x, plan, key=MaskKey(0, 1))
    torch.testing.assert_close(without, model(x, plan, key=MaskKey(0, 1)).detach())
    assert not torch.equal(without, model.eval()(x, plan).detach())


def test_a_state_is_shaped_by_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece of the features is copied for it: a copy could still be on its way when its buffer is used again."""
    plan, (x, _) = plan_of("partitioned"), features()
    model = GPNN(7, 16, 3, runner=Streamed(features="cpu"))
    source = model._source(x, plan, None, Streamed(features="cpu"))
    monkeypatch.setattr(HostFeatures, "pieces", lambda *_: pytest.fail("a piece was read"))
    assert source.new_state().shape == (NUM_NODES, 16)


@pytest.mark.parametrize("rows", [slice(3, 50), torch.arange(90, 20, -1), slice(3, 5)], ids=["slice", "rows", "few"])
def test_many_rows_are_made_a_range_at_a_time(rows: Tensor | slice, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, (x, _) = plan_of("held_cut"), features()
    model = GPNN(7, 16, 3, runner="streamed", input_dropout=0.5, drop_node=0.2).train()
    source = model._source(x, plan, MaskKey(0, 1), Streamed())
    monkeypatch.setattr("gpnn.nn.encoded_source.step_rows", lambda device: 10)
    torch.testing.assert_close(source.read(rows), source.make(rows).detach())


def test_features_on_the_host_are_kept_for_one_plan() -> None:
    (x, _), first, second = features(), plan_of("synchronous"), plan_of("partitioned")
    assert place_features(x, first, "cpu", None, 16) is place_features(x, first, "cpu", None, 16)
    narrow = place_features(x, first, "cpu", torch.bfloat16, 16)
    assert isinstance(narrow, HostFeatures)
    assert narrow.rows.dtype == torch.bfloat16
    held, plan = weakref.ref(place_features(x, second, "cpu", None, 16)), weakref.ref(second)
    del second
    assert held() is not None
    assert plan() is None
    place_features(x, first, "cpu", None, 16)
    assert held() is None
