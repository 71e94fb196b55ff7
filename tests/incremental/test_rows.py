"""Rows that are replaced over and over stay what they are, in a pool that does not grow."""

import numpy as np

from gpnn.incremental import rows as module
from gpnn.incremental.rows import RaggedRows


def test_a_thousand_replacements_equal_plain_lists(monkeypatch):
    monkeypatch.setattr(module, "LEAST_GARBAGE", 8)
    rng = np.random.default_rng(0)
    plain = [list(rng.integers(0, 99, rng.integers(0, 4))) for _ in range(10)]
    values = np.concatenate(plain).astype(np.int64)
    rows = RaggedRows(np.concatenate([[0], np.cumsum([len(each) for each in plain])]), values, values * 0.5)
    largest = 0
    for _ in range(1000):
        if rng.random() < 0.01:
            plain.append([])
            rows.enlarge(len(plain))
        chosen = rng.choice(len(plain), 3, replace=False)
        for row in chosen:
            plain[row] = list(rng.integers(0, 99, rng.integers(0, 4)))
        new = np.concatenate([plain[row] for row in chosen]).astype(np.int64)
        rows.replace(chosen, np.array([len(plain[row]) for row in chosen]), new, new * 0.5)
        largest = max(largest, len(rows.columns[0]))
    counts, (found, halves) = rows.gather(np.arange(len(plain)))
    assert counts.tolist() == [len(each) for each in plain]
    assert found.tolist() == [value for each in plain for value in each]
    assert halves.tolist() == [value / 2 for value in found.tolist()]
    assert largest < 400
