"""The predictions of several processes as one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpnn.storage.atomic import replace_file
from gpnn.train.predictions import write_both

SORTED_ROWS = 10_000_000  # a larger table is never held at once


def merge_predictions(parts: Sequence[Path], path: Path) -> None:
    """Write the tables of several processes as a run's.

    Their column `row`, the number of each node, orders the rows and is left out. Above `SORTED_ROWS` rows the tables
    follow each other as they are, as Parquet alone, and only one is held at a time.

    Args:
        parts: Parquet files of :func:`gpnn.train.predictions.predictions_table` with a column `row`.
        path: the Parquet file to write.
    """
    from pyarrow import concat_tables, parquet

    if sum(parquet.read_metadata(part).num_rows for part in parts) <= SORTED_ROWS:
        together = concat_tables([parquet.read_table(part) for part in parts])
        write_both(together.sort_by("row").drop_columns("row"), path)
    else:
        replace_file(path, lambda partial: _follow(parts, partial))


def _follow(parts: Sequence[Path], path: Path) -> None:
    from pyarrow import parquet

    schema = parquet.read_schema(parts[0])
    kept = schema.remove(schema.get_field_index("row"))
    with parquet.ParquetWriter(path, kept, write_page_checksum=True) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part).drop_columns("row"))
