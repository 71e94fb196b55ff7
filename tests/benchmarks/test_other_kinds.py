import numpy as np
import pytest

import gpnn
from benchmarks.other_kinds import BEFORE, RESULTS, read_cells, table
from benchmarks.other_kinds_tables import KINDS, write_tables


@pytest.mark.parametrize("kind", KINDS)
def test_tables_fit_together_and_follow_from_the_seed(kind):
    first, second = (KINDS[kind](np.random.default_rng([0, 0])) for _ in range(2))
    assert all(len(column) == first.num_nodes for column in first.nodes.values())
    assert all(len(column) == len(first.source) == len(first.target) for column in first.edges.values())
    assert min(first.source.min(), first.target.min()) >= 0
    assert max(first.source.max(), first.target.max()) < first.num_nodes
    assert np.array_equal(first.source, second.source)
    assert all(list(first.nodes[name]) == list(second.nodes[name]) for name in first.nodes)


@pytest.mark.parametrize("kind", ["rare_labels", "signed_weights", "mixed_columns"])
def test_tables_are_read_through_the_front_door(kind, tmp_path):
    tables = KINDS[kind](np.random.default_rng([0, 0]))
    write_tables(tables, tmp_path / kind, 0)
    data = gpnn.load_dataset(str(tmp_path / kind))
    assert data.num_nodes == tables.num_nodes
    assert abs(int(data.train_mask.sum()) - tables.train * tables.num_nodes) <= 1
    assert data.y.dim() == (2 if kind == "rare_labels" else 1)


def test_the_race_stands_beside_the_peer_that_validation_prefers():
    cells = [
        {"kind": "chains", "seed": 0, "method": method, "metric": "accuracy", "val": val, "test": test}
        for method, val, test in (("race", 0.9, 0.8), ("mlp", 0.5, 0.95), ("gcn", 0.6, 0.75))
    ]
    before = [{"kind": "chains", "seed": 0, "test": 0.7}]
    assert table(cells, before).splitlines()[-1] == "| chains | accuracy | 1 | 70.0 | 80.0 | 75.0 (gcn) | +5.0 |"


def test_the_page_has_the_table_of_the_cells():
    assert table(read_cells(RESULTS), read_cells(BEFORE)) in RESULTS.with_suffix(".md").read_text()
