import inspect
from dataclasses import fields

import pytest
import torch

from gpnn.build import build, build_data, load_config, rebuild, resolve
from gpnn.config import ModelConfig
from gpnn.engine import NORMALIZATIONS
from gpnn.memory import estimate
from gpnn.memory.engine import GIVEN_MARGIN, DoesNotFit
from gpnn.nn import GPNN, READOUTS, UPDATES
from gpnn.pipeline import Pipeline, Sizes
from gpnn.schedule import SCHEDULES
from gpnn.schedule.make_schedule import needs_partition

TINY = ["data.name=planted", "data.num_nodes=60", "data.num_classes=3", "data.num_features=8", "data.label_rate=0.3"]


def tiny(*settings: str):
    return load_config(overrides=[*TINY, "model.hidden_channels=4", "train.epochs=1", *settings])


def test_every_argument_of_the_model_can_be_configured():
    by_the_graph = {
        "in_channels",
        "out_channels",
        "num_rounds",
        "kinds",
        "num_edge_types",
        "num_nodes",
        "nodes",
        "runner",
        "features",
        "seed",
    }
    arguments = set(inspect.signature(GPNN).parameters) - by_the_graph
    assert {each.name for each in fields(ModelConfig)} - {"embedding_start", "name", "method", "labels"} == arguments


def test_auto_sizes_follow_the_graph_and_the_seed_reaches_everything():
    config = load_config(overrides=[*TINY, "seed=3"])
    built = build(config)
    sizes = Pipeline().resolve(built.data).sizes
    chosen = Sizes(built.config.partition.k, built.config.schedule.rounds, built.config.model.hidden_channels)
    assert chosen == sizes
    assert (built.partition.num_parts, built.plan.num_rounds) == (sizes.k, sizes.rounds)
    assert built.model_arguments["seed"] == 3
    assert built.config.partition.options == config.partition.options
    again = build(config)
    assert torch.equal(built.partition.labels, again.partition.labels)
    for one, other in zip(built.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_k_grows_where_subgraphs_are_what_does_not_fit(monkeypatch):
    monkeypatch.setattr(estimate, "resident_bytes", lambda device="cpu": 1e8)
    large = [
        "data.num_nodes=3000",
        "schedule.intra=40",
        "schedule.rounds=2",
        "model.cell=gru",
        "model.hidden_channels=64",
    ]
    with pytest.raises(DoesNotFit) as refusal:
        build(tiny(*large, "memory=0.001"))
    tightest = refusal.value.estimate
    memory = f"memory={(tightest.peak - 0.3 * tightest.piece) / GIVEN_MARGIN / 1e9}"
    asked = Pipeline().resolve(build_data(tiny(*large))).k
    built = build(tiny(*large, memory))
    assert built.config.partition.k == built.partition.num_parts >= 2 * asked
    with pytest.raises(ValueError, match="Training must fit in"):
        build(tiny(*large, memory, f"partition.k={asked}"))


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_builds_and_runs(name):
    built = build(tiny(f"schedule.name={name}"))
    assert built.model(built.data.x, built.plan).shape == (60, 3)
    assert (built.partition is None) == (not needs_partition(name))


@pytest.mark.parametrize(
    "settings",
    [
        *([f"model.cell={name}"] for name in UPDATES),
        *([f"model.readout={name}"] for name in READOUTS if name != "concat"),
        ["model.readout=concat", "model.predict=after", "model.norm=pass"],
        *([f"schedule.normalization={name}"] for name in NORMALIZATIONS),
        ["schedule.self_loops=true", "schedule.intra=2", "schedule.update=receivers", "schedule.virtual=graph"],
        ["model.sharing=round", "model.message=linear", "model.head=[6, 5]", "model.encoder=[7]"],
        ["model.input=both", "model.concat=initial", "model.embedding_start=random"],
        ["model.input=embedding", "model.concat=none"],
        ["model.predict=before", "model.activation=relu", "engine=streamed"],
        ["partition.leftover=spread", "model.cell=linear", "model.cell_options.alpha=0.2"],
    ],
    ids=" ".join,
)
def test_every_choice_is_reachable(settings):
    built = build(tiny(*settings))
    assert torch.isfinite(built.model(built.data.x, built.plan)).all()


def test_a_graph_without_features_gets_embeddings():
    config = tiny()
    data = build_data(config)
    data.num_nodes = 60
    del data.x
    built = build(config, data)
    assert built.model_arguments["input"] == "embedding"
    assert built.model(None, built.plan).shape == (60, 3)


def test_a_new_graph_with_fewer_candidates_gets_fewer_parts():
    config = tiny("partition.k=9")
    built = build(config)
    small = build_data(load_config(overrides=[*TINY, "data.num_nodes=12", "data.label_rate=0.5"]))
    model, plan = rebuild(built.config, built.model, built.model_arguments, small)
    assert model(small.x, plan).shape == (12, 3)


def test_resolve_leaves_what_was_said(tmp_path):
    config = tiny("partition.k=4", "schedule.rounds=7")
    resolved = resolve(config, build_data(config))
    assert (resolved.partition.k, resolved.schedule.rounds, resolved.model.hidden_channels) == (4, 7, 4)


@pytest.fixture
def all_graphs_are_large(monkeypatch):
    monkeypatch.setattr("gpnn.schedule.make_schedule.LARGE_NODES", 1)


def test_auto_is_the_papers_schedule_in_one_process(all_graphs_are_large):
    built = build(tiny("schedule.rounds=5"))
    assert (built.config.schedule.name, built.plan.num_rounds) == ("partitioned", 5)
    assert not [note for note in built.notes if "schedule" in note.what]


def test_auto_holds_the_cut_where_a_large_graph_is_streamed_and_says_so(all_graphs_are_large):
    built = build(tiny("schedule.rounds=5", "engine=streamed"))
    schedule = built.config.schedule
    assert (schedule.name, schedule.rounds, schedule.options) == ("held_cut", 3, {"intra": 2})
    assert built.plan.schedule.num_steps == 6
    (note,) = [str(note) for note in built.notes if "held_cut" in note.what]
    assert note == (
        "schedule held_cut, 3 rounds of 2 steps, is taken for a large graph and the engine streamed: messages over the "
        "cut are sent once per round; schedule.name=partitioned takes the paper's"
    )
    named = build(tiny("schedule.rounds=5", "engine=streamed", "schedule.name=partitioned"))
    assert (named.config.schedule.name, named.plan.num_rounds) == ("partitioned", 5)


def test_options_of_the_partition_schedule_choose_it(all_graphs_are_large):
    built = build(tiny("schedule.rounds=5", "engine=streamed", "schedule.cut=2"))
    assert (built.config.schedule.name, built.config.schedule.options) == ("partitioned", {"cut": 2})
    with pytest.raises(ValueError, match=r"schedule\.batches"):
        tiny("schedule.batches=2")
