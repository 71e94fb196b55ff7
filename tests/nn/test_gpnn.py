"""GPNN: inputs, propagation, outputs, randomness, errors."""

import copy
import pickle
import re

import pytest
import torch

import gpnn
from gpnn.nn import GPNN, READOUTS, UPDATES, MaskKey
from gpnn.nn.gpnn import CONCATENATIONS, INPUTS, PREDICTIONS
from gpnn.schedule import Phase, Schedule
from gpnn.schedule.partitioned import KINDS
from tests.oracle.engine_cases import make_schedule, multigraph
from tests.oracle.small_graphs import chain

FEATURES = 7


@pytest.fixture(scope="module")
def plan() -> gpnn.Plan:
    graph = multigraph(weighted=False, num_types=1)
    return gpnn.lower(graph, make_schedule("partitioned", graph))


def features(seed: int = 0, num_nodes: int = 10) -> torch.Tensor:
    """Mostly zeros, so that they are multiplied as sparse; the last node has none."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, FEATURES, generator=random)
    x[torch.rand(num_nodes, FEATURES, generator=random) < 0.85] = 0
    x[-1] = 0
    return x


def dense_features() -> torch.Tensor:
    return torch.randn(10, FEATURES, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("predict", PREDICTIONS)
def test_every_form_gives_scores_and_trains_all_its_parameters(input, predict, plan):
    if predict == "features" and input != "features":
        pytest.skip("features that propagate are the only input")
    for concat in CONCATENATIONS:
        for head in ((), (5,), (5, 6)):
            model = GPNN(
                FEATURES, 4, 3, input=input, predict=predict, concat=concat, head=head, num_nodes=10, encoder=(6,)
            )
            scores = model(features(), plan)
            assert scores.shape == (10, 3)
            scores.square().sum().backward()
            assert all(p.grad is not None for p in model.parameters())
            assert model.states(features(), plan).shape == (10, 4)


@pytest.mark.parametrize("cell", UPDATES)
@pytest.mark.parametrize("readout", READOUTS)
def test_every_cell_and_readout(cell, readout, plan):
    model = GPNN(FEATURES, 4, 3, cell=cell, readout=readout, num_rounds=2, sharing="round").eval()
    fused = model(features(), plan)
    model.runner = "streamed"
    torch.testing.assert_close(model(features(), plan), fused)


def test_readouts_by_hand(plan):
    models = {name: GPNN(FEATURES, 4, 4, readout=name, num_rounds=2, concat="none", cell="linear") for name in READOUTS}
    for name, model in models.items():
        model.head.weights[0].data = torch.eye(8, 4) if name == "concat" else torch.eye(4)
    start = models["last"].encoder(features(), 0.0, 0.0, None)
    states = [start, *gpnn.propagate(models["last"].cell, plan, start, collect=True)]
    torch.testing.assert_close(models["last"](features(), plan), states[-1])
    torch.testing.assert_close(models["mean"](features(), plan), sum(states) / 3)
    torch.testing.assert_close(models["max"](features(), plan), torch.maximum(*states[1:]))
    torch.testing.assert_close(models["concat"](features(), plan), states[1])  # the head takes the first round
    gamma = (0.1, 0.1 * 0.9, 0.9**2)
    torch.testing.assert_close(models["learned"](features(), plan), sum(g * h for g, h in zip(gamma, states)))


def test_joined_rounds_must_be_those_of_the_plan(plan):
    model = GPNN(FEATURES, 4, 3, readout="concat", num_rounds=3)
    with pytest.raises(ValueError, match=r"The plan must have 3 rounds, as the head has. Got 2."):
        model(features(), plan)


def test_predicting_before_propagating_is_appnp(plan):
    model = GPNN(FEATURES, 4, 3, cell="linear", predict="before", activation="relu", concat="none")
    scores = model.head(model.encoder(features(), 0.0, 0.0, None).relu())
    torch.testing.assert_close(model(features(), plan), gpnn.propagate(model.cell, plan, scores))
    torch.testing.assert_close(model.states(features(), plan), model.encoder(features(), 0.0, 0.0, None).relu())


@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_propagate_are_mapped_afterwards(sparse, plan):
    """A linear cell and no masks: mapping first or last is the same, but for the bias, which is zero at the start."""
    x = features().to_sparse_csr() if sparse else features()
    options = {"cell": "linear", "cell_options": {"alpha": 0.2}, "concat": "none", "activation": "relu"}
    first, last = (GPNN(FEATURES, 4, 3, predict=predict, **options).eval() for predict in ("after", "features"))
    torch.testing.assert_close(last(x, plan), first(x, plan))


def test_features_that_propagated_once_follow_their_graph_and_values(plan):
    """Predictions keep them, and make them again for other features and another plan."""
    options = {"cell": "linear", "predict": "features", "concat": "none", "norm": "unit", "num_rounds": 2}
    model, x = GPNN(FEATURES, 4, 3, **options).eval(), features()
    rows = torch.tensor([7, 2])
    with torch.no_grad():
        torch.testing.assert_close(model(x, plan, rows=rows), model(x, plan)[rows])
        x[:, 0] += 1
        fresh = GPNN(FEATURES, 4, 3, **options).eval()
        torch.testing.assert_close(model(x, plan), fresh(x.clone(), plan))
        again = gpnn.lower(chain(10), gpnn.schedule.synchronous(chain(10), rounds=2))
        torch.testing.assert_close(model(x, again), fresh(x.clone(), again))
        torch.testing.assert_close(pickle.loads(pickle.dumps(model))(x, again), model(x, again))


def test_batch_normalisation_standardises_what_the_head_sees(plan):
    model = GPNN(FEATURES, 4, 3, cell="linear", predict="features", concat="none", norm="batch")
    x = dense_features()
    seen = model.states(x, plan)  # in training: by the pass at hand
    torch.testing.assert_close(seen.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen.var(0, unbiased=False), torch.ones(4), atol=1e-2, rtol=0)
    model.eval()
    alone = model(x, plan)
    assert not torch.allclose(alone.mean(0), model.train()(x, plan).mean(0)), "later by the running average"


def test_batch_normalisation_stays_with_the_weights(plan):
    model = GPNN(FEATURES, 4, 3, norm="batch")
    for epoch in range(3):
        model(features(), plan, MaskKey(0, epoch))
    copy_of = GPNN(FEATURES, 4, 3, norm="batch")
    copy_of.load_state_dict(model.state_dict())
    torch.testing.assert_close(copy_of.eval()(features(), plan), model.eval()(features(), plan), rtol=0, atol=0)


def test_the_last_pass_standardises_later_ones(plan):
    model = GPNN(FEATURES, 4, 3, cell="linear", concat="none", norm="pass")
    x = 10000 * features()
    seen = model.states(x, plan)
    torch.testing.assert_close(seen.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen.var(0, unbiased=False), torch.ones(4), atol=1e-2, rtol=0)
    torch.testing.assert_close(model.eval().states(x, plan), seen, rtol=0, atol=0)
    assert model.states(3 * x, plan).var(0).min() > 8, "an affine map: three times the deviation"
    copy_of = GPNN(FEATURES, 4, 3, cell="linear", concat="none", norm="pass").eval()
    copy_of.load_state_dict(model.state_dict())
    torch.testing.assert_close(copy_of.states(x, plan), seen, rtol=0, atol=0)


def test_the_seed_alone_decides_the_parameters():
    torch.manual_seed(0)
    first = GPNN(FEATURES, 4, 3, input="both", num_nodes=10, seed=5)
    state = torch.get_rng_state()
    torch.manual_seed(1)
    again = GPNN(FEATURES, 4, 3, input="both", num_nodes=10, seed=5)
    other = GPNN(FEATURES, 4, 3, input="both", num_nodes=10, seed=6)
    assert all(a.equal(b) for a, b in zip(first.parameters(), again.parameters()))
    assert any(not a.equal(b) for a, b in zip(first.parameters(), other.parameters()))
    torch.manual_seed(0)
    assert torch.get_rng_state().equal(state)  # nothing was drawn from the global generator
    gates = first.cell.update.weight_ih.chunk(3)
    assert not gates[0].equal(gates[1])  # the reference code starts all gates alike


def test_a_draw_names_its_masks(plan):
    model = GPNN(FEATURES, 4, 3, dropout=0.5, input_dropout=0.3, state_dropout=0.2, drop_node=0.3, encoder=(5,))
    same = [model(features(), plan, MaskKey(1, 2, 3)) for _ in range(2)]
    assert same[0].equal(same[1])
    for other in (MaskKey(2, 2, 3), MaskKey(1, 3, 3), MaskKey(1, 2, 4)):
        assert not model(features(), plan, other).equal(same[0])
    torch.manual_seed(0)
    drawn = [model(features(), plan) for _ in range(2)]
    torch.manual_seed(0)
    assert model(features(), plan).equal(drawn[0])
    assert not drawn[0].equal(drawn[1])
    model.eval()
    assert model(features(), plan, MaskKey(1)).equal(model(features(), plan, MaskKey(2)))


def test_masks_do_not_depend_on_the_partition(plan):
    graph = multigraph(weighted=False, num_types=1)
    other = gpnn.lower(graph, gpnn.schedule.synchronous(graph, 1))
    model = GPNN(FEATURES, 4, 3, cell="linear", cell_options={"alpha": 1.0, "teleport": "phase"}, drop_node=0.5)
    whole = gpnn.lower(graph, gpnn.schedule.partitioned(graph, [1, 0] * 5, cut=0))
    key = MaskKey(0)
    torch.testing.assert_close(model(features(), other, key), model(features(), whole, key))


@pytest.mark.parametrize("key", [None, MaskKey(3)])
def test_sparse_and_dense_features_give_the_same(key, plan):
    model = GPNN(FEATURES, 4, 3, input_dropout=0.4, dropout=0.4).train(key is not None)
    results = []
    sparse = features().to_sparse_csr()
    for x in (features(), sparse, features().to_sparse_coo(), features().requires_grad_()):
        model.zero_grad()
        out = model(x, plan, key)
        out.square().sum().backward()
        results.append([out.detach(), *(p.grad.clone() for p in model.parameters())])
    for other in results[1:]:
        for ours, theirs in zip(results[0], other):
            torch.testing.assert_close(ours, theirs)


def test_dense_features_are_multiplied_densely(plan):
    model = GPNN(FEATURES, 4, 3, input_dropout=0.4)
    x = dense_features()
    expected = model(x, plan, MaskKey(0))
    torch.testing.assert_close(model(x.to_sparse_csr(), plan, MaskKey(0)), expected)


def test_features_changed_in_place_are_read_anew(plan):
    model, x = GPNN(FEATURES, 4, 3), features()
    before = model(x, plan)
    x.mul_(2)
    torch.testing.assert_close(model(x, plan), model(x.clone(), plan))
    assert not model(x, plan).equal(before)


@pytest.mark.parametrize("runner", ["fused", "streamed"])
@pytest.mark.parametrize(
    "options", [{}, {"predict": "before"}, {"concat": "features"}, {"input_dropout": 0.5}], ids=str
)
def test_features_of_8_bits_are_those_times_their_scale(runner, options, plan):
    levels = torch.randint(-127, 128, (10, 6), generator=torch.Generator().manual_seed(0)).to(torch.int8)
    scale = torch.linspace(0.01, 0.02, 6, dtype=torch.float64)
    found = []
    for x, own in ((levels, scale), (levels * scale, None)):
        model = GPNN(6, 8, 3, num_rounds=plan.num_rounds, cell="gru", runner=runner, **options).double()
        model.set_feature_scale(own)
        scores = model(x, plan, MaskKey(1))
        found.append([scores, *torch.autograd.grad(scores.square().sum(), list(model.parameters()))])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)
    for x, own in ((levels, None), (levels.double(), scale)):
        model.set_feature_scale(own)
        with pytest.raises(ValueError, match=r"Features of 8 bits, and no others, have a scale .* Got torch\."):
            model(x, plan)
    with pytest.raises(ValueError, match="Features that propagate must be floating point"):
        GPNN(6, 8, 3, predict="features").set_feature_scale(scale)


@pytest.mark.parametrize("runner", ["fused", "streamed"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"predict": "before"},
        {"concat": "features"},
        {"concat": "initial"},
        {"input_dropout": 0.5},
        {"encoder": (5,)},
    ],
    ids=str,
)
def test_features_in_standard_units_are_those_standardised_by_hand(runner, options, plan):
    x = dense_features().double()
    mean, deviation = torch.linspace(-5, 900, FEATURES), torch.logspace(-2, 3, FEATURES)
    found = []
    for given, standardize in ((x * deviation + mean, True), (x, False)):
        settings = {"num_rounds": plan.num_rounds, "runner": runner, "standardize": standardize, **options}
        model = GPNN(FEATURES, 8, 3, **settings).double()
        if standardize:
            model.set_feature_moments(mean, deviation)
            again = GPNN(FEATURES, 8, 3, **settings).double()
            again.load_state_dict(model.state_dict())
            model = again  # moments are saved with the model
        scores = model(given, plan, MaskKey(1))
        found.append([scores, *torch.autograd.grad(scores.square().sum(), list(model.parameters()))])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_features_that_propagate_are_not_in_standard_units():
    with pytest.raises(ValueError, match="`standardize` takes features that do not propagate themselves"):
        GPNN(FEATURES, 4, 3, predict="features", standardize=True)


def test_a_model_runs_on_another_graph(plan):
    """Inductive use: the plan is the graph's, the parameters are the model's."""
    model = GPNN(FEATURES, 4, 3)
    model(features(), plan).sum().backward()
    graph = chain(25)
    other = gpnn.lower(graph, gpnn.schedule.partitioned(graph, torch.arange(25) // 9, rounds=4))
    assert model(features(num_nodes=25), other).shape == (25, 3)
    bound = GPNN(0, 4, 3, input="embedding", num_nodes=10)
    assert bound(None, plan).shape == (10, 3)
    with pytest.raises(ValueError, match=r"belong to one graph of 10 nodes.*Got a graph of 25 nodes"):
        bound(None, other)


def there_and_back(graph):
    """A schedule whose kinds no other has: up along the order of the nodes, then down."""
    phases = []
    for kind, chosen in (("up", graph.src < graph.dst), ("down", graph.src >= graph.dst)):
        edges = chosen.nonzero().flatten()
        phases.append(Phase(edges, graph.dst[edges].unique(), kind=kind))
    return Schedule(graph, (tuple(phases),) * 2)


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_kinds_of_a_new_schedule_have_cells_of_their_own(runner):
    graph = multigraph(num_types=1)
    plan = gpnn.lower(there_and_back(graph))
    assert plan.kinds == plan.build(runner).kinds == ("up", "down")
    model = GPNN(FEATURES, 4, 3, sharing="kind", kinds=plan.kinds, runner=runner).eval()
    assert [name for name in model.state_dict() if name.endswith("bias_hh")] == [
        f"cell.cells.{number}.update.bias_hh" for number in (0, 1)
    ]
    before = model(features(), plan)
    with torch.no_grad():
        model.cell.cells[1].update.bias_hh += 1.0
    after = model(features(), plan)
    written = plan.rounds[-1][-1].phase.nodes  # by "down", which comes last
    assert not torch.isclose(before, after)[written].all(dim=1).any()
    model.cell.kinds = ("up", "other")  # "down" has no cell of its own any more
    shared = {name.replace(".cells.0.", "."): value for name, value in model.state_dict().items() if "s.1." not in name}
    lone = GPNN(FEATURES, 4, 3, runner=runner).eval()
    lone.load_state_dict(shared)
    torch.testing.assert_close(model(features(), plan), lone(features(), plan))


def test_a_model_without_kinds_has_the_partitioned_schedules(plan):
    """As saved models of before have them: their arguments name none."""
    model, named = (GPNN(FEATURES, 4, 3, sharing="kind", kinds=kinds) for kinds in (None, KINDS))
    assert len(model.cell.cells) == 4
    named.load_state_dict(model.state_dict())
    assert named(features(), plan).equal(model(features(), plan))


def test_models_can_be_copied_and_pickled(plan):
    model = GPNN(FEATURES, 4, 3, sharing="kind")
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin(features(), plan).equal(model(features(), plan))


def test_double_precision(plan):
    model = GPNN(FEATURES, 4, 3).double()
    assert model(features(), plan).dtype == torch.float64
    assert model(features().to_sparse_csr(), plan).dtype == torch.float64


def test_typed_graphs_and_virtual_nodes():
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule("subgraph_memory", graph))
    model = GPNN(FEATURES, 4, 3, message="linear", num_edge_types=plan.num_edge_types)
    assert model(features(), plan).shape == (10, 3)
    with pytest.raises(ValueError, match=r"larger `num_edge_types`.*virtual nodes need two more.* Got type 3"):
        GPNN(FEATURES, 4, 3, message="linear", num_edge_types=3)(features(), plan)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"cell": "rnn"}, f"`cell` must be one of {', '.join(UPDATES)}. Got 'rnn'"),
        ({"message": "x"}, "`message` must be one of identity, linear, mlp. Got 'x'"),
        ({"aggregate": "x"}, "`aggregate` must be one of mean, sum, max, min. Got 'x'"),
        ({"sharing": "x"}, "`sharing` must be one of shared, round, kind. Got 'x'"),
        ({"sharing": "round"}, "The sharing 'round' needs `num_rounds`. Got None"),
        ({"sharing": "kind", "kinds": []}, "`kinds` must be distinct, at least one. Got ()"),
        ({"sharing": "kind", "kinds": ["up", "up"]}, "`kinds` must be distinct, at least one. Got ('up', 'up')"),
        ({"input": "x"}, "`input` must be one of features, embedding, both. Got 'x'"),
        ({"input": "both"}, "Embeddings need `num_nodes`. Got None"),
        ({"predict": "x"}, "`predict` must be one of after, before, features. Got 'x'"),
        ({"norm": "x"}, "`norm` must be one of none, batch, pass, unit. Got 'x'"),
        (
            {"predict": "features", "input": "both", "num_nodes": 10},
            "`predict` 'features' needs `input` 'features'. Got 'both'",
        ),
        ({"concat": "x"}, "`concat` must be one of none, features, initial. Got 'x'"),
        ({"activation": "x"}, "`activation` must be one of identity, relu, tanh. Got 'x'"),
        ({"readout": "x"}, "`readout` must be one of last, mean, max, concat, learned. Got 'x'"),
        ({"readout": "concat"}, "The readout 'concat' needs `num_rounds`. Got None"),
        (
            {"readout": "concat", "num_rounds": 2, "predict": "before"},
            "`readout` 'concat' needs `predict` 'after'. Got 'before'",
        ),
        ({"readout": "learned"}, "The readout 'learned' needs `num_rounds`. Got None"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1. Got 1.0"),
        ({"drop_node": -0.1}, "`drop_node` must be at least 0 and below 1. Got -0.1"),
        ({"cell_options": {"depth": 2}}, "`cell_options` must be arguments of the cell 'gru'. Got {'depth': 2}"),
        ({"cell_options": {"reset": "x"}}, "`reset` must be one of after, before. Got 'x'"),
        ({"cell": "linear", "cell_options": {"alpha": 2}}, "`alpha` must lie from 0 to 1. Got 2"),
        ({"cell": "linear", "cell_options": {"teleport": "x"}}, "`teleport` must be one of phase, round. Got 'x'"),
    ],
)
def test_refuses_arguments(arguments, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        GPNN(FEATURES, 4, 3, **arguments)


def test_refuses_inputs(plan):
    model = GPNN(FEATURES, 4, 3)
    with pytest.raises(ValueError, match=r"needs `x`\. Got None"):
        model(None, plan)
    with pytest.raises(ValueError, match=r"`x` must have one row for each of the 10 nodes\. Got 9"):
        model(features()[:9], plan)
    with pytest.raises(ValueError, match=r"`x` must have 7 columns\. Got 6"):
        model(features()[:, :6], plan)
    with pytest.raises(ValueError, match=r"The plan must have 5 rounds, as the learned readout has\. Got 2"):
        GPNN(FEATURES, 4, 3, readout="learned", num_rounds=5)(features(), plan)
    with pytest.raises(ValueError, match=r"`hidden_channels` must be at least 1\. Got 0"):
        GPNN(FEATURES, 0, 3)
