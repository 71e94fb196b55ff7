"""The contract of `Scheduled` over all of `torch_geometric.nn.conv`, and that docs/convolutions.md says the same."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch_geometric.nn import conv as pyg_conv

import gpnn
from gpnn import Graph
from gpnn.nn import Scheduled
from gpnn.nn.scheduled import UNFIT
from gpnn.schedule import synchronous
from tests.nn.pyg_convolutions import (
    ACCEPTED,
    ALL_ROWS,
    AS_THE_ONE_INSIDE,
    LOCAL,
    NEEDS_A_PACKAGE,
    REFUSED,
    SEVERAL_HOPS_OR_DEGREES,
    WIDTH,
    WITHOUT_WEIGHTS,
)
from tests.nn.test_scheduled import attributes_for, by_hand, call, typed_graph
from tests.oracle.engine_cases import gradients, make_schedule, states

PAGE = Path(__file__).parents[2] / "docs" / "convolutions.md"
ALL_REFUSED = sorted(set().union(*REFUSED.values()))
NAMES = [*ACCEPTED, *NEEDS_A_PACKAGE, *ALL_REFUSED]


def scheduled(name: str, **options: bool) -> Scheduled:
    torch.manual_seed(0)
    return Scheduled(ACCEPTED[name]().double().eval(), **options)


def graph_for(name: str) -> Graph:
    graph = typed_graph()
    return replace(graph, edge_weight=None) if name in WITHOUT_WEIGHTS else graph


def bare(name: str) -> nn.Module:
    """A convolution that was not initialised: some need packages for that, and `Scheduled` reads the class alone."""
    if not hasattr(pyg_conv, name):
        pytest.skip("this PyG does not have it")
    kind = getattr(pyg_conv, name)
    made = kind.__new__(kind)
    nn.Module.__init__(made)
    return made


def test_every_convolution_is_in_the_table() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert set(pyg_conv.__all__) <= set(NAMES)  # an older PyG has fewer


@pytest.mark.parametrize("name", ACCEPTED)
def test_one_synchronous_round_is_the_convolution_itself(name: str) -> None:
    graph, x, conv = graph_for(name), states(width=WIDTH), scheduled(name)
    ours = conv(x, gpnn.lower(graph, synchronous(graph, 1)), attributes_for(conv, graph))
    whole = call(conv.conv, graph, torch.arange(graph.num_edges), x, x)
    torch.testing.assert_close(ours, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.thorough  # test_scheduled.py has the form of a few
@pytest.mark.parametrize("name", sorted(set(ACCEPTED) - ALL_ROWS))
def test_phases_equal_calling_it_by_hand_and_runners_agree(name: str) -> None:
    graph, conv = graph_for(name), scheduled(name)
    attributes = attributes_for(conv, graph)
    for kind in ("partitioned", "receivers", "sequential"):
        schedule = make_schedule(kind, graph)
        plan, results = gpnn.lower(graph, schedule), []
        for runner in ("fused", "streamed"):
            x = states(width=WIDTH).requires_grad_()
            out = conv(x, plan, attributes, runner=runner)
            results.append([out.detach(), *gradients(conv, out, [x])])
        torch.testing.assert_close(results[0][0], by_hand(conv.conv, schedule, states(width=WIDTH)).detach())
        for fused, streamed in zip(*results, strict=True):
            torch.testing.assert_close(streamed, fused, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", sorted(LOCAL | SEVERAL_HOPS_OR_DEGREES))
def test_which_are_local(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Phases without blocks in chunks of two receivers: the same for local convolutions, and for no other."""
    monkeypatch.setattr("gpnn.engine.lower_schedule._chunk_rows", lambda schedule: 2)
    graph, conv = graph_for(name), scheduled(name, local=True)
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    attributes = attributes_for(conv, graph)
    fused, streamed = (conv(states(width=WIDTH), plan, attributes, runner=r) for r in ("fused", "streamed"))
    assert torch.allclose(streamed, fused, rtol=1e-9, atol=1e-10) == (name in LOCAL)


@pytest.mark.parametrize("name", ALL_ROWS)
def test_attention_over_all_rows_needs_the_fused_runner(name: str) -> None:
    graph, conv = graph_for(name), scheduled(name)
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    with pytest.raises(ValueError, match="attends over all rows of a phase must have `runner` fused"):
        conv(states(width=WIDTH), plan, attributes_for(conv, graph), runner="streamed")


@pytest.mark.parametrize("name", ALL_REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^A schedule .*\. Got {name}, which .*\.$"):
        Scheduled(bare(name))


@pytest.mark.parametrize("name", NEEDS_A_PACKAGE)
def test_taken_by_its_arguments(name: str) -> None:
    assert Scheduled(bare(name)).takes == {"x", "edge_index", "edge_attr"}


def test_each_unfit_convolution_would_be_taken_by_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpnn.nn.scheduled.UNFIT", {})
    for name in UNFIT:
        Scheduled(bare(name))


def names_in(line: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", line)) & set(NAMES)


def test_the_page_lists_them() -> None:
    section = PAGE.read_text().partition("## Which convolutions\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and names_in(line)]
    groups = [LOCAL, SEVERAL_HOPS_OR_DEGREES, AS_THE_ONE_INSIDE, ALL_ROWS, set(NEEDS_A_PACKAGE), *REFUSED.values()]
    assert [names_in(row) for row in rows] == groups
    reasons = [row.split("|")[1].strip() for row in rows[-len(REFUSED) :]]
    assert reasons == list(REFUSED)
