"""Later tables keep the meaning of those that a model was trained on."""

from pathlib import Path

from gpnn.data import load_dataset


def test_the_vocabulary_keeps_its_meaning(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label,age,city\na,red,10,Oslo\nb,blue,20,Rome\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    first = load_dataset(tmp_path)
    (tmp_path / "nodes.csv").write_text("id,city,label,age\nc,Rome,red,15\nd,Kyiv,,30\n")
    (tmp_path / "edges.csv").write_text("source,target\nc,d\n")
    second = load_dataset(tmp_path, vocabulary=first.vocabulary)
    assert second.x.tolist() == [[0, 0, 1], [3, 0, 0]]
    assert second.class_names == ["blue", "red"]
    assert second.y.tolist() == [1, -1]
    assert second.notes[0] == "column city: 1 unseen categories ('Kyiv') count as unknown"


def test_a_later_table_needs_neither_labels_nor_training_nodes(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    (tmp_path / "nodes.csv").write_text("id,colour,split\na,red,train\nb,blue,train\n")
    first = load_dataset(tmp_path, label="colour")
    assert first.notes == []
    for nodes in ("id\na\nb\n", "id,colour,split\na,,train\nb,,test\n", "id,colour\na,\nb,\n"):
        (tmp_path / "nodes.csv").write_text(nodes)
        later = load_dataset(tmp_path, label="colour", vocabulary=first.vocabulary)
        assert later.get("train_mask") is None
        assert later.notes == []
