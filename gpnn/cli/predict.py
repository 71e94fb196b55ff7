"""`gpnn predict`: a trained run's predictions for a graph, its own, grown, or another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpnn.cli.show import messages, print_json, print_notes
from gpnn.cli.words import METAVAR, Edges, Features, Json, Nodes, Quiet, Root, read_config, split_words
from gpnn.progress import Progress


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of a finished training.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar=METAVAR, help="The graph: the run's own (default), grown, or another.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="File to write: .parquet or .csv.")],
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
    """
    from gpnn.build import build_data, load_run_config, predict_trained, read_trained, with_graph
    from gpnn.run.predictions import check_suffix, write_predictions
    from gpnn.train import RunFolder

    check_suffix(out)
    folder = RunFolder.open(run)
    if out.resolve() == folder.predictions.resolve():
        raise ValueError(f"`--out` must not be the run's own {out.name}, which later predictions read.")
    config = load_run_config(folder)
    trained = read_trained(folder)
    given = {"nodes": nodes, "edges": edges, "features": features}
    if split_words(words)[0] is not None or any(given.values()):
        config = with_graph(config, read_config(words, root=root, tables=given).data)
    elif words or root:
        raise ValueError("Settings and `--root` must come with the graph that they are for. Got none.")
    with Progress("reading the graph and predicting", silent=quiet or json):
        data = build_data(trained.as_read(config), trained.vocabulary)
        table = predict_trained(trained, config, data)
    known = "new" in table.column_names
    if only_new and not known:
        raise ValueError(f"`--only-new` needs the run's {folder.predictions.name}. {str(run)!r} holds none.")
    new = int(table["new"].to_numpy().sum()) if known else None
    if only_new:
        table = table.filter(table["new"])
    write_predictions(table, out)
    if json:
        counts = {"num_nodes": data.num_nodes, "num_predictions": table.num_rows, "num_new": new}
        print_json({"file": str(out), **counts, "notes": data.get("notes") or []})
        return
    print_notes(data.get("notes"), messages(silent=quiet))
    count = "" if new is None else f"; {new:,} of {data.num_nodes:,} nodes are new to the run"
    messages(silent=quiet).print(f"{table.num_rows:,} predictions in {out}{count}", markup=False)
