from gpnn import Graph, partition_graph
from tests.oracle.small_graphs import ring


def test_sizes_differ_by_one_at_most():
    assert partition_graph(ring(11), 4, method="random").sizes.tolist() == [3, 3, 3, 2]


def test_the_same_seed_gives_the_same_parts():
    first, again, other = (partition_graph(ring(50), 5, method="random", seed=seed).labels for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_every_node_may_be_its_own_part():
    assert partition_graph(Graph([], [], 3), 3, method="random").labels.sort()[0].tolist() == [0, 1, 2]
