import numpy as np

from experiments.baselines.walks import draw_rounds, draw_walks, window_pairs
from gpnn.partition.kernels import stream

PTR, INDEX = np.array([0, 1, 3, 4, 4], np.int32), np.array([1, 0, 2, 1], np.int32)  # the chain 0 - 1 - 2, and 3 alone


def test_walks_go_along_edges_and_end_at_isolated_nodes() -> None:
    walks = draw_rounds(PTR, INDEX, 20, 6, stream(0))
    assert walks.shape == (80, 6)
    assert (np.sort(walks[:4, 0]) == np.arange(4)).all()
    for walk in walks:
        if walk[0] == 3:
            assert walk.tolist() == [3, -1, -1, -1, -1, -1]
        else:
            assert (np.abs(np.diff(walk)) == 1).all()
    after_middle = walks[:, 1:][walks[:, :-1] == 1]
    assert set(after_middle.tolist()) == {0, 2}


def test_the_seed_decides() -> None:
    first, again, other = (draw_walks(PTR, INDEX, np.zeros(9, np.int64), 9, stream(seed)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_pairs_of_a_window_by_hand() -> None:
    walks = np.array([[5, 6, 7], [8, -1, -1]], np.int32)
    assert window_pairs(walks, 1).tolist() == [[5, 6], [6, 5], [6, 7], [7, 6]]
    assert window_pairs(walks, 2).tolist() == [[5, 6], [5, 7], [6, 5], [6, 7], [7, 5], [7, 6]]
