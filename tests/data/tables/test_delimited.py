"""Tables as text: lines are counted through quotes and blanks, and a line has a largest length."""

from pathlib import Path

import pytest

from gpnn.data.tables.delimited import BLOCK, read_delimited


def test_a_line_without_end(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_bytes(b"id\na\n" + b"x" * (2 * BLOCK) + b"\n")
    with pytest.raises(ValueError, match=r"n\.csv must have lines of at most 16 MiB\. Got a longer one\."):
        read_delimited(tmp_path / "n.csv")


def test_lines_are_counted_through_quotes_and_blanks(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text('id,label\n"a\nb",x\n\n,\nc,y\n')
    table = read_delimited(tmp_path / "n.csv")
    assert table.columns["id"].to_pylist() == ["a\nb", "c"]
    assert [table.place(0), table.place(1)] == ["line 2", "line 6"]
