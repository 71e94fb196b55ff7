"""The edges of a conversion: scattered into runs piece by piece, gathered into rows, and turned round where need be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpnn.data.convert.gather import SORT_BYTES, Gather, ordered_map
from gpnn.data.convert.node_ids import NodeIds
from gpnn.data.convert.pieces import EDGE_COLUMNS, Conversion, read_batches, read_header_names
from gpnn.data.convert.runs import Edges, Layout, Run, write_run
from gpnn.data.npy_file import map_array, read_header, read_rows
from gpnn.data.tables import add_type, file_types, types_note
from gpnn.data.tables.column import sorted_names
from gpnn.data.tables.column_kinds import read_commas
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import Choices
from gpnn.storage.atomic import write_json
from gpnn.storage.read import read_json


class EdgeStage:
    """Reads the edges of a conversion, whose nodes have these ids, and writes their rows.

    Args:
        job: the conversion.
        ids: of its nodes.
        names: the columns of the edges.
        types: the edge type of each file that is named after one.
    """

    def __init__(self, job: Conversion, ids: NodeIds, names: list[str], types: dict[Path, str]) -> None:
        self.folder, self.pieces, self.settings, self.ids = job.folder, job.pieces, job.settings, ids
        self.choices, self.progress = job.choices, job.progress
        self.names, self.types = names, types
        self.layout = Layout(ids.num_nodes, "type" in names, "weight" in names)
        self.share = job.settings.share(ids.num_bytes)

    def write(self) -> dict[str, Any]:
        """Write `in_*.npy`, `edge_*.npy` and, unless the graph is symmetric, `out_*.npy`.

        Returns:
            What `graph.json` keeps of the edges.

        Raises:
            ValueError: naming the file, the row, the column and the value.
        """
        found = self._scatter(range(len(self.pieces)), "edges", self._scatter_piece)
        types = sorted_names([name for each in found for names in each["types"] for name in names])
        notes = dict.fromkeys(note for each in found for note in each["notes"])
        made = self._gather("in", self.layout, lambda: self._runs(found, types))
        symmetric = made["digest"] == made["reverse_digest"]
        if not symmetric:
            self._transpose(made["num_edges"])
        return {
            "num_edges": made["num_edges"],
            "symmetric": symmetric,
            "edge_digest": [made["digest"], made["listed_digest"]],
            "num_edge_types": max(1, len(types)),
            "edge_type_names": types if self.layout.typed else None,
            "edge_notes": [*types_note(list(self.types.values())), *notes],
        }

    def _gather(self, prefix: str, layout: Layout, runs: Callable[[], Sequence[Run]]) -> dict[str, Any]:
        duplicates = self.settings.duplicates if prefix == "in" else "keep"
        limit = max(1, int(self.share / SORT_BYTES))
        gather = Gather(self.folder, prefix, layout, (), duplicates, limit)
        if not gather.finished:
            gather = replace(gather, runs=runs())
            stage = {"in": "rows", "out": "rows of the transpose"}[prefix]
            report = lambda done, total: self.progress(stage, done, total)  # noqa: E731
            gather.write(self.settings.num_threads, report)
        for path in self.folder.glob("*.run"):
            path.unlink()
        return gather.done

    def _scatter(self, items: Sequence[int], stage: str, scatter: Any) -> list[dict[str, Any]]:
        """What each piece was scattered into, of all pieces; those that an earlier process finished are kept."""
        found = []
        for number, made in enumerate(ordered_map(scatter, items, self.settings.num_threads)):
            found.append(made)
            self.progress(stage, number + 1, len(items))
        return found

    def _scatter_piece(self, number: int) -> dict[str, Any]:
        marker = self.folder / f"edges-{number:06d}.json"
        if marker.is_file():
            return read_json(marker)
        types: list[list[Any]] = []
        notes: dict[str, None] = {}
        rows, piece = self.settings.batch_rows(self.ids.num_bytes), self.pieces[number]
        for batch in read_batches(piece, rows, self.choices.edge_names, self.names):
            if piece.path in self.types:
                batch = add_type(batch, self.types[piece.path])
            batch.require(self.names)
            batch = read_commas(batch, ["weight"] if self.layout.weighted else [])
            notes |= dict.fromkeys(batch.notes)
            edges, names = self._read(batch)
            write_run(self._path(number, len(types)), self.layout, edges)
            if self.settings.undirected:
                write_run(self._path(number, len(types), back=True), self.layout, edges.reversed())
            types.append(names)
        made = {"runs": len(types), "types": types, "notes": list(notes)}
        write_json(marker, made)
        return made

    def _read(self, batch: Table) -> tuple[Edges, list[Any]]:
        """The edges of a batch, and the names of its types."""
        source, target = (self.ids.rows(batch, end) for end in ("source", "target"))
        types = weights = None
        names: list[Any] = []
        if self.layout.typed:
            types, names = batch.types()
        if self.layout.weighted:
            weights = batch.weights()
        return Edges(target, source, types, weights), names

    def _path(self, number: int, batch: int, *, back: bool = False) -> Path:
        return self.folder / f"edges-{number:06d}-{batch:04d}{'-back' if back else ''}.run"

    def _runs(self, found: Sequence[dict[str, Any]], types: Sequence[Any]) -> list[Run]:
        """The runs in the order of the input, the reverses of all edges after all edges."""
        place = {str(name): number for number, name in enumerate(types)}
        runs = []
        for back in (False, True) if self.settings.undirected else (False,):
            for number, made in enumerate(found):
                for batch, names in enumerate(made["types"]):
                    numbers = np.array([place[str(name)] for name in names], np.int32) if names else None
                    runs.append(Run.open(self._path(number, batch, back=back), self.layout, numbers))
        return runs

    def _transpose(self, num_edges: int) -> None:
        """Write the rows of senders from those of receivers."""
        layout = Layout(self.ids.num_nodes)
        rows = self.settings.batch_rows(self.ids.num_bytes)
        ranges = [(first, min(first + rows, num_edges)) for first in range(0, num_edges, rows)]

        def scatter(number: int) -> dict[str, Any]:
            if not paths[number].is_file():
                write_run(paths[number], layout, self._range_edges(*ranges[number]))
            return {}

        def runs() -> list[Run]:
            self._scatter(range(len(ranges)), "transpose", scatter)
            return [Run.open(path, layout) for path in paths]

        paths = [self.folder / f"turn-{number:06d}.run" for number in range(len(ranges))]
        self._gather("out", layout, runs)

    def _range_edges(self, first: int, last: int) -> Edges:
        """Edges `first` to `last` with senders as rows."""
        ptr, columns = (self.folder / f"in_{name}.npy" for name in ("ptr", "col"))
        senders = read_rows(columns, read_header(columns), first, last)
        ends = map_array(ptr)  # of which a range needs few pages
        start = int(np.searchsorted(ends, first, side="right")) - 1
        stop = int(np.searchsorted(ends, last, side="left"))
        counts = np.diff(np.clip(ends[start : stop + 1], first, last))
        receivers = np.repeat(np.arange(start, stop, dtype=senders.dtype), counts)
        return Edges(senders, receivers)


def check_columns(paths: Sequence[Path], choices: Choices) -> tuple[list[str], dict[Path, str]]:
    """The columns of the edges, found the same in all files; and the edge type of each file that is named after one.

    Raises:
        ValueError: when a file lacks one, or has one that edges have not.
    """
    if choices.edge_features:
        raise ValueError("A converted graph must have no edge features. Got " + ", ".join(choices.edge_features) + ".")
    headers = [read_header_names(path, choices.edge_names) for path in paths]
    types = file_types(paths) if not any("type" in header.columns for header in headers) else None
    names: list[str] = []
    for header in headers:
        header.require(names or EDGE_COLUMNS[:2], (*(() if names else EDGE_COLUMNS[2:]), *choices.ignore))
        names = names or [name for name in EDGE_COLUMNS if name in header.columns and name not in choices.ignore]
    return [*names, *(["type"] if types else [])], dict(zip(paths, types or ()))
