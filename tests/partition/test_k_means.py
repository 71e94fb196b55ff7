import numpy as np

from gpnn.partition.k_means import k_means


def clouds(each: int, centres: list[tuple[float, float]]) -> np.ndarray:
    noise = np.random.default_rng(0).normal(0, 0.01, (each * len(centres), 2))
    return np.repeat(centres, each, axis=0) + noise


def test_clouds_are_found():
    labels = k_means(clouds(20, [(0, 0), (1, 0), (0, 1)]), 3).reshape(3, 20)
    assert (labels == labels[:, :1]).all()
    assert len(set(labels[:, 0])) == 3


def test_clouds_of_more_points_than_the_sample_are_found():
    labels = k_means(clouds(4000, [(0, 0), (1, 0), (0, 1)]), 3, seed=1).reshape(3, 4000)
    assert (labels == labels[:, :1]).all()
    assert len(set(labels[:, 0])) == 3


def test_equal_points_are_one_cluster_without_a_warning():
    assert len(set(k_means(np.ones((5, 2)), 3).tolist())) == 1
