import numpy as np

from experiments.baselines.skip_gram import _alias_table, train_skip_gram


def test_alias_table_keeps_the_shares() -> None:
    share = np.array([0.1, 0.4, 2.5, 1.0])
    threshold, alias = _alias_table(share)
    keep = np.minimum(threshold / 2**32, 1)
    got = keep.copy()
    np.add.at(got, alias, 1 - keep)
    np.testing.assert_allclose(got, share, atol=1e-6)


def test_nodes_of_one_walk_end_up_near_each_other() -> None:
    rng = np.random.default_rng(0)
    walks = np.concatenate([rng.integers(0, 5, (200, 10)), rng.integers(5, 10, (200, 10))]).astype(np.int32)
    rng.shuffle(walks)
    embedding = train_skip_gram(walks, 10, channels=8, window=3, learning_rate=0.1, seed=0)
    unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
    near = unit @ unit.T
    assert near[:5, :5].min() > near[:5, 5:].max()


def test_the_seed_decides_and_nodes_off_the_walks_stay() -> None:
    walks = np.array([[0, 1, 0, -1]], np.int32)
    first, again, other = (train_skip_gram(walks, 3, channels=4, window=2, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert np.isfinite(first).all()
