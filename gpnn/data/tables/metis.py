"""METIS graph files: a header of counts, then a line of neighbours for each node, numbered from 1."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpnn.data.tables.table import Table

BLANKS = bytes.maketrans(b" \t\r\v\f", b"\n" * 5)


@dataclass(frozen=True, eq=False)
class _Words:
    """The numbers of a METIS file.

    Attributes:
        file: its name, for errors.
        values: every number, in order, int64.
        line: the line of each, comments not counted, from 0; the header is line 0.
        num_lines: how many lines there are after the header.
        comments: the lines, from 1, that are comments, for errors.
    """

    file: str
    values: np.ndarray
    line: np.ndarray
    num_lines: int
    comments: np.ndarray

    def place(self, line: int) -> str:
        """The place of a line in the file, comments counted."""
        return f"line {_number(line, self.comments)}"


def read_metis(path: Path) -> tuple[Table, int]:
    """The edges of a METIS file, in both directions as in the file, with their weights; and the number of nodes.

    Nodes are named 1 to N. Weights and sizes of nodes are ignored.

    Raises:
        ValueError: when it is not such a file, naming the line.
    """
    words = _read_words(path)
    header = words.values[words.line == 0]
    if not 2 <= len(header) <= 4 or header.min() < 0 or header[0] < 1:
        shown = " ".join(map(str, header[:6]))
        raise ValueError(f"{path.name}, line 1: must be N, M and perhaps a format and a count. Got {shown!r}.")
    num_nodes, num_edges = int(header[0]), int(header[1])
    if words.num_lines < num_nodes:
        raise ValueError(f"{path.name} must have a line for each of the {num_nodes} nodes. Got {words.num_lines}.")
    source, columns = _neighbours(words, header, num_nodes)
    if len(source) != 2 * num_edges:
        found = f"{len(source)} for {num_edges} edges"
        raise ValueError(f"{path.name} must name every edge twice, once per direction. Got {found}.")
    outside = (columns[0] < 1) | (columns[0] > num_nodes)
    if outside.any():
        entry = int(outside.argmax())
        where = words.place(int(source[entry]))
        raise ValueError(f"{path.name}, {where}: neighbours must be from 1 to {num_nodes}. Got {columns[0][entry]}.")
    return _table(path, words, source, columns), num_nodes


def read_metis_edges(path: Path) -> Table:
    """The edges of a METIS file as a table, for nodes that another table describes."""
    return read_metis(path)[0]


def _table(path: Path, words: _Words, source: np.ndarray, columns: list[np.ndarray]) -> Table:
    import pyarrow

    names = ("target", "weight")
    arrays = {"source": pyarrow.array(source)} | {name: pyarrow.array(each) for name, each in zip(names, columns)}
    return Table(path.name, arrays, lambda row: words.place(int(source[row])))


def _neighbours(words: _Words, header: np.ndarray, num_nodes: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The node of each entry, from 1; and its neighbours and, where there are any, its weights."""
    body = words.line > 0
    node, values = words.line[body], words.values[body]
    if len(node) and node[-1] > num_nodes:
        last = words.place(int(node[-1]))
        raise ValueError(f"{words.file} must have {num_nodes} lines of neighbours. Got more: {last}.")
    digits = f"{int(header[2]):03d}" if len(header) > 2 else "000"
    if not re.fullmatch("[01]{3}", digits):
        raise ValueError(f"{words.file}, line 1: the format must be three digits 0 or 1. Got {int(header[2])}.")
    own = int(digits[0]) + int(digits[1]) * (int(header[3]) if len(header) > 3 else 1)
    start = np.searchsorted(node, node)  # where each entry's line begins
    kept = np.arange(len(node)) - start >= own
    node, values = node[kept], values[kept]
    if digits[2] == "0":
        return node, [values]
    count = np.bincount(node, minlength=num_nodes + 1)
    if (count % 2).any():
        where = words.place(int((count % 2).argmax()))
        raise ValueError(f"{words.file}, {where}: a weight must follow every neighbour. Got an odd count.")
    return node[::2], [values[::2], values[1::2]]


def _read_words(path: Path) -> _Words:
    content = path.read_bytes()
    letters = np.frombuffer(content, np.uint8)
    begins = np.append(0, np.flatnonzero(letters == ord("\n")) + 1)
    comments = np.flatnonzero(np.append(letters, 0)[begins] == ord("%")) + 1
    if len(comments):
        content = re.sub(rb"(?m)^%.*\n?", b"", content)
    letters = np.frombuffer(content, np.uint8)
    blank = letters <= ord(" ")
    starts = np.flatnonzero(~blank & np.append(True, blank)[:-1])
    ends = np.flatnonzero(letters == ord("\n"))
    line = np.searchsorted(ends, starts)
    if not len(line) or line[0] != 0:
        raise ValueError(f"{path.name}, line 1: must be N and M, the numbers of nodes and edges. Got nothing.")
    num_lines = len(ends) - content.endswith(b"\n")
    values = _integers(content, len(starts))
    if values is None:
        raise ValueError(_name_word(path, content, starts, line, comments))
    return _Words(path.name, values, line, num_lines, comments)


def _integers(content: bytes, num_words: int) -> np.ndarray | None:
    """Every word of the file as a whole number; None where one is not."""
    import pyarrow
    from pyarrow import csv

    reading = csv.ReadOptions(column_names=["word"], use_threads=False)
    numbers = csv.ConvertOptions(column_types={"word": pyarrow.int64()}, null_values=[])
    stream = pyarrow.BufferReader(pyarrow.py_buffer(content.translate(BLANKS)))
    try:
        words = csv.read_csv(stream, reading, csv.ParseOptions(quote_char=False), numbers)["word"]
    except pyarrow.ArrowInvalid:
        return None
    return words.to_numpy() if len(words) == num_words else None


def _name_word(path: Path, content: bytes, starts: np.ndarray, line: np.ndarray, comments: np.ndarray) -> str:
    """The error for the first word that is not a whole number."""
    for begin, where in zip(starts.tolist(), line.tolist()):
        text = content[begin : begin + 40].split(maxsplit=1)[0]
        if not re.fullmatch(rb"-?\d{1,18}", text):
            number = _number(where, comments)
            return f"{path.name}, line {number}: must hold whole numbers. Got {text.decode('utf-8', 'replace')!r}."
    return f"{path.name} must hold whole numbers. Got other bytes."


def _number(line: int, comments: np.ndarray) -> int:
    number = line + 1
    for comment in comments.tolist():
        number += comment <= number
    return number
