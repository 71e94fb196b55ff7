"""Numbers with gaps, dates, text; what they mean is kept for later tables."""

import zlib
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from sklearn.preprocessing import QuantileTransformer

from gpnn.data import load_dataset
from gpnn.data.tables import tables
from gpnn.data.tables.vocabulary import Vocabulary


def write(folder: Path, column: str, values: list[str]) -> Path:
    rows = "".join(f"n{row},{value}\n" for row, value in enumerate(values))
    (folder / "nodes.csv").write_text(f"id,{column}\n{rows}")
    (folder / "edges.csv").write_text("source,target\nn0,n1\n")
    return folder


def again(data) -> Vocabulary:
    """The vocabulary as a run keeps it."""
    return Vocabulary.from_mapping(data.vocabulary.to_mapping())


@pytest.mark.parametrize("gap", ["", "NA", "nan", "?"])
def test_a_missing_number_counts_as_the_mean_and_is_marked(tmp_path, gap):
    data = load_dataset(write(tmp_path, "age", ["1", gap, "3"]))
    assert data.feature_names == ["age", "age is missing"]
    assert data.x.tolist() == [[-1, 0], [0, 1], [1, 0]]
    later = load_dataset(write(tmp_path, "age", [gap, "5"]), vocabulary=again(data))
    assert later.x.tolist() == [[0, 1], [3, 0]]


def test_gaps_in_floats_of_parquet_are_marked(tmp_path):
    write(tmp_path, "age", ["1", "2"])
    (tmp_path / "nodes.csv").unlink()
    columns = {"id": ["n0", "n1", "n2"], "age": [1.0, None, 3.0], "none": [float("nan")] * 3}
    parquet.write_table(pyarrow.table(columns), tmp_path / "nodes.parquet")
    data = load_dataset(tmp_path)
    assert data.x.tolist() == [[-1, 0], [0, 1], [1, 0]]
    assert "column none is empty and left out" in data.notes


def test_a_later_gap_in_numbers_without_any_counts_as_the_mean(tmp_path):
    data = load_dataset(write(tmp_path, "age", ["1", "3"]))
    later = load_dataset(write(tmp_path, "age", ["", "3"]), vocabulary=again(data))
    assert later.x.tolist() == [[0.0], [1.0]]
    assert "column age: 1 missing count as the mean; the model was trained without gaps" in later.notes


def test_dates_are_numbers_in_days(tmp_path):
    data = load_dataset(write(tmp_path, "since", ["2024-01-01", "", "2024-01-03 12:00"]), numbers="raw")
    assert data.feature_names == ["since", "since is missing"]
    first = (np.datetime64("2024-01-01") - np.datetime64("1970-01-01")).astype(int)
    assert data.x[:, 0].tolist() == [first, 0, first + 2.5]
    later = load_dataset(write(tmp_path, "since", ["2024-01-02", "NA"]), vocabulary=again(data))
    assert later.x.tolist() == [[first + 1, 0], [0, 1]]
    with pytest.raises(ValueError, match=r"nodes\.csv, line 3, column since: must be a date\. Got 'soon'\."):
        load_dataset(write(tmp_path, "since", ["2024-01-02", "soon"]), vocabulary=again(data))


def test_a_day_that_is_not_in_the_calendar_is_named(tmp_path):
    write(tmp_path, "since", ["2024-01-01", "2024-02-31"])
    with pytest.raises(ValueError, match=r"nodes\.csv, line 3, column since: must be a date\. Got '2024-02-31'\."):
        load_dataset(tmp_path)
    assert load_dataset(tmp_path, categorical="since").feature_names == ["since=2024-01-01", "since=2024-02-31"]


