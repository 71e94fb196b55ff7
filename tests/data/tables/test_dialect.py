"""Tables of text are read alike however they are compressed, encoded and separated; damage is named."""

import bz2
import gzip
from pathlib import Path

import pyarrow
import pytest

import gpnn
from gpnn.data.tables import dialect
from gpnn.data.tables.delimited import read_delimited, stream_delimited
from gpnn.data.tables.dialect import find_dialect

NODES = "id,label,størrelse\nanna,rød,1.5\nbert,blå,2.5\ncleo,,3.5\n"
EDGES = "source,target,weight\nanna,bert,1.0\ncleo,anna,0.5\n"


def zstd(content: bytes) -> bytes:
    with pyarrow.BufferOutputStream() as sink:
        with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(content)
        return sink.getvalue().to_pybytes()


COMPRESS = {"": lambda content: content, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_every_way_to_write_a_table_is_the_same_graph(tmp_path: Path, ending: str, encoding: str, separator: str):
    for name, text in (("nodes", NODES), ("edges", EDGES)):
        content = text.replace(",", separator).encode(encoding)
        (tmp_path / f"{name}.csv{ending}").write_bytes(COMPRESS[ending](content))
    data = gpnn.load_dataset(tmp_path)
    assert data.node_name.tolist() == ["anna", "bert", "cleo"]
    assert (data.class_names, data.feature_names) == (["blå", "rød"], ["størrelse"])
    assert data.edge_weight.tolist() == [1.0, 0.5]
    named = [note for note in data.notes if "UTF-8" in note]
    if encoding == "latin-1":
        assert named == [f"nodes.csv{ending} is not in UTF-8 and is read as Latin-1 (Windows-1252)"]
    elif encoding == "utf-16":
        assert len(named) == 2
        assert "read as UTF-16" in named[0]
    else:
        assert not named


def test_rows_are_streamed_with_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpnn.data.tables.delimited.BLOCK", 64)
    rows = "".join(f'{row},"{row}\nb"\n' for row in range(50))
    path = tmp_path / "n.csv.gz"
    path.write_bytes(gzip.compress(f"id,text\n{rows}".encode()))
    parts = list(stream_delimited(path))
    assert len(parts) > 5
    assert [name for part in parts for name in part.columns["id"].to_pylist()] == list(range(50))
    assert parts[-1].place(parts[-1].num_rows - 1) == "line 100"
    assert read_delimited(path).place(49) == "line 100"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,a|b\nx,1|2\n", ","),  # the ending's own, where it fits
        ("id;a\nx;0,5\n", ";"),
        ("id;a;b\nx;0,5;1,5\n", ";"),
        ('id;"a;b";c\nx;1;2\n', ";"),
        ("id\nx\n", ","),
        ("id,a|b|c\nx,1\n", ","),
        ("", ","),
    ],
)
def test_the_separator_is_that_of_the_first_rows(tmp_path: Path, text: str, expected: str):
    (tmp_path / "n.csv").write_text(text)
    assert find_dialect(tmp_path / "n.csv").delimiter == expected


def test_a_value_that_the_sample_cuts_does_not_count(tmp_path: Path):
    (tmp_path / "n.csv").write_text("id;text\na;x\nb;" + "y" * dialect.SAMPLE + ";\n")
    assert find_dialect(tmp_path / "n.csv").delimiter == ";"


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
def test_damage_is_named(tmp_path: Path, ending: str):
    path = tmp_path / f"n.csv{ending}"
    whole = COMPRESS[ending](b"id,label\n" + b"".join(b"%d,x\n" % row for row in range(1000)))
    for content in (whole[: len(whole) // 2], b"id,label\n1,x\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"n\.csv\{ending} must be an undamaged file of \w+\. Got: "):
            read_delimited(path)


def test_a_small_file_may_not_unpack_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpnn.storage.read.SMALL", 1 << 16)
    path = tmp_path / "n.csv.zst"
    path.write_bytes(zstd(b"id\n" + b"1\n" * (1 << 22)))
    with pytest.raises(ValueError, match=r"n\.csv\.zst must unpack to at most 1,000 times its size\. Got "):
        read_delimited(path)


def test_text_that_is_partly_utf8_is_not_taken_for_latin1(tmp_path: Path):
    (tmp_path / "n.csv").write_bytes("id\nø\n".encode() + "ø\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"n\.csv, line 3: must be text in UTF-8\. Got '�'\."):
        read_delimited(tmp_path / "n.csv")
