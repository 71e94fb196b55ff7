from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpnn.data.tables.vocabulary import Choices, Vocabulary
from gpnn.incremental.change import read_change, read_change_folder


def test_removed_edges_without_types_are_of_all_types(tmp_path: Path) -> None:
    """The name of their file was taken for an edge type."""
    (tmp_path / "removed_edges.csv").write_text("source,target\na,b\n")
    choices = Choices(vocabulary=Vocabulary(edge_types=("likes", "knows")))
    removed = read_change_folder(tmp_path, choices).change.removed_edges
    assert (removed.source, removed.target, removed.edge_type) == (["a"], ["b"], None)


def test_removed_edges_may_have_types(tmp_path: Path) -> None:
    (tmp_path / "removed_edges.csv").write_text("source,target,type\na,b,knows\n")
    choices = Choices(vocabulary=Vocabulary(edge_types=("likes", "knows")))
    removed = read_change_folder(tmp_path, choices).change.removed_edges
    assert removed.edge_type is not None
    assert removed.edge_type.tolist() == [1]


def test_types_of_edges_that_have_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target,type\na,b,knows\n")
    with pytest.raises(ValueError, match=r"^edges\.csv must have no types, as the graph's edges have\. Got types\.$"):
        read_change_folder(tmp_path, Choices(vocabulary=Vocabulary()))


@pytest.mark.parametrize("ids", [5, "n1", [[1, 2]], [1, "a"], [object()], np.zeros((2, 2)), 1j, {"id": [1]}])
def test_what_is_no_list_of_ids_is_refused(ids: Any) -> None:
    with pytest.raises(ValueError, match=r"^`removed_nodes` must hold ids, all texts or all whole numbers\. Got .*\.$"):
        read_change(None, None, ids, None, choices=Choices())


def test_a_number_is_no_edge() -> None:
    with pytest.raises(ValueError, match=r"^`edges` must be sources and targets, .*\. Got \(1,\)\.$"):
        read_change(None, np.array(3), None, None, choices=Choices())