def test_dates_of_arrow_are_dates(tmp_path):
    write(tmp_path, "since", ["1", "2"])
    (tmp_path / "nodes.csv").unlink()
    columns = {"id": ["n0", "n1"], "since": pyarrow.array([19000, 19002], pyarrow.date32())}
    parquet.write_table(pyarrow.table(columns), tmp_path / "nodes.parquet")
    assert load_dataset(tmp_path, numbers="raw").x.tolist() == [[19000], [19002]]


def test_text_becomes_hashed_words(tmp_path):
    sentences = [f"the {number} quick foxes and a dog" for number in range(40)]
    data = load_dataset(write(tmp_path, "story", sentences))
    (column,) = data.vocabulary.columns
    dense = data.x.to_dense().numpy()
    for row, sentence in zip(dense, sentences):
        expected = {zlib.crc32(word.encode()) % column.width for word in sentence.split()}
        assert set(np.flatnonzero(row)) == expected
        assert row.max() == 1
    later = load_dataset(write(tmp_path, "story", ["Quick! quick?", "unheard"]), vocabulary=again(data))
    assert later.x.to_dense().sum(1).tolist() == [1, 1]
    assert later.x.to_dense()[0, zlib.crc32(b"quick") % column.width] == 1


def test_few_or_short_texts_stay_categories(tmp_path):
    assert len(load_dataset(write(tmp_path, "city", ["New York City", "Rio de Janeiro"] * 30)).feature_names) == 2
    assert len(load_dataset(write(tmp_path, "city", [f"c{number}" for number in range(40)])).feature_names) == 40


def test_normal_deviates_are_those_of_scikit_learn(tmp_path):
    values = np.exp(np.random.default_rng(0).standard_normal(300)).round(2)
    data = load_dataset(write(tmp_path, "wealth", list(map(str, values))), numbers="normal")
    theirs = QuantileTransformer(n_quantiles=101, output_distribution="normal").fit_transform(values[:, None])
    inside = np.abs(theirs[:, 0]) < 3
    np.testing.assert_allclose(data.x[inside, 0], theirs[inside, 0], atol=1e-5)
    later = load_dataset(write(tmp_path, "wealth", ["1e9", str(np.median(values))]), vocabulary=again(data))
    assert later.x[:, 0].tolist() == pytest.approx([3.09, 0], abs=0.02)


@pytest.mark.parametrize(
    "column", [{"name": "a", "width": 1 << 30}, {"name": "a", "mean": 0, "deviation": 1, "quantiles": [2, 1]}]
)
def test_a_vocabulary_of_a_damaged_file_is_refused(column):
    with pytest.raises(ValueError, match="A vocabulary must hold columns"):
        Vocabulary.from_mapping({"columns": [column], "classes": None, "edge_types": None})


def test_labels_reach_no_feature(tmp_path):
    """Shuffled labels leave every kind of column as it was."""
    random = np.random.default_rng(0)
    rows = [f"{random.random():.3f},2024-01-{day + 1:02},{'xyz'[day % 3]}" for day in range(20)]
    found = []
    for labels in (random.integers(0, 2, 20), random.integers(0, 2, 20)):
        lines = "".join(f"n{row},{label},{rest}\n" for row, (label, rest) in enumerate(zip(labels, rows)))
        (tmp_path / "nodes.csv").write_text(f"id,label,size,since,kind\n{lines}")
        (tmp_path / "edges.csv").write_text("source,target\nn0,n1\n")
        found.append(load_dataset(tmp_path, numbers="normal").x)
    assert found[0].equal(found[1])


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


@pytest.mark.parametrize("other", ["999", '"2,500"', ""])
def test_thousands_are_refused_not_guessed(tmp_path: Path, other: str):
    sentence = r"nodes\.csv, line 2, column size: must be a number without separators of thousands .* Got '1,234'\."
    nodes = f'id,size\na,"1,234"\nb,{other}\n'
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path, nodes, "source,target\na,b\n")
    data = load(tmp_path, nodes, "source,target\na,b\n", categorical="size")
    assert data.feature_names[0] == "size=1,234"


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
