"""`gpnn partition`: divide a graph, and see what the partition costs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpnn.cli.show import messages, output, table
from gpnn.cli.words import read_config

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.partition import Partition

COLUMNS = ("edge cut", "balance of nodes", "balance of edges", "cut nodes", "halo rows, all")


def partition(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATASET|FOLDER|KEY=VALUE", help="What to divide, and settings."),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Number of subgraphs (default: by size).")] = None,
    method: Annotated[str, typer.Option("--method", "-m", help="The partitioner.")] = "flood_fill",
    out: Annotated[Path | None, typer.Option(help="File to write: .safetensors, or METIS's .part.K.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Every method side by side.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the partitioner.")] = 0,
    root: Annotated[Path | None, typer.Option(help="Folder of downloaded data.")] = None,
) -> None:
    """Divide a graph into subgraphs and print the cut, the balance and the halo.

    Example: `gpnn partition cora -k 10 --method flood_fill --out cora.safetensors`
    """
    from gpnn.build import build_data, resolve
    from gpnn.partition import PARTITIONERS

    also = [f"partition.method={method}", f"seed={seed}", *([f"partition.k={k}"] if k else [])]
    config = read_config(words, root=root, also=also)
    data = build_data(config)
    parts = int(resolve(config, data).partition.k)
    options = config.partition.options
    if compare:
        others = [name for name in PARTITIONERS if name not in (method, "given")]
        attempts = [(method, options), *((name, {}) for name in others)]
        rows = [_row(name, data, parts, seed, given) for name, given in attempts]
        output().print(table(["method", *COLUMNS, "seconds"], rows, title=f"K = {parts}"))
    if not compare or out is not None:
        division = _divide(method, data, parts, seed, options)
        if not compare:
            output().print(table(["", method], division.quality(data).summary().items()))
        if out is not None:
            division.save(out)
            messages().print(f"{division} in {out}")


def _divide(method: str, data: Data, k: int, seed: int, options: dict[str, Any]) -> Partition:
    from gpnn.partition import partition_graph

    return partition_graph(data, k, method, seed, **options)


def _row(method: str, data: Data, k: int, seed: int, options: dict[str, Any]) -> list[Any]:
    """A method's figures; dashes and a remark for one whose extra is not installed or that cannot give this K."""
    began = time.perf_counter()
    try:
        division = _divide(method, data, k, seed, options)
    except (ImportError, ValueError) as error:
        messages().print(f"{method}: {error}")
        return [method, *[None] * (len(COLUMNS) + 1)]
    seconds = time.perf_counter() - began
    figures = division.quality(data).summary()
    return [method, *[figures[column] for column in COLUMNS], seconds]
