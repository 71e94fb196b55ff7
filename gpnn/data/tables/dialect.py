"""How a table of text is written: its compression, encoding and separator, found by looking at the file."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpnn.storage.read import check_expansion, reason

if TYPE_CHECKING:
    import pyarrow

TEXT = (".csv", ".tsv")
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
SEPARATORS = (",", ";", "\t", "|")
BLOCK = 1 << 24  # bytes; no line may be longer
SAMPLE, ROWS = 1 << 16, 20  # bytes and rows that show the separator
ENCODINGS = {"utf-16": "UTF-16", "cp1252": "Latin-1 (Windows-1252)"}
PAIR = re.compile(rb"[\xc2-\xf4][\x80-\xbf]")  # which any character of UTF-8 beyond ASCII has
UNDEFINED = re.compile(rb"[\x00\x81\x8d\x8f\x90\x9d]")  # in Windows-1252


@dataclass(frozen=True)
class Dialect:
    """How a file of text is written.

    Attributes:
        compression: pyarrow's name of it, or None.
        encoding: "utf-8", "utf-16" or "cp1252", which includes Latin-1.
        quotes: whether a value may be quoted, so that it may contain line ends.
        delimiter: what separates the values of a row.
    """

    compression: str | None
    encoding: str
    quotes: bool
    delimiter: str

    @property
    def plain(self) -> bool:
        """Whether the bytes of the file are its text in UTF-8."""
        return self.compression is None and self.encoding == "utf-8"

    def notes(self, path: Path) -> tuple[str, ...]:
        """What the user should know of the reading."""
        known = ENCODINGS.get(self.encoding)
        return (f"{path.name} is not in UTF-8 and is read as {known}",) if known else ()


def ending(path: Path) -> str:
    """The ending that names the format of a file; that of a compressed table of text is the text's.

    >>> ending(Path("nodes.CSV")), ending(Path("nodes.csv.gz")), ending(Path("nodes.parquet.gz"))
    ('.csv', '.csv', '.gz')
    """
    last = path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    return inner if last in COMPRESSIONS and inner in TEXT else last


def find_dialect(path: Path) -> Dialect:
    """How a file of text is written.

    The separator is that of the file's ending unless the first rows have one width with another only. Text that cannot
    be UTF-8 is taken for Windows-1252 where no two bytes of it look like UTF-8.

    Raises:
        ValueError: for damaged compression, or one that unpacks to too much.
    """
    facts = path.stat()
    return _find_dialect(path, facts.st_size, facts.st_mtime_ns)


def open_text(path: Path, compression: str | None, encoding: str) -> pyarrow.NativeFile:
    """The text of a file as a stream of bytes in UTF-8."""
    import pyarrow

    stream = pyarrow.input_stream(path, compression=compression)
    return stream if encoding == "utf-8" else pyarrow.transcoding_input_stream(stream, encoding, "utf-8")


def read_chunk(stream: pyarrow.NativeFile, size: int) -> bytes:
    """The next bytes, at most `size`; pyarrow's own `read` loses its buffer where the stream is damaged."""
    buffer = bytearray(size)
    count = stream.readinto(buffer)
    return bytes(memoryview(buffer)[:count])


@lru_cache(maxsize=64)
def _find_dialect(path: Path, size: int, changed: int) -> Dialect:
    compression = COMPRESSIONS.get(path.suffix.lower())
    try:
        encoding, quotes = _scan(path, compression, size)
        with open_text(path, compression, encoding) as stream:
            sample = read_chunk(stream, SAMPLE)
    except FileNotFoundError:
        raise
    except (OSError, UnicodeError) as error:
        kind = compression or ENCODINGS.get(encoding, encoding)
        raise ValueError(f"{path.name} must be an undamaged file of {kind}. Got: {reason(error)}.") from None
    if sample.removeprefix(codecs.BOM_UTF8).startswith(b"sep="):
        raise ValueError(f"{path.name}, line 1: must name the columns; sep= is a line for spreadsheets, remove it.")
    return Dialect(compression, encoding, quotes, _find_delimiter(path, sample))


def _scan(path: Path, compression: str | None, size: int) -> tuple[str, bool]:
    """The encoding, and whether there are quotes."""
    with open_text(path, compression, "utf-8") as stream:
        quotes, other, pairs, length, lines, last = False, False, False, 0, 0, b""
        while chunk := read_chunk(stream, BLOCK):
            if not length and chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16", True
            if b"\0" in chunk:
                line = lines + chunk[: chunk.index(0)].count(b"\n") + 1
                raise ValueError(f"{path.name}, line {line}: must be text (UTF-16 begins with its mark). Got a byte 0.")
            length, lines = length + len(chunk), lines + chunk.count(b"\n")
            if compression is not None:
                check_expansion(path.name, length, size)
            quotes = quotes or b'"' in chunk
            if not pairs and not chunk.isascii():
                other, pairs = True, bool(PAIR.search(last + chunk) or UNDEFINED.search(chunk))
            last = chunk[-1:]
    return "cp1252" if other and not pairs else "utf-8", quotes


def _find_delimiter(path: Path, sample: bytes) -> str:
    own = "\t" if ending(path) == ".tsv" else ","
    widths = {mark: _width(sample, mark) for mark in SEPARATORS}
    if widths[own] > 1 or max(widths.values()) < 2:
        return own
    return max(widths, key=lambda mark: widths[mark])


def _width(sample: bytes, delimiter: str) -> int:
    """The number of values that each of the first rows has, or 0 where they differ."""
    text = io.StringIO(sample.decode("utf-8-sig", "replace"), newline="")
    widths: list[int] = []
    try:
        for row in csv.reader(text, delimiter=delimiter):
            widths += [len(row)] if row else []
            if len(widths) > ROWS:
                break
    except csv.Error:  # a value longer than Python's reader accepts
        return 0
    if len(widths) > 1 and (len(sample) == SAMPLE or len(widths) > ROWS):
        widths.pop()  # which the sample may have cut
    return widths[0] if widths and len(set(widths)) == 1 else 0
