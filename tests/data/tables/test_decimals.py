"""Decimal commas become points where a column holds nothing but numbers; thousands are not guessed."""

from pathlib import Path

import pytest

from gpnn.data.tables.tables import tables


def load(folder: Path, nodes: str, edges: str = "source;target\na;b\n", **options):
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return tables(folder, numbers="raw", **options)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("0,5", "2"), [0.5, 2.0]),
        (("1,234", "5,678"), [1.234, 5.678]),  # semicolons leave no doubt
        (("1.234,5", "-7,25"), [1234.5, -7.25]),
        (("1,5e3", ""), [1500.0, 0.0]),
        (("0,5", "NA"), [0.5, 0.0]),
    ],
)
def test_commas_of_semicolon_files_are_decimal(tmp_path: Path, values, expected):
    data = load(tmp_path, f"id;size\na;{values[0]}\nb;{values[1]}\n")
    assert data.x[:, 0].tolist() == pytest.approx(expected)
    assert f"column size: commas are decimal ones, {values[0]} is read as" in data.notes[0]


def test_quoted_decimals_of_a_comma_file(tmp_path: Path):
    data = load(tmp_path, 'id,size\na,"0,5"\nb,"12,25"\n', "source,target\na,b\n")
    assert data.x[:, 0].tolist() == [0.5, 12.25]


def test_thousands_are_refused_not_guessed(tmp_path: Path):
    sentence = r"nodes\.csv, line 2, column size: must be a number without separators of thousands .* Got '1,234'\."
    nodes = 'id,size\na,"1,234"\nb,999\n'
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path, nodes, "source,target\na,b\n")
    data = load(tmp_path, nodes, "source,target\na,b\n", categorical="size")
    assert data.feature_names == ["size=1,234", "size=999"]


def test_other_text_with_commas_stays_text(tmp_path: Path):
    data = load(tmp_path, "id;tags\na;1,2,3\nb;red,blue\n")
    assert data.feature_names == ["tags=1,2,3", "tags=red,blue"]
    assert not any("decimal" in note for note in data.notes)


def test_weights_labels_and_ids(tmp_path: Path):
    nodes = "id;label\n1,5;0,25\n2,5;\n3,5;0,75\n"
    data = load(tmp_path, nodes, "source;target;weight\n1,5;2,5;0,1\n")
    assert data.node_name.tolist() == ["1,5", "2,5", "3,5"]  # names are what they are
    assert data.edge_weight.tolist() == pytest.approx([0.1])
    assert data.y[[0, 2]].tolist() == [0.25, 0.75]
    assert data.task == "regression"
