import pytest
import torch
from torch_geometric.data import Data

from experiments.baselines import fit_predict


def chain(num_nodes: int, *, extra: int = 0) -> Data:
    src = torch.arange(num_nodes - 1)
    ends = torch.zeros(num_nodes + extra, dtype=torch.bool)
    ends[0] = ends[num_nodes - 1] = True
    y = torch.zeros(num_nodes + extra, dtype=torch.int64)
    y[num_nodes - 1] = 1
    return Data(edge_index=torch.stack([src, src + 1]), y=y, train_mask=ends, num_nodes=num_nodes + extra)


def test_chances_fall_linearly_along_a_chain() -> None:
    found = fit_predict("lp", chain(5), class_mass=False, tolerance=1e-8)
    torch.testing.assert_close(found[:, 0], torch.tensor([1, 0.75, 0.5, 0.25, 0]))


def test_unreached_nodes_get_the_shares_of_the_training_nodes() -> None:
    found = fit_predict("lp", chain(5, extra=2))
    assert found[5:].tolist() == [[0.5, 0.5]] * 2


def test_weights_count() -> None:
    data = chain(3)
    data.edge_weight = torch.tensor([3.0, 1.0])
    found = fit_predict("lp", data, class_mass=False, tolerance=1e-8)
    assert found[1].tolist() == pytest.approx([0.75, 0.25])


def test_class_mass_scales_to_the_training_shares() -> None:
    found = fit_predict("lp", chain(5), class_mass=True, tolerance=1e-8)
    torch.testing.assert_close(found[2], torch.tensor([0.5, 0.5]))
    lopsided = chain(6)
    lopsided.train_mask[1] = True  # two training nodes of class 0, one of class 1; unknown 2, 3, 4
    plain = torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
    mass = plain * torch.tensor([2 / 3, 1 / 3]) / plain.mean(0)
    found = fit_predict("lp", lopsided, class_mass=True, tolerance=1e-8)
    torch.testing.assert_close(found[2:5], mass / mass.sum(1, keepdim=True))


def test_rounds_are_averages_over_neighbours_with_the_ends_held() -> None:
    found = fit_predict("lp", chain(5), class_mass=False, rounds=2)
    # round one: node 1 has 1/2 of class 0, node 3 of class 1; round two: node 2 a quarter of each
    assert found[1:3].tolist() == [[1.0, 0.0], [0.5, 0.5]]
    limit = fit_predict("lp", chain(5), class_mass=False, rounds=200)
    torch.testing.assert_close(limit, fit_predict("lp", chain(5), class_mass=False, tolerance=1e-8))


def test_less_than_one_round_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`rounds` must be at least 1\. Got 0\."):
        fit_predict("lp", chain(5), rounds=0)
