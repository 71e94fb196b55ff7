import numpy as np

from gpnn.partition.kernels import below, shuffle, stream
from tests.oracle.flood_fill import split_mix


def test_the_stream_is_split_mix_64():
    """The reference implementation's first outputs for state 1234567 (Vigna), upper 32 bits."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    state = np.array([1234567], np.uint64)
    assert [below(state, 2**32 - 1) for _ in known] == [(z >> 32) * (2**32 - 1) >> 32 for z in known]


def test_the_slow_version_draws_the_same():
    state = stream(5)
    draw = split_mix(int(state[0]))
    assert [below(state, bound) for bound in range(1, 500)] == [draw(bound) for bound in range(1, 500)]


def test_streams_of_different_seeds_differ():
    assert len({int(stream(seed)[0]) for seed in range(100)}) == 100


def test_every_permutation_is_equally_likely():
    state, counts = stream(0), {}
    for _ in range(6000):
        values = np.arange(4)
        shuffle(state, values, 3)
        assert values[3] == 3
        counts[tuple(values[:3])] = counts.get(tuple(values[:3]), 0) + 1
    assert len(counts) == 6
    assert all(abs(count - 1000) < 150 for count in counts.values())
