"""Graphs of other kinds: five nodes worked out by hand, and the real ones against their description."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from gpnn.data import load_dataset
from tests.data.conftest import write_kind


class TestFiveNodes:
    def test_every_link_goes_both_ways_once(self, tmp_path: Path) -> None:
        write_kind(tmp_path)
        data = load_dataset("texas", root=tmp_path)
        assert data.edge_index.tolist() == [[0, 1, 1, 2, 2, 3, 3, 4, 4], [1, 0, 2, 1, 3, 2, 4, 3, 4]]

    def test_features_are_ones_where_no_value_is_given(self, tmp_path: Path) -> None:
        write_kind(tmp_path)
        data = load_dataset("texas", root=tmp_path)
        assert data.x.layout == torch.sparse_csr
        assert data.x.to_dense().tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0], [0, 0, 1]]
        write_kind(tmp_path, x_data=np.array([2, 3, 4, 5, 6], np.float32))
        data = load_dataset("texas", root=tmp_path, sparse=False)
        assert data.x.tolist() == [[2, 0, 0], [0, 0, 0], [3, 0, 4], [0, 5, 0], [0, 0, 6]]

    def test_classes_count_from_zero(self, tmp_path: Path) -> None:
        write_kind(tmp_path, class_names=np.array(["staff", "course"]))
        data = load_dataset("texas", root=tmp_path)
        assert data.y.tolist() == [0, 0, 1, 1, 1]
        assert data.num_classes == 2
        assert data.class_names == ["staff", "course"]

    def test_splits_are_those_of_the_archive(self, tmp_path: Path) -> None:
        write_kind(tmp_path)
        masks = ("train_mask", "val_mask", "test_mask")
        first, second = (load_dataset("texas", root=tmp_path, split=split) for split in (None, 1))
        assert [first[mask].nonzero().flatten().tolist() for mask in masks] == [[0, 2], [1], [3, 4]]
        assert [second[mask].nonzero().flatten().tolist() for mask in masks] == [[1, 3], [0], [2, 4]]

    def test_an_unknown_split_lists_the_choices(self, tmp_path: Path) -> None:
        write_kind(tmp_path)
        with pytest.raises(ValueError, match=r"`split` must be one of 0, 1, per_class, fractions\. Got 2\."):
            load_dataset("texas", root=tmp_path, split=2)
        with pytest.raises(ValueError, match=r"`per_class` must be at most the 2 labelled nodes of class 0\. Got 20\."):
            load_dataset("texas", root=tmp_path, split="per_class")

    def test_views_are_predicted_as_their_logarithm(self, tmp_path: Path) -> None:
        views = np.array([1.0, np.e, 1.0, 1.0, np.e])
        masks = dict.fromkeys(("train_masks", "val_masks", "test_masks", "y"))
        write_kind(tmp_path, "wiki_chameleon", monthly_views=views, **masks)
        data = load_dataset("wiki_chameleon", root=tmp_path)
        assert data.task == "regression"
        assert data.y.tolist() == [0, 1, 0, 0, 1]
        assert [int(data[mask].sum()) for mask in ("train_mask", "val_mask", "test_mask")] == [3, 1, 1]
        with pytest.raises(ValueError, match=r"`split` must be one of fractions\. Got 'per_class'\."):
            load_dataset("wiki_chameleon", root=tmp_path, split="per_class")
        write_kind(tmp_path, "wiki_chameleon", monthly_views=views - 1, **masks)
        with pytest.raises(ValueError, match=r"wiki_chameleon: `monthly_views` must be greater than 0\. Got 0\.0\."):
            load_dataset("wiki_chameleon", root=tmp_path)

    @pytest.mark.parametrize(
        ("arrays", "error"),
        [
            ({"y": None}, r"texas: the archive must hold `y` (edge_index [2, E], "),
            ({"y": np.array([0.5] * 5)}, "Got float64 of shape [5]."),
            ({"y": np.arange(4)}, "texas: `y` must have one value for each of the 5 nodes. Got 4."),
            ({"x_shape": np.array([6, 3])}, "texas: `x_shape` must fit the 5 rows of x_indptr. Got [6, 3]."),
            ({"x_indices": np.array([0, 0, 2, 1, 9])}, "texas: the features must be rows in CSR format. Got: "),
            ({"edge_index": np.array([[0], [1], [2]])}, "texas: `edge_index` must have shape [2, E]. Got [3, 1]."),
            ({"edge_index": np.array([[0], [5]])}, "5"),
            (
                {"val_masks": np.ones((2, 4), bool)},
                "texas: the masks must have one shape, [S, 5]. Got [2, 5], [2, 4], ",
            ),
        ],
    )
    def test_damaged_archives_are_refused(self, tmp_path: Path, arrays: dict, error: str) -> None:
        write_kind(tmp_path, **arrays)
        with pytest.raises(ValueError, match=re.escape(error)):
            load_dataset("texas", root=tmp_path)

    def test_a_missing_archive_names_source_and_layout(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"flickr must be in .*flickr\.npz, .*edge_index.*EdisonLeeeee/GraphData"):
            load_dataset("flickr", root=tmp_path)


@pytest.mark.parametrize(
    ("name", "num_nodes", "num_links", "num_classes"),
    [
        ("amazon_cs", 13_752, 245_861, 10),
        ("blogcatalog", 5_196, 171_743, 6),
        ("flickr", 7_575, 239_738, 9),
        ("facebook_pages", 22_470, 171_002, 4),
        ("chameleon_filtered", 890, 8_854, 5),
        ("texas", 183, 279, 5),
        ("cornell", 183, 277, 5),
        ("wisconsin", 251, 450, 5),
        ("twitch_de", 9_498, 153_138, 2),
    ],
)
def test_statistics(data_root: Path, name: str, num_nodes: int, num_links: int, num_classes: int) -> None:
    data = load_dataset(name, root=data_root)
    loops = int((data.edge_index[0] == data.edge_index[1]).sum())
    assert (data.num_nodes, (data.num_edges + loops) // 2, data.num_classes) == (num_nodes, num_links, num_classes)


def test_a_drawn_split_has_twenty_and_thirty_of_each_class(data_root: Path) -> None:
    data = load_dataset("amazon_cs", root=data_root)
    assert torch.equal(data.y[data.train_mask].bincount(), torch.full((10,), 20))
    assert torch.equal(data.y[data.val_mask].bincount(), torch.full((10,), 30))
    assert int(data.test_mask.sum()) == 13_752 - 500
    other = load_dataset("amazon_cs", root=data_root, seed=1)
    assert not torch.equal(data.train_mask, other.train_mask)


def test_days_are_numbers_although_they_are_whole(data_root: Path) -> None:
    data = load_dataset("twitch_de", root=data_root, target="days")
    assert data.task == "regression"
    assert (float(data.y.min()), float(data.y.max())) == (96, 3953)
    with pytest.raises(ValueError, match=r"`target` must be one of mature, partner, views, days\. Got 'likes'\."):
        load_dataset("twitch_de", root=data_root, target="likes")
