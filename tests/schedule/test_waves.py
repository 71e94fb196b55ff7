import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.schedule import waves
from tests.oracle.small_graphs import chain, graphs


def as_networkx(graph: Graph) -> nx.Graph:
    plain = nx.Graph(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    plain.add_nodes_from(range(graph.num_nodes))
    return plain


def origins_of(phases) -> list[int]:
    """The nodes that update first; the wave ends where it began."""
    assert set(phases[-1].nodes.tolist()) <= set(phases[0].nodes.tolist())
    return phases[0].nodes.tolist()


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), origin=st.integers(0, 3))
def test_a_wave_follows_the_distances(graph, origin):
    origin = min(origin, graph.num_nodes - 1)
    phases = waves(graph, rounds=1, origins=origin).rounds[0]
    plain = as_networkx(graph)
    starts = {origin} | {min(nodes) for nodes in nx.connected_components(plain) if origin not in nodes}
    distance = nx.multi_source_dijkstra_path_length(plain, starts)
    assert sorted(edge for phase in phases for edge in phase.edges.tolist()) == list(range(graph.num_edges))
    assert phases[0].kind == "origin"
    assert sorted(starts) == phases[0].nodes.tolist()
    assert not phases[0].num_messages
    phases = phases[1:]
    way = [(phase.kind, {distance[node] for node in phase.nodes.tolist()}) for phase in phases]
    out = [levels for kind, levels in way if kind == "outward"]
    back = [levels for kind, levels in way if kind == "back"]
    assert [kind for kind, _ in way] == ["outward"] * len(out) + ["back"] * len(back)
    assert all(len(levels) == 1 for levels in out + back)
    assert [min(levels) for levels in out] == sorted(min(levels) for levels in out)
    assert [min(levels) for levels in back] == sorted((min(levels) for levels in back), reverse=True)
    for phase in phases:
        for edge in phase.edges.tolist():
            step = distance[int(graph.dst[edge])] - distance[int(graph.src[edge])]
            assert step == 1 if phase.kind == "outward" else step in (0, -1)


@settings(max_examples=40, deadline=None)
@given(size=st.integers(2, 30), seed=st.integers(0, 99))
def test_three_waves_know_the_eccentricity_of_a_tree(size, seed):
    random = np.random.default_rng(seed)
    parent = [int(random.integers(node)) for node in range(1, size)]
    tree = Graph(parent, range(1, size), num_nodes=size).to_undirected()
    rounds = waves(tree, rounds=3, origins=int(random.integers(size))).rounds
    plain = as_networkx(tree)
    bound = np.zeros(size)
    for phases in rounds:
        (origin,) = origins_of(phases)
        bound = np.maximum(bound, [nx.shortest_path_length(plain, origin, node) for node in range(size)])
    assert bound.tolist() == [nx.eccentricity(plain, node) for node in range(size)]


def test_every_component_has_its_own_wave():
    two = Graph([0, 1, 3, 4], [1, 2, 4, 5], num_nodes=6).to_undirected()
    rounds = waves(two, rounds=2, origins=1).rounds
    assert sorted(origins_of(rounds[0])) == [1, 3]
    assert sorted(origins_of(rounds[1])) == [0, 5]


def test_a_former_origin_gives_way_to_the_node_farthest_from_all():
    starts = [origins_of(phases) for phases in waves(chain(9), rounds=3, origins=0).rounds]
    assert starts == [[0], [8], [4]]


def test_several_origins():
    phases = waves(chain(5), rounds=1, origins=[0, 4, 4]).rounds[0]
    assert [phase.nodes.tolist() for phase in phases] == [[0, 4], [1, 3], [2], [1, 3], [0, 4]]


def test_refuses_an_origin_that_is_no_node():
    with pytest.raises(ValueError, match=r"`origins` must be a node, from 0 to 2. Got 3."):
        waves(chain(3), origins=[0, 3])
