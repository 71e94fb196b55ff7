"""Commands on a finished run: `gpnn predict`, `gpnn export`, `gpnn explain` and `gpnn report`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpnn.cli.show import messages, output, print_json, print_notes, table
from gpnn.cli.words import (
    METAVAR,
    Edges,
    Features,
    Json,
    Nodes,
    Quiet,
    Root,
    check_file,
    given_settings,
    read_config,
    split_words,
)
from gpnn.progress import Progress

if TYPE_CHECKING:
    import pyarrow

    from gpnn.config import Config
    from gpnn.train import RunFolder


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of a finished training.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar=METAVAR, help="The graph: the run's own (default), grown, or another.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="File to write: .parquet or .csv.")],
    update: Annotated[
        Path | None, typer.Option(metavar="NEW", help="Folder of tables of what changed in the run's graph.")
    ] = None,
    only_new: Annotated[bool, typer.Option("--only-new", help="Leave out nodes that the run knows.")] = False,
    nodes: Nodes = None,
    edges: Edges = None,
    features: Features = None,
    root: Root = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write class, confidence and the probability of each class for every node of a graph.

    The graph may have grown since the training: nodes are matched by their ids, columns, categories, classes and edge
    types mean what they meant, and new nodes are predicted without training again.

    Examples:

    `gpnn predict runs/first grown_graph/ --out predictions.csv`

    `gpnn predict runs/first --nodes new/nodes.parquet --edges new/edges.parquet --only-new --out new.parquet`

    `gpnn predict runs/first --update change/ --out predictions.parquet`

    With `--update` only what the change may reach is computed again; all else is the run's own prediction. The folder
    may hold `nodes` (new, or with new features), `edges` (new), `removed_nodes` (by `id`) and `removed_edges`.
    """
    from gpnn.build import build_data, load_run_config, predict_tables, read_trained, update_trained
    from gpnn.run.predictions import SUFFIXES, write_predictions
    from gpnn.train import RunFolder

    check_file("--out", out, *SUFFIXES)
    folder = RunFolder.open(run)
    config = _find_graph(load_run_config(folder), words, root, {"nodes": nodes, "edges": edges, "features": features})
    if update is not None and (words or root or nodes or edges or features):
        raise ValueError("`--update` changes the run's own graph. Got another graph, or settings, besides.")
    _check_out(out, folder, config, update)
    trained, updated = read_trained(folder), None
    known = folder.predictions.is_file()
    if only_new and not known:
        raise ValueError(f"`--only-new` needs the run's {folder.predictions.name}. {str(run)!r} holds none.")
    with Progress("reading the graph and predicting", silent=quiet or json):
        if update is not None:
            updated = update_trained(trained, config, update)
            tables, notes = iter([updated.table]), updated.notes
        else:
            data = build_data(trained.as_read(config), trained.vocabulary)
            tables, notes = predict_tables(trained, config, data), data.get("notes") or []
        sizes: dict[str, Any] = {"num_nodes": 0, "num_predictions": 0, "num_new": 0}
        write_predictions(_counted(tables, sizes, only_new), out)
    sizes |= {} if known else {"num_new": None}
    sizes |= {} if updated is None else {"num_computed": updated.num_computed, "whole": updated.whole}
    if json:
        print_json({"file": str(out), **sizes, "notes": notes})
        return
    print_notes(notes, messages(silent=quiet))
    messages(silent=quiet).print(f"{sizes['num_predictions']:,} predictions in {out}{_describe(sizes)}", markup=False)


def _find_graph(config: Config, words: list[str] | None, root: Path | None, tables: dict[str, Path | None]) -> Config:
    """A run's configuration with the graph that the words and options name; without any, the run's own.

    Raises:
        ValueError: for settings that have no graph, are not of a graph, or differ from the run's.
    """
    from gpnn.build import with_graph

    if split_words(words)[0] is None and not any(tables.values()):
        if words or root:
            raise ValueError("Settings and `--root` must come with the graph that they are for. Got none.")
        return config
    found = with_graph(config, given := read_config(words, root=root, tables=tables).data)
    for name in given_settings(words, None):
        section, _, key = name.partition(".")
        if section != "data" or getattr(given, key, None) != getattr(found.data, key, None):
            raise ValueError(f"A prediction has the settings of its run, but for where the graph is. Got {name}.")
    return found


