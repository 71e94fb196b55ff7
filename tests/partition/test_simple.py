import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph, Partition, partition_graph
from gpnn.storage.tensors import write_tensors
from tests.oracle.small_graphs import graphs, ring

CHAIN = Graph([0, 1, 2], [1, 2, 3], num_nodes=4)


def take(labels, k: int = 2) -> Partition:
    return partition_graph(CHAIN, k, method="given", labels=labels)


def read_only(values: list[int]) -> np.ndarray:
    array = np.array(values, np.int32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "labels",
    [
        [1, 0, 0, 1],
        (1, 0, 0, 1),
        torch.tensor([1, 0, 0, 1], dtype=torch.uint8),
        np.array([1, 0, 0, 1], np.uint16),
        read_only([1, 0, 0, 1]),
        Partition([1, 0, 0, 1], 2),
    ],
)
def test_labels_of_any_kind_are_taken(labels):
    assert take(labels).labels.tolist() == [1, 0, 0, 1]
    assert take(labels).labels.dtype == torch.int64


@pytest.mark.parametrize("name", ["own.safetensors", "graph.part.2"])
def test_a_saved_partition_and_metis_text_are_read(tmp_path, name):
    Partition([1, 0, 0, 1], 2).save(tmp_path / name)
    assert take(tmp_path / name).labels.tolist() == [1, 0, 0, 1]
    assert take(str(tmp_path / name)).num_parts == 2


def test_an_array_may_leave_a_part_empty():
    assert take([0, 0, 2, 2], k=3).sizes.tolist() == [2, 0, 2]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, '`labels` must be an array, a file or a Partition for the method "given". Got None.'),
        ([0, 1, 0], "`labels` must have an entry for each of 4 nodes. Got 3."),
        ([0, 1, 2, 0], "`labels` must lie from 0 to 1. Got 2."),
        ([0, -1, 1, 0], "`labels` must lie from 0 to 1. Got -1."),
        ([0.0, 1.0, 1.0, 0.0], "`labels` must hold integers. Got float64."),
        (torch.zeros(4), "`labels` must hold integers. Got float32."),
        ([True, False, True, False], "`labels` must hold integers. Got bool."),
        ([[0, 1], [1, 0]], r"`labels` must have shape [N] with N at least 1. Got [2, 2]."),
        ([[0], [0, 1]], "`labels` must have shape [N]. Got rows of different lengths."),
        ([0, None, 1, 1], "`labels` must hold integers. Got object."),
        (Partition([0, 1, 2, 2], 3), "`k` must be the 3 parts of `labels`. Got 2."),
        ("nowhere.part.2", "`path` must name a partition file. Got 'nowhere.part.2', which is not a file."),
    ],
)
def test_labels_that_do_not_fit_are_refused_in_a_sentence(labels, message):
    with pytest.raises(ValueError, match=r".") as raised:
        take(labels)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.part.2", b"0\n1\nx\n1\n", "a.part.2 must hold one integer per line. Got something else."),
        ("a.part.2", b"0\n1\n0.5\n1\n", "a.part.2 must hold one integer per line. Got something else."),
        ("a.part.2", b"\xff\xfe\x00", "a.part.2 must hold one integer per line. Got something else."),
        ("a.part.2", b"", "`labels` must have shape [N] with N at least 1. Got [0]."),
        ("a.part.2", b"0\n1\n7\n1\n", "`labels` must lie from 0 to 1. Got 7."),
        ("a.part.9", b"0\n1\n7\n1\n", "`k` must be the 9 parts of `labels`. Got 2."),
        ("a.part.0", b"0\n", "`num_parts` must be an integer of at least 1. Got 0."),
        ("a.pt", b"\x80\x04K\x01.", "{folder}/a.pt must be a saved partition or end in .part.K. Got a damaged file"),
    ],
)
@pytest.mark.filterwarnings("default")  # as a user's run has it
def test_files_that_hold_no_partition_are_refused_in_a_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r".") as raised:
        take(tmp_path / name)
    assert str(raised.value).startswith(message.format(folder=tmp_path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("tensors", "description", "message"),
    [
        ({"labels": torch.zeros(4, dtype=torch.int32)}, {}, "must hold `labels` and their `num_parts`."),
        ({"labels": torch.zeros(4)}, {"num_parts": 2}, "`labels` must hold integers. Got float32."),
        ({"other": torch.zeros(4)}, {"num_parts": 2}, "must hold `labels` and their `num_parts`."),
        (
            {"labels": torch.zeros(4, dtype=torch.int32)},
            {"num_parts": "2"},
            "must hold `labels` and their `num_parts`.",
        ),
        (
            {"labels": torch.zeros(4, dtype=torch.int32)},
            {"num_parts": 10**12},
            "number of parts near its 4 nodes. Got 10",
        ),
    ],
)
def test_saved_tensors_that_are_no_partition_are_refused(tmp_path, tensors, description, message):
    write_tensors(tmp_path / "x.safetensors", tensors, description)
    with pytest.raises(ValueError, match=r".") as raised:
        take(tmp_path / "x.safetensors")
    assert message in str(raised.value)


def divide(graph: Graph, k: int) -> list[int]:
    return partition_graph(graph, k, method="components").labels.tolist()


def test_the_largest_comes_first_and_each_goes_to_the_smallest_part():
    # components {0, 1}, {2, 3, 4}, {5}, {6, 7}: 3 | 2, then 3 | 4, then 4 | 4
    graph = Graph([0, 2, 4, 7], [1, 3, 3, 6], num_nodes=8)
    assert divide(graph, 2) == [1, 1, 0, 0, 0, 0, 1, 1]


def test_isolated_nodes_are_components():
    assert divide(Graph([0, 1], [1, 1], num_nodes=4), 3) == [0, 0, 1, 2]


def test_more_parts_than_components_are_refused():
    with pytest.raises(ValueError, match=r"`k` must be at most the 2 connected components. Got 3."):
        divide(Graph([0, 1], [1, 2], num_nodes=4), 3)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_no_edge_is_cut_and_no_part_is_empty(graph, data):
    k = data.draw(st.integers(1, int(graph.components().max()) + 1))
    quality = partition_graph(graph, k, method="components").quality(graph)
    assert (quality.num_cut_edges, quality.num_empty) == (0, 0)


def test_sizes_differ_by_one_at_most():
    assert partition_graph(ring(11), 4, method="random").sizes.tolist() == [3, 3, 3, 2]


def test_the_same_seed_gives_the_same_parts():
    first, again, other = (partition_graph(ring(50), 5, method="random", seed=seed).labels for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_every_node_may_be_its_own_part():
    assert partition_graph(Graph([], [], 3), 3, method="random").labels.sort()[0].tolist() == [0, 1, 2]
