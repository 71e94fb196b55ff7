"""The stand-in for DIEL: its counts at any scale, and gold pairs that can be found."""

import pytest
import torch

from gpnn.data import load_dataset, recall_at_k
from gpnn.data.diel_like import NUM_EDGES, NUM_ITEMS, NUM_LISTS, NUM_WORDS


def test_full_size_is_that_of_table_1() -> None:
    assert NUM_LISTS + NUM_ITEMS == 4_373_008
    assert NUM_EDGES == 4_464_261
    assert NUM_WORDS == 1_233_598


@pytest.mark.parametrize("scale", [0.001, 0.01])
def test_counts_follow_the_scale(scale: float) -> None:
    data = load_dataset("diel_like", scale=scale)
    assert abs(data.num_nodes - 4_373_008 * scale) <= 1
    assert data.num_edges == 2 * round(4_464_261 * scale)
    assert data.x.shape[1] == round(1_233_598 * scale)
    assert data.recall_k == round(240_000 * scale)
    assert data.num_classes == 4
    labelled = data.train_mask.sum() + data.val_mask.sum()
    assert float(labelled / data.num_nodes) == pytest.approx(0.0095, rel=0.1)
    assert int(data.val_mask.sum()) == int(labelled) // 5


def test_the_graph_is_bipartite_and_everybody_has_an_edge() -> None:
    data = load_dataset("diel_like", scale=0.001)
    forward = data.edge_index[:, : data.num_edges // 2]
    assert (forward[0] < data.num_lists).all()
    assert (forward[1] >= data.num_lists).all()
    assert torch.equal(data.edge_index[:, data.num_edges // 2 :], forward.flip(0))
    assert len(forward.T.unique(dim=0)) == forward.shape[1]
    assert (torch.bincount(data.edge_index[0], minlength=data.num_nodes) > 0).all()


def test_lists_have_about_twenty_words_and_items_none() -> None:
    data = load_dataset("diel_like", scale=0.01)
    lengths = data.x.crow_indices().diff()
    assert float(lengths[: data.num_lists].float().mean()) == pytest.approx(20, abs=0.3)
    assert not lengths[data.num_lists :].any()


def test_gold_is_findable_as_far_as_the_paper_says() -> None:
    data = load_dataset("diel_like", scale=0.01)
    findable = (data.similar_ptr.diff() > 0).float().mean()
    assert float(findable) == pytest.approx(0.617, abs=1e-3)
    assert (data.similar_item >= data.num_lists).all()


def test_words_tell_the_category() -> None:
    """Lists voted for by the share of their words in each category's block find more than chance does."""
    data = load_dataset("diel_like", scale=0.01)
    block = data.x.shape[1] // 5
    owner = torch.repeat_interleave(torch.arange(data.num_nodes), data.x.crow_indices().diff())
    kind = (data.x.col_indices() // block).clamp(max=4).long()
    counts = torch.zeros(data.num_nodes, 5).index_put_((owner, kind), torch.ones(len(kind)), accumulate=True)
    share = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    chance = torch.rand(data.num_nodes, 4, generator=torch.Generator().manual_seed(0))
    informed, guessed = recall_at_k(data, share[:, :4]), recall_at_k(data, chance)
    assert guessed < 0.3 < 0.5 < informed <= 0.617


def test_labels_mostly_agree_with_the_words() -> None:
    data = load_dataset("diel_like", scale=0.01)
    assert (data.y[data.test_mask] == -1).all()
    assert data.y[data.train_mask].unique().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("scale", [0.0, 0.0005, float("nan")])
def test_a_scale_without_lists_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match=r"`scale` must be from 0\.001 to 1000\. Got"):
        load_dataset("diel_like", scale=scale)


@pytest.mark.slow
def test_full_size() -> None:
    data = load_dataset("diel_like")
    assert (data.num_nodes, data.num_edges) == (4_373_008, 2 * 4_464_261)
    assert tuple(data.x.shape) == (4_373_008, 1_233_598)
    assert data.x.values().numel() / data.num_lists == pytest.approx(20, abs=0.1)
    assert data.recall_k == 240_000


@pytest.mark.parametrize("seed", range(4))
def test_every_category_has_seeds_and_its_share_of_the_lists(seed: int) -> None:
    """Also in a small set, where one popular item could take all labels."""
    data = load_dataset("diel_like", scale=0.002, seed=seed)
    known = data.y[data.train_mask | data.val_mask]
    assert (torch.bincount(known, minlength=4) >= len(known) // 6).all()
