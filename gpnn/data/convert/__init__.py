"""convert: tables of any size turned into a graph on the disk, in memory that a setting bounds."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpnn.data.convert.edges import EdgeStage, check_columns
from gpnn.data.convert.nodes import NodeStage, load_ids
from gpnn.data.convert.pieces import Conversion, ConvertSettings, Progress, cut_pieces, find_edges
from gpnn.data.database import ENDINGS as DATABASES
from gpnn.data.database import export_table
from gpnn.data.stored import StoredGraph, describe_array, is_stored, open_stored, write_index
from gpnn.data.tables import find_inputs
from gpnn.data.tables.vocabulary import Choices
from gpnn.storage.atomic import lock, make_folder, naming, open_folder, sync_folder, write_json
from gpnn.storage.read import digest_json, read_json

WORK, TABLES = "unfinished", "tables"  # the folder in the graph's where it is made; in that, what databases hold


def convert(
    edges: str | Path,
    nodes: str | Path | None,
    out: str | Path,
    *,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    choices: Choices | None = None,
    settings: ConvertSettings | None = None,
    selected: tuple[str, str] = ("nodes", "edges"),
    progress: Progress = lambda stage, done, total: None,
) -> StoredGraph:
    """Turn tables into a graph on the disk that :func:`gpnn.load_dataset` and `gpnn train` take.

    Edges and features are read piece by piece and never held in memory; ids, labels and splits of the nodes are. Edges
    are scattered into files by receiver, then sorted file by file. A conversion that was ended continues where it
    was when the same is called again.

    Args:
        edges: a file, a folder or a pattern of files: .parquet, .csv, .tsv (also .csv.gz, .csv.zst) with columns
            `source`, `target` and maybe `type`, `weight`; .npy `[2, E]` or `[E, 2]`; .npz; or a folder of `source.npy`,
            `target.npy`. Several files without `type` that words name are an edge type each. Or a file of SQLite or
            DuckDB, whose table of nodes is then taken as well, unless `nodes` names files.
        nodes: likewise, with a column `id` and maybe `label`, `split` and features as columns of numbers or categories
            or as one column of lists; None: the rows of `features`, else the ids that the edges name.
        out: the folder to make.
        features: a matrix with a row per node; `.npy` is streamed.
        labels: `.npy` of classes or numbers `[N]`, or a matrix of several labels per node.
        choices: how tables are understood; see :func:`gpnn.data.tables.tables`.
        settings: directions, duplicates, type of the features, memory and threads.
        selected: of a database, the table, view or query of the nodes ("" for none) and that of the edges.
        progress: called with the name of a stage, what is done of it and how much there is.

    Raises:
        ValueError: in one sentence that names the file, the row, the column and the value; or when `out` is taken.
        OSError: when the disk is full.
    """
    choices, settings, out = choices or Choices(), settings or ConvertSettings(), Path(out)
    _check_free(out)
    if nodes is None and selected[0] and _is_database(edges):
        nodes = edges
    x, y = (None if each is None else Path(each) for each in (features, labels))
    paths = _inputs(edges, "edges", selected[1], out)
    pieces = cut_pieces(paths, settings.batch_rows(), settings.share())
    tables = [] if nodes is None else _inputs(nodes, "nodes", selected[0], out)
    work = out / WORK
    job = Conversion(work, tables, x, y, paths, pieces, choices, settings, progress)
    with naming(out):
        make_folder(work)
        handle = open_folder(work)
        try:
            _hold(handle, out)
            _begin(work, _identity(job))
            try:
                facts = _make(job)
            except ValueError:
                _discard(work, out)
                raise
            _finish(work, out, facts)
        finally:
            if handle is not None:
                os.close(handle)
    return open_stored(out)


def _check_free(out: Path) -> None:
    """Raise ValueError unless a graph can be made at `out`, where a conversion that was ended may have left its own."""
    if is_stored(out):
        raise ValueError(f"The folder to convert into must be new. {str(out)!r} holds a graph.")
    found = [each.name for each in out.iterdir()] if out.is_dir() else []
    others = [name for name in found if name != WORK and not name.startswith(".") and not name.endswith(".npy")]
    if others:
        raise ValueError(f"The folder to convert into must be new or empty. {str(out)!r} holds {min(others)}.")


def _is_database(path: str | Path) -> bool:
    return Path(path).suffix.lower() in DATABASES and Path(path).expanduser().is_file()


def _inputs(word: str | Path, part: str, selected: str, out: Path) -> list[Path]:
    """The files that hold the nodes or edges; what a database holds is first written to one."""
    if not _is_database(word):
        return find_edges(word) if part == "edges" else find_inputs(Path(word).expanduser(), part)
    with naming(out):
        return [export_table(Path(word).expanduser(), part, selected, out / WORK / TABLES)]


def _hold(handle: int | None, out: Path) -> None:
    try:
        if handle is not None:
            lock(handle, wait=False)
    except BlockingIOError:
        raise ValueError(f"One process at a time may convert into a folder. Another works in {str(out)!r}.") from None


def _identity(job: Conversion) -> dict[str, Any]:
    """What a conversion that is continued must have in common with the one that began."""
    paths = [*job.nodes, *job.edges, *(path for path in (job.features, job.labels) if path is not None)]
    files = [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    plain = json.loads(json.dumps({**asdict(job.choices), "vocabulary": None}))
    pieces = [[str(piece.path), piece.start, piece.stop] for piece in job.pieces]
    return {"files": files, "pieces": digest_json({"pieces": pieces}), "choices": plain, **job.settings.chosen()}


def _begin(work: Path, identity: dict[str, Any]) -> None:
    """Continue what is there if it was begun alike; else begin anew."""
    path = work / "conversion.json"
    if path.is_file() and read_json(path) == identity:
        return
    for each in work.iterdir():
        if each.name == TABLES:
            continue
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    write_json(path, identity)


def _make(job: Conversion) -> dict[str, Any]:
    """Write all arrays into the working folder; what `graph.json` will hold."""
    work, choices = job.folder, job.choices
    if (work / "facts.json").is_file():
        return read_json(work / "facts.json")
    columns = check_columns(job.edges, choices)  # before the nodes take their time
    if (work / "nodes.json").is_file():
        facts = read_json(work / "nodes.json")
        ids = load_ids(work, facts)
    else:
        ids, facts = NodeStage(job).write()
        write_json(work / "nodes.json", facts)
    facts |= EdgeStage(job, ids, *columns).write()
    facts["notes"] += facts.pop("edge_notes")
    arrays = sorted(path for path in work.glob("*.npy"))
    found = {}
    for number, path in enumerate(arrays):
        found[path.stem] = describe_array(path)
        job.progress("digests", number + 1, len(arrays))
    del facts["where"]
    facts |= {"options": {**job.settings.chosen(), "label": choices.label, "seed": choices.seed}, "arrays": found}
    write_json(work / "facts.json", facts)
    return facts


def _discard(work: Path, out: Path) -> None:
    """Remove the working folder where it holds nothing to continue from, and the graph's where it then is empty."""
    if not (work / "nodes.json").is_file():
        shutil.rmtree(work)
        if not any(out.iterdir()):
            out.rmdir()


def _finish(work: Path, out: Path, facts: dict[str, Any]) -> None:
    """Move the arrays to their place; the index comes last, and the working folder goes."""
    for name in facts["arrays"]:
        if (work / f"{name}.npy").is_file():
            (work / f"{name}.npy").replace(out / f"{name}.npy")
    sync_folder(out)
    write_index(out, facts)
    shutil.rmtree(work)
