"""The nodes of a conversion: ids, features, labels and splits, written to the folder where the graph is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import torch

from gpnn.data.convert.node_ids import NodeIds, make_ids, row_ids
from gpnn.data.convert.node_tables import Blocks, NodeTables, array_blocks, list_blocks, write_features
from gpnn.data.convert.pieces import Conversion, cut_pieces, read_batches, read_header_names
from gpnn.data.labels import are_numbers, check_labels, count_classes
from gpnn.data.npy_file import read_header, read_rows, write_array
from gpnn.data.splits import MASKS, draw_split
from gpnn.data.stored import read_ids
from gpnn.data.tables import read_matrix
from gpnn.data.tables.assemble import add_labels
from gpnn.data.tables.column import distinct, named
from gpnn.data.tables.matrix import check_finite
from gpnn.data.tables.node_features import Columns, matrix_rows
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch_geometric.data import Data

MOST_READERS = 8  # threads that read features, one for each gigabyte of memory


@dataclass(frozen=True)
class NodeStage:
    """Reads the nodes of a conversion and writes their files."""

    job: Conversion

    def write(self) -> tuple[NodeIds, dict[str, Any]]:
        """Write ids, features, labels and splits; the table of ids, and what `graph.json` keeps of the nodes.

        Raises:
            ValueError: naming the file, the row, the column and the value.
        """
        from torch_geometric.data import Data

        tables = self._tables()
        own = None if tables is None else tables.read_own()
        ids = self._ids(own)
        ids.save(self.job.folder)
        data = Data(num_nodes=ids.num_nodes, notes=[] if own is None else list(own.notes))
        columns, width = self._features(ids, tables, data)
        self._labels(ids, own, data)
        for name in ("y", *MASKS):
            if data.get(name) is not None:
                write_array(self.job.folder / f"{name}.npy", data[name].numpy())
        classes = data.get("class_names")
        vocabulary = Vocabulary(columns, None if classes is None else tuple(classes), None)
        return ids, {
            "num_nodes": ids.num_nodes,
            "where": ids.where,
            "num_features": width,
            "feature_names": [name for column in columns for name in column.feature_names] or None,
            "task": data.get("task"),
            "num_classes": data.get("num_classes"),
            "class_names": classes,
            "vocabulary": vocabulary.to_mapping(),
            "notes": list(dict.fromkeys(data.notes)),
        }

    def _tables(self) -> NodeTables | None:
        paths = list(self.job.nodes)
        if not paths:
            return None
        header = read_header_names(paths[0], self.job.choices.node_names)
        header.require(("id",))
        rows = self.job.settings.batch_rows()
        return NodeTables(
            cut_pieces(paths, rows, self.job.settings.share()), rows, self.job.choices, list(header.columns)
        )

    def _ids(self, own: Table | None) -> NodeIds:
        if own is not None:
            if not own.num_rows:
                raise ValueError(f"{own.file} must hold at least one node. Got none.")
            return make_ids(own)
        features = self.job.features
        if features is not None and features.suffix.lower() == ".npy":
            return row_ids(read_header(features).shape[0], f"the rows of {features.name}")
        return make_ids(self._named_by_edges())

    def _named_by_edges(self) -> Table:
        """The ids that the edges name, in order."""
        pieces, found = self.job.pieces, pyarrow.array([], pyarrow.int64())
        waiting: list[pyarrow.Array] = []
        for number, piece in enumerate(pieces):
            ends, rows = ("source", "target"), self.job.settings.batch_rows()
            for batch in read_batches(piece, rows, self.job.choices.edge_names, ends):
                batch.require(ends)
                waiting += [named(batch.columns[end]).unique() for end in ("source", "target") if batch.num_rows]
                if sum(map(len, waiting)) > max(len(found), 1 << 20):
                    found, waiting = distinct([found, *waiting]), []
            self.job.progress("ids", number + 1, len(pieces))
        found = distinct([found, *waiting])
        if not len(found):
            raise ValueError("The edges must name at least one node. Got none.")
        return Table("the edges", {"id": found}, lambda row: f"id {row}")

    def _features(self, ids: NodeIds, tables: NodeTables | None, data: Data) -> tuple[Columns, int]:
        """Write the features; the columns of the table that they are made of, and the width."""
        path, further = self.job.features, [] if tables is None else tables.further
        columns: Columns = ()
        if path is not None:
            if further:
                raise ValueError(
                    f"Features must be either in {path.name} or in columns of the nodes (--ignore leaves columns out). "
                    f"Got both: {', '.join(further[:12])}."
                )
            blocks = self._matrix_blocks(path, ids, data)
        elif tables is None or not further:
            return (), 0
        elif (lists := _list_columns(tables)) and further != lists[:1]:
            raise ValueError(f"A column of lists must be the only features. Got {', '.join(further[:12])}.")
        elif lists:
            blocks = list_blocks(tables.pieces, lists[0], min(tables.rows, 1 << 16), self._counter("features", tables))
        else:
            columns, notes = tables.survey(self._counter("columns", tables))
            data.notes += notes
            if not columns:
                return (), 0
            blocks = lambda: tables.encode(columns, self._counter("features", tables))  # noqa: E731
        return columns, write_features(self.job.folder, blocks, self.job.settings.dtype)

    def _matrix_blocks(self, path: Path, ids: NodeIds, data: Data) -> Blocks:
        if path.suffix.lower() == ".npy":
            count = read_header(path).shape[0]
            if count != ids.num_nodes:
                raise ValueError(f"{path.name} must have one row for each of the {ids.num_nodes} nodes. Got {count}.")
            settings = self.job.settings
            return array_blocks(path, min(settings.num_threads, MOST_READERS, max(1, int(settings.memory / 1e9))))
        matrix = read_matrix(path, self.job.choices)
        assert matrix is not None
        check_finite(matrix)
        x = matrix_rows(matrix, _names(ids), ids.where, data.notes)
        return lambda: [x]

    def _counter(self, stage: str, tables: NodeTables) -> Callable[[], None]:
        done = iter(range(1, 1 << 62))
        return lambda: self.job.progress(stage, min(next(done), len(tables.pieces)), len(tables.pieces))

    def _labels(self, ids: NodeIds, own: Table | None, data: Data) -> None:
        path = self.job.labels
        if path is not None and path.suffix.lower() == ".npy" and len(read_header(path).shape) == 1:
            self._read_labels(path, data)
            return
        matrix = read_matrix(path, self.job.choices, gaps=True)
        table = own if own is not None else Table("the nodes", {}, str)
        if matrix is not None or self.job.choices.label in table.columns:
            add_labels(data, table, _names(ids), matrix, self.job.choices)
            if data.get("num_classes") is None and data.get("y") is not None and not are_numbers(data.y):
                data.num_classes = count_classes(data.y)

    def _read_labels(self, path: Path, data: Data) -> None:
        """Classes or numbers of a `.npy` file, `[N]`; the split is drawn."""
        header = read_header(path)
        values = torch.from_numpy(read_rows(path, header, 0, header.shape[0]))
        data.y = check_labels(values, data.num_nodes, self.job.choices.task)
        if are_numbers(data.y):
            data.task = "regression"
        else:
            data.num_classes = count_classes(data.y)
        data.notes.append(draw_split(data, self.job.choices.seed))


def load_ids(folder: Path, facts: dict[str, Any]) -> NodeIds:
    """The table of ids of a stage that an earlier process finished."""
    names, where = read_ids(folder, facts["num_nodes"]), facts["where"]
    return row_ids(facts["num_nodes"], where) if names is None else make_ids(Table(where, {"id": names}, str))


def _names(ids: NodeIds) -> pyarrow.Array:
    return pyarrow.array(np.arange(ids.num_nodes)) if ids.names is None else ids.names


def _list_columns(tables: NodeTables) -> list[str]:
    from pyarrow import parquet, types

    path = tables.pieces[0].path
    if path.suffix.lower() != ".parquet":
        return []
    schema = parquet.read_schema(path)
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return [name for name in tables.further if any(kind(schema.field(name).type) for kind in kinds)]