def _check_out(out: Path, folder: RunFolder, config: Config, update: Path | None) -> None:
    """Raise ValueError for a file that predictions are made from."""
    from gpnn.build import graph_files

    if out.resolve() == folder.predictions.resolve():
        raise ValueError(f"`--out` must not be the run's own {out.name}, which later predictions read.")
    if out.resolve() in [each.resolve() for each in graph_files(config, update)]:
        raise ValueError(f"`--out` must not be a file that the graph is read from. Got {str(out)!r}.")


def _counted(tables: Iterator[pyarrow.Table], sizes: dict[str, Any], only_new: bool) -> Iterator[pyarrow.Table]:
    """The tables, or their rows of new nodes, which are counted."""
    for each in tables:
        sizes["num_nodes"] += each.num_rows
        if "new" in each.column_names:
            sizes["num_new"] += int(each["new"].to_numpy().sum())
        chosen = each.filter(each["new"]) if only_new else each
        sizes["num_predictions"] += chosen.num_rows
        yield chosen


def _describe(sizes: Mapping[str, Any]) -> str:
    """How many nodes are new, and how many were computed again, as far as that is known."""
    text = ""
    if sizes["num_new"] is not None:
        text = f"; {sizes['num_new']:,} of {sizes['num_nodes']:,} nodes are new to the run"
    if "num_computed" in sizes:
        why = f": {sizes['whole']}" if sizes["whole"] else ""
        text += f"; {sizes['num_computed']:,} were computed again{why}"
    return text


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of a finished training.")],
    out: Annotated[Path, typer.Argument(metavar="FILE.pt2", help="File to write.")],
    *,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the model over the run's own graph as a program that `torch.export.load` reads without gpnn.

    The program takes the features of all nodes and gives their probabilities, or a number and its interval.

    Example:

    `gpnn export runs/first model.pt2`
    """
    from gpnn.build import export_run
    from gpnn.train import RunFolder

    folder = RunFolder.open(run)
    with Progress("tracing the model", silent=quiet or json):
        facts = export_run(folder, out)
    if json:
        print_json({"file": str(out), **facts})
        return
    takes = "nothing" if facts["x"] is None else "features [{}, {}]".format(*facts["x"])
    messages(silent=quiet).print(f"{out} takes {takes}; torch.export.load reads it", markup=False)


COMPARISON = Path("comparison.html")


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write (default: RUN/report.html; of several runs comparison.html).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the report's path only.")] = False,
    json: Json = False,
) -> None:
    """Write the report of a finished run anew; of several runs, one report that compares them.

    Examples:

    `gpnn report runs/first`

    `gpnn report runs/first runs/second --out both.html --json`
    """
    check_file("--out", out, ".html")
    with Progress("writing the report", silent=quiet or json):
        path = _write_report(runs, out)
    if json:
        print_json({"file": str(path), "runs": list(map(str, runs))})
    elif quiet:
        typer.echo(str(path))
    else:
        messages().print(f"report in {path}", markup=False)


def _write_report(runs: list[Path], out: Path | None) -> Path:
    """Write the report of a run, or the comparison of several; where it is."""
    if len(runs) == 1:
        from gpnn.build import report_run

        return report_run(runs[0], out)
    from gpnn.report import write_comparison

    path = out or COMPARISON
    write_comparison(runs, path)
    return path


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of a finished training.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="Id of the node, or its row where nodes have none.")],
    *,
    num: Annotated[int, typer.Option(help="Edges, neighbours and columns to list, at most.")] = 10,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Page with a picture to write, .html.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Print the edges, neighbours and columns that carried a node's prediction.

    Each is deleted from the run's graph and the node predicted again: the effect is the probability that is lost, or by
    how much a number moves.

    Example:

    `gpnn explain runs/first anna --num 5 --out why.html`
    """
    from dataclasses import asdict

    from gpnn.build import explain_run
    from gpnn.text import printable
    from gpnn.train import RunFolder

    if out is not None:
        from gpnn.report import check_extra, write_explanation

        check_extra()
        check_file("--out", out, ".html")
    folder = RunFolder.open(run)
    with Progress("predicting without each edge and column", silent=quiet or json):
        found = explain_run(folder, node, num)
    if out is not None:
        write_explanation(found, out)
    if json:
        print_json(asdict(found))
        return
    shown = [(kind, printable(name), effect) for kind, name, effect in found.shown()]
    output().print(table(["without", "", found.effect], shown, None if quiet else printable(found.title)))
