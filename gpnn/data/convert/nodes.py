"""The nodes of a conversion: ids, features, labels and splits, written to the folder where the graph is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import torch

from gpnn.data.convert.batches import read_batches, read_header_names
from gpnn.data.convert.features import Blocks, array_blocks, list_blocks, write_features
from gpnn.data.convert.node_ids import NodeIds, make_ids, row_ids
from gpnn.data.convert.node_tables import NodeTables
from gpnn.data.convert.pieces import Piece, cut_pieces
from gpnn.data.convert.settings import ConvertSettings
from gpnn.data.labels import are_numbers, check_labels, count_classes
from gpnn.data.splits import draw_split
from gpnn.data.stored.npy_file import NpyWriter, map_array, read_header, read_rows
from gpnn.data.tables.assemble import add_labels
from gpnn.data.tables.column import as_text, named
from gpnn.data.tables.matrix import check_finite
from gpnn.data.tables.node_features import Columns, matrix_rows
from gpnn.data.tables.table import Table
from gpnn.data.tables.tables import read_matrix
from gpnn.data.tables.vocabulary import Choices, Vocabulary

if TYPE_CHECKING:
    from torch_geometric.data import Data

Progress = Callable[[str, int, int], None]  # stage, done, of how many
ARRAYS = ("y", "train_mask", "val_mask", "test_mask")


@dataclass(frozen=True)
class NodeSources:
    """Where the nodes come from.

    Attributes:
        nodes: the files of the table of nodes; without, the nodes are the rows of `features` or what the edges name.
        features: a matrix with a row per node, or None.
        labels: classes, numbers or several labels per node, or None.
        edges: pieces of the edges.
    """

    nodes: Sequence[Path]
    features: Path | None
    labels: Path | None
    edges: Sequence[Piece]


class NodeStage:
    """Reads the nodes and writes their files.

    Args:
        folder: where the files are written.
        sources: of the nodes.
        choices: how tables are understood.
        settings: of the conversion.
        progress: called as work is done.
    """

    def __init__(
        self, folder: Path, sources: NodeSources, choices: Choices, settings: ConvertSettings, progress: Progress
    ) -> None:
        self.folder, self.sources, self.choices, self.settings = folder, sources, choices, settings
        self.progress = progress

    def write(self) -> tuple[NodeIds, dict[str, Any]]:
        """Write ids, features, labels and splits; the table of ids, and what `graph.json` keeps of the nodes.

        Raises:
            ValueError: naming the file, the row, the column and the value.
        """
        from torch_geometric.data import Data

        tables = self._tables()
        own = None if tables is None else tables.read_own()
        ids = self._ids(own)
        ids.save(self.folder)
        data = Data(num_nodes=ids.num_nodes, notes=[] if own is None else list(own.notes))
        columns, width = self._features(ids, tables, data)
        self._labels(ids, own, data)
        for name in ARRAYS:
            if data.get(name) is not None:
                _save(self.folder / f"{name}.npy", data[name].numpy())
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
        paths = list(self.sources.nodes)
        if not paths:
            return None
        header = read_header_names(paths[0], self.choices.node_names)
        header.require(("id",))
        rows = self.settings.batch_rows()
        return NodeTables(cut_pieces(paths, rows, self.settings.share()), rows, self.choices, list(header.columns))

    def _ids(self, own: Table | None) -> NodeIds:
        if own is not None:
            if not own.num_rows:
                raise ValueError(f"{own.file} must hold at least one node. Got none.")
            return make_ids(own)
        features = self.sources.features
        if features is not None and features.suffix.lower() == ".npy":
            return row_ids(read_header(features).shape[0], f"the rows of {features.name}")
        return make_ids(self._named_by_edges())

    def _named_by_edges(self) -> Table:
        """The ids that the edges name, in order."""
        pieces, found = self.sources.edges, pyarrow.array([], pyarrow.int64())
        waiting: list[pyarrow.Array] = []
        for number, piece in enumerate(pieces):
            ends, rows = ("source", "target"), self.settings.batch_rows()
            for batch in read_batches(piece, rows, self.choices.edge_names, ends):
                batch.require(ends)
                waiting += [named(batch.columns[end]).unique() for end in ("source", "target") if batch.num_rows]
                if sum(map(len, waiting)) > max(len(found), 1 << 20):
                    found, waiting = _distinct([found, *waiting]), []
            self.progress("ids", number + 1, len(pieces))
        found = _distinct([found, *waiting])
        if not len(found):
            raise ValueError("The edges must name at least one node. Got none.")
        ordered = found.take(pyarrow.compute.array_sort_indices(found))
        return Table("the edges", {"id": ordered}, lambda row: f"id {row}")

    def _features(self, ids: NodeIds, tables: NodeTables | None, data: Data) -> tuple[Columns, int]:
        """Write the features; the columns of the table that they are made of, and the width."""
        path, further = self.sources.features, [] if tables is None else tables.further
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
            blocks = list_blocks(tables.pieces, lists[0], self._rows(tables), self._counter("features", tables))
        else:
            columns, notes = tables.survey(self._counter("columns", tables))
            data.notes += notes
            if not columns:
                return (), 0
            blocks = lambda: tables.encode(columns, self._counter("features", tables))  # noqa: E731
        return columns, write_features(self.folder, blocks, self.settings.dtype)

    def _matrix_blocks(self, path: Path, ids: NodeIds, data: Data) -> Blocks:
        if path.suffix.lower() == ".npy":
            count = read_header(path).shape[0]
            if count != ids.num_nodes:
                raise ValueError(f"{path.name} must have one row for each of the {ids.num_nodes} nodes. Got {count}.")
            return array_blocks(path)
        matrix = read_matrix(path, self.choices)
        assert matrix is not None
        check_finite(matrix)
        x = matrix_rows(matrix, _names(ids), ids.where, data.notes)
        return lambda: [x]

    def _rows(self, tables: NodeTables) -> int:
        return min(tables.rows, 1 << 16)

    def _counter(self, stage: str, tables: NodeTables) -> Callable[[], None]:
        done = iter(range(1, 1 << 62))
        return lambda: self.progress(stage, min(next(done), len(tables.pieces)), len(tables.pieces))

    def _labels(self, ids: NodeIds, own: Table | None, data: Data) -> None:
        path = self.sources.labels
        if path is not None and path.suffix.lower() == ".npy" and len(read_header(path).shape) == 1:
            self._read_labels(path, data)
            return
        matrix = read_matrix(path, self.choices)
        table = own if own is not None else Table("the nodes", {}, str)
        if matrix is not None or self.choices.label in table.columns:
            add_labels(data, table, _names(ids), matrix, self.choices)
            if data.get("num_classes") is None and data.get("y") is not None and not are_numbers(data.y):
                data.num_classes = count_classes(data.y)

    def _read_labels(self, path: Path, data: Data) -> None:
        """Classes or numbers of a `.npy` file, `[N]`; the split is drawn."""
        header = read_header(path)
        values = torch.from_numpy(read_rows(path, header, 0, header.shape[0]))
        data.y = check_labels(values, data.num_nodes, self.choices.task)
        if are_numbers(data.y):
            data.task = "regression"
        else:
            data.num_classes = count_classes(data.y)
        data.notes.append(draw_split(data, self.choices.seed))


def load_ids(folder: Path, facts: dict[str, Any]) -> NodeIds:
    """The table of ids of a stage that an earlier process finished."""
    where = facts["where"]
    if (folder / "ids.npy").is_file():
        names = pyarrow.array(map_array(folder / "ids.npy"))
    elif (folder / "id_ptr.npy").is_file():
        parts = [pyarrow.py_buffer(map_array(folder / f"{name}.npy")) for name in ("id_ptr", "id_text")]
        names = pyarrow.Array.from_buffers(pyarrow.large_string(), facts["num_nodes"], [None, *parts])
    else:
        return row_ids(facts["num_nodes"], where)
    return make_ids(Table(where, {"id": names}, str))


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


def _distinct(parts: Sequence[pyarrow.Array]) -> pyarrow.Array:
    parts = [part for part in parts if len(part)] or [parts[0]]
    if len({part.type for part in parts}) > 1:
        parts = [as_text(part) for part in parts]
    return pyarrow.chunked_array(parts).unique()


def _save(path: Path, values: np.ndarray) -> None:
    with NpyWriter(path, values.dtype, values.shape[1:]) as file:
        file.append(values)
