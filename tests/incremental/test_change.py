from pathlib import Path

from gpnn.data.tables.vocabulary import Choices, Vocabulary
from gpnn.incremental.change import read_change_folder


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
