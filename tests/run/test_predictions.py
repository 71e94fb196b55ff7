import numpy as np
import pytest
import torch
from pyarrow import csv, parquet
from torch_geometric.data import Data

from gpnn.run.predictions import predictions_table, true_labels, write_predictions
from gpnn.train.task import Classification


@pytest.fixture
def table():
    scores = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    columns = Classification(2).columns(scores, ["cat", "dog"])
    return predictions_table(columns, labelled=torch.tensor([True, False]))


def test_columns(table):
    assert table.column_names == ["node", "prediction", "confidence", "second", "margin", "labelled", "p_cat", "p_dog"]
    assert table.to_pylist()[0] == {
        "node": 0,
        "prediction": "dog",
        "confidence": 0.75,
        "second": "cat",
        "margin": 0.5,
        "labelled": True,
        "p_cat": 0.25,
        "p_dog": 0.75,
    }


def test_parquet_and_csv_hold_the_same(table, tmp_path):
    write_predictions([table], tmp_path / "a.parquet")
    write_predictions([table], tmp_path / "a.csv")
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist() == table.to_pylist()
    assert csv.read_csv(tmp_path / "a.csv").to_pylist() == table.to_pylist()


def test_the_users_ids_are_kept():
    assert predictions_table(({"prediction": [0, 1]}, {}), nodes=["a", "b"]).column("node").to_pylist() == ["a", "b"]


def test_another_ending_is_refused(table, tmp_path):
    with pytest.raises(ValueError, match=r"must end in .parquet or .csv. Got 'a.txt'"):
        write_predictions([table], tmp_path / "a.txt")


def test_a_damaged_page_is_refused_when_it_is_read_back(tmp_path):
    """What is predicted later follows the subgraphs in this file: a flipped bit must not pass for another label."""
    from gpnn.data.tables.binary import read_parquet_columns

    labels = np.arange(1000) % 7
    write_predictions(
        [predictions_table(({"prediction": labels, "confidence": labels}, {}), also={"subgraph": labels})],
        tmp_path / "p.parquet",
    )
    assert read_parquet_columns(tmp_path / "p.parquet")["subgraph"].to_pylist() == labels.tolist()
    content = bytearray((tmp_path / "p.parquet").read_bytes())
    column = parquet.read_metadata(tmp_path / "p.parquet").row_group(0).column(3)
    assert column.path_in_schema == "subgraph"
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    (tmp_path / "p.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"p\.parquet must be a Parquet file\. Got"):
        read_parquet_columns(tmp_path / "p.parquet")


def test_text_that_a_spreadsheet_would_run_is_not_a_formula(tmp_path):
    nodes = ["=1+1", "+7", "-x", "@a", "a=b", "plain"]
    table = predictions_table(({"prediction": nodes, "confidence": [-0.5] * 6}, {}), nodes=nodes)
    write_predictions([table], tmp_path / "p.csv")
    write_predictions([table], tmp_path / "p.parquet")
    written = csv.read_csv(tmp_path / "p.csv", convert_options=csv.ConvertOptions(column_types={"node": "string"}))
    assert written["node"].to_pylist() == ["'=1+1", "'+7", "'-x", "'@a", "a=b", "plain"]
    assert written["confidence"].to_pylist() == [-0.5] * 6
    assert parquet.read_table(tmp_path / "p.parquet")["node"].to_pylist() == nodes


def test_true_labels_are_named_where_they_are_known():
    data = Data(y=torch.tensor([1, -1, 0]))
    assert true_labels(data, ["cat", "dog"]).to_pylist() == ["dog", None, "cat"]
    assert true_labels(data, None).to_pylist() == [1, None, 0]
    assert true_labels(Data(y=torch.tensor([0.5, torch.nan])), None).to_pylist() == [0.5, None]
    several = Data(y=torch.tensor([[1.0, 0, 1], [0, 0, 0], [-1, -1, -1]]))
    assert true_labels(several, ["art", "law", "tea"]).to_pylist() == ["art; tea", "", None]
    assert true_labels(several, None).to_pylist() == ["0; 2", "", None]
    assert true_labels(Data(), None) is None
