import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpnn import Partition


def test_order_and_pointers_by_hand():
    part = Partition([2, 0, 2, 0, 3], num_parts=5)
    assert part.order.tolist() == [1, 3, 0, 2, 4]
    assert part.ptr.tolist() == [0, 2, 2, 4, 5, 5]
    assert part.sizes.tolist() == [2, 0, 2, 1, 0]
    assert (part.num_nodes, repr(part)) == (5, "Partition(num_nodes=5, num_parts=5)")


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_each_part_owns_its_nodes_in_ascending_order(labels):
    part = Partition(labels, num_parts=7)
    owned = [part.order[part.ptr[p] : part.ptr[p + 1]].tolist() for p in range(7)]
    assert owned == [[node for node, label in enumerate(labels) if label == p] for p in range(7)]


def test_labels_become_int64():
    part = Partition(torch.tensor([0, 1], dtype=torch.int8), 2)
    assert part.labels.dtype == part.order.dtype == part.ptr.dtype == torch.int64


@pytest.mark.parametrize(
    ("labels", "num_parts", "message"),
    [
        ([0, 2], 2, r"`labels` must lie from 0 to 1. Got 2."),
        ([0, -1], 2, r"`labels` must lie from 0 to 1. Got -1."),
        ([], 2, r"`labels` must have shape \[N\] with N at least 1. Got \[0\]."),
        ([[0, 1]], 2, r"`labels` must have shape \[N\] with N at least 1. Got \[1, 2\]."),
        ([0.0, 1.0], 2, r"`labels` must hold integers. Got float32."),
        ([True, False], 2, r"`labels` must hold integers. Got bool."),
        ([0, 1], 0, r"`num_parts` must be an integer of at least 1. Got 0."),
        ([0, 1], 2.0, r"`num_parts` must be an integer of at least 1. Got 2.0."),
        ([0, 1], True, r"`num_parts` must be an integer of at least 1. Got True."),
    ],
)
def test_it_checks_itself(labels, num_parts, message):
    with pytest.raises(ValueError, match=message):
        Partition(labels, num_parts)


def test_numpy_integers_are_integers():
    assert Partition([0, 1], np.int64(2)).num_parts == 2


@pytest.mark.parametrize("name", ["saved.safetensors", "graph.part.4"])
def test_what_is_saved_is_loaded(tmp_path, name):
    part = Partition([1, 0, 3, 1], num_parts=4)
    part.save(tmp_path / name)
    loaded = Partition.load(tmp_path / name)
    assert (loaded.labels.tolist(), loaded.num_parts) == ([1, 0, 3, 1], 4)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_text_is_that_of_metis(tmp_path):
    Partition([1, 0], 2).save(tmp_path / "graph.part.2")
    assert (tmp_path / "graph.part.2").read_text() == "1\n0\n"


def test_the_name_of_a_text_states_its_parts(tmp_path):
    with pytest.raises(ValueError, match=r"`graph.part.3` must end in .part.2. Got .part.3."):
        Partition([0, 1], 2).save(tmp_path / "graph.part.3")
    with pytest.raises(ValueError, match=r"must end in \.safetensors or \.part\.2\. Got 'parts\.csv'\."):
        Partition([0, 1], 2).save(tmp_path / "parts.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", b"hello there", "must be a saved partition or end in .part.K"),
        ("saved", b"", "must be a saved partition or end in .part.K"),
        ("graph.part.2", b"0\none\n", "must hold one integer per line"),
        ("graph.part.2", b"0\n2\n", "`labels` must lie from 0 to 1. Got 2."),
    ],
)
def test_other_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Partition.load(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"`path` must name a partition file. Got '.*none', which is not a file."):
        Partition.load(tmp_path / "none")


def test_a_file_of_other_tensors_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"labels": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=r"must be a saved partition .* Got another program's file"):
        Partition.load(tmp_path / "other.safetensors")


def test_an_arrangement_is_the_order_and_is_saved(tmp_path):
    arranged = Partition([0, 1, 0, 1], 2, torch.tensor([2, 0, 3, 1], dtype=torch.int32))
    assert arranged.order.tolist() == [2, 0, 3, 1]
    assert arranged.ptr.tolist() == [0, 2, 4]
    arranged.save(tmp_path / "p.safetensors")
    assert Partition.load(tmp_path / "p.safetensors").order.tolist() == [2, 0, 3, 1]


@pytest.mark.parametrize(
    ("arrangement", "words"),
    [([0, 2, 1], "must hold 4 nodes"), ([0, 2, 1, 1], "every node once"), ([0, 1, 2, 3], "group the nodes by part")],
)
def test_an_arrangement_is_checked(arrangement, words):
    with pytest.raises(ValueError, match=words):
        Partition([0, 1, 0, 1], 2, torch.tensor(arrangement))
