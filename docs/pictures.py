"""The pictures of the documentation, drawn by the project's own code: `python docs/pictures.py`.

The screenshot of a page needs Chromium and selenium, and is left out without them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gpnn
from gpnn.schedule import broadcast, draw_schedule, held_cut, partitioned, sequential, synchronous, waves

HALVES = [0, 0, 0, 1, 1, 1]


def chain(num_nodes: int) -> gpnn.Graph:
    """A path of nodes, edges in both directions."""
    ends = range(num_nodes - 1), range(1, num_nodes)
    return gpnn.Graph(list(ends[0]), list(ends[1]), num_nodes=num_nodes).to_undirected()


def draw_synchronous(path: Path) -> None:
    """One round in which every edge sends."""
    draw_schedule(synchronous(chain(6), 5), path)


def draw_partitioned(path: Path) -> None:
    """The paper's Figure 1: two subgraphs, then the cut."""
    draw_schedule(partitioned(chain(6), HALVES, rounds=2, intra=2, cut=1), path)


def draw_held(path: Path) -> None:
    """Two subgraphs, messages over the cut held."""
    draw_schedule(held_cut(chain(6), HALVES, rounds=2, intra=2), path)


def draw_sequential(path: Path) -> None:
    """The levels of a ring's two acyclic graphs."""
    ring = gpnn.Graph([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0], num_nodes=6).to_undirected()
    draw_schedule(sequential(ring, 1), path)


def draw_virtual(path: Path) -> None:
    """A virtual node for each subgraph."""
    draw_schedule(partitioned(chain(6), HALVES, rounds=2, intra=2, cut=1, virtual="subgraph"), path)


def draw_grid(path: Path) -> None:
    """A grid in four subgraphs: what travels inside, and what travels over the cut."""
    grid = gpnn.load_dataset("grid", rows=8, columns=14)
    part = gpnn.partition_graph(grid, 4, method="refined", seed=0)
    cut = part.quality(grid).edge_cut
    title = f"A grid of 112 nodes in 4 subgraphs: {100 * cut:.0f} % of the edges are cut"
    draw_schedule(partitioned(grid, part), path, part, title=title)


def draw_messages(path: Path) -> None:
    """Messages until every node of a chain has reached every other, by the number of subgraphs."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    graph, num_nodes = chain(48), 48
    counts = [k for k in range(1, num_nodes + 1) if num_nodes % k == 0]
    messages = []
    for k in counts:
        labels = [node * k // num_nodes for node in range(num_nodes)]
        schedule = partitioned(graph, labels, rounds=num_nodes, intra=max(1, num_nodes // k - 1))
        messages.append(broadcast(graph, schedule).num_messages)
    with rc_context({"svg.hashsalt": "gpnn", "font.size": 10}):
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        axes = figure.subplots()
        axes.plot(counts, messages, marker="o", color="#4477aa", label="partitioned, T_S = subgraph's diameter")
        whole = broadcast(graph, synchronous(graph, num_nodes)).num_messages
        axes.axhline(whole, color="#ee9944", label="synchronous")
        axes.set(xlabel="subgraphs K", ylabel="messages to solve broadcast", ylim=(0, None), xscale="log")
        axes.set_xticks(counts, map(str, counts))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})


def draw_waves(path: Path) -> None:
    """Two waves over a small tree: from node 0, then from the farthest node."""
    tree = gpnn.Graph([0, 1, 1, 3], [1, 2, 3, 4], num_nodes=5).to_undirected()
    draw_schedule(waves(tree, rounds=2), path)


def draw_reach(path: Path) -> None:
    """Messages per edge until every node of a chain has reached every other, by the length of the chain."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    lengths = [8, 16, 32, 64, 128]
    needed: dict[str, list[float]] = {"synchronous": [], "partitioned, subgraphs of 8": [], "waves": []}
    for length in lengths:
        graph, labels = chain(length), [node // 8 for node in range(length)]
        for name, schedule in (
            ("synchronous", synchronous(graph, length)),
            ("partitioned, subgraphs of 8", partitioned(graph, labels, rounds=length // 8 + 1, intra=7)),
            ("waves", waves(graph, rounds=2)),
        ):
            needed[name].append(broadcast(graph, schedule).num_messages / graph.num_edges)
    with rc_context({"svg.hashsalt": "gpnn", "font.size": 10}):
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        axes = figure.subplots()
        for (name, values), colour in zip(needed.items(), ("#ee9944", "#228833", "#4477aa"), strict=True):
            axes.plot(lengths, values, marker="o", color=colour, label=name)
        axes.set(xlabel="nodes of a chain", ylabel="messages per edge until all is known", xscale="log", yscale="log")
        axes.set_xticks(lengths, map(str, lengths))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})


def draw_report(path: Path) -> None:
    """The top of the page that `gpnn train` writes, and beside it its drawing of the graph, as Chromium shows them."""
    from gpnn.build import build, create_run, load_config, train_run

    with tempfile.TemporaryDirectory() as folder:
        built = build(load_config())
        run = create_run(built, Path(folder) / "digits")
        train_run(run, built)
        photograph(run.report, path)
        photograph(run.report, path.with_name("report-graph.png"), 1000, "graph")


def photograph(page: Path, path: Path, height: int = 1180, scroll_to: str | None = None) -> None:
    """Save what Chromium shows of a page in its light theme.

    Args:
        page: the HTML file.
        path: the PNG file.
        height: of the window, in pixels.
        scroll_to: id of the element to show at the top.
    """
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size=1280,{height}",
    ):
        options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.get(page.resolve().as_uri())
        while driver.execute_script("return document.documentElement.dataset.ready") != "true":
            time.sleep(0.1)
        if scroll_to is not None:
            driver.execute_script(f"document.getElementById('{scroll_to}').scrollIntoView({{behavior: 'instant'}})")
        time.sleep(0.5)  # the smooth parts of the page come to rest
        driver.save_screenshot(str(path))
    finally:
        driver.quit()


PICTURES: dict[str, Callable[[Path], None]] = {
    "schedule-synchronous.svg": draw_synchronous,
    "schedule-partitioned.svg": draw_partitioned,
    "schedule-held.svg": draw_held,
    "schedule-sequential.svg": draw_sequential,
    "schedule-virtual.svg": draw_virtual,
    "schedule-grid.svg": draw_grid,
    "schedule-waves.svg": draw_waves,
    "messages.svg": draw_messages,
    "reach.svg": draw_reach,
    "report.png": draw_report,
}


def main() -> None:
    """Draw all pictures, or those that are named, into the folder of images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *PICTURES], help="pictures to draw (default: all)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images")
    arguments = parser.parse_args()
    for name in arguments.names or PICTURES:
        if name.endswith(".png") and not (shutil.which("chromium") and shutil.which("chromedriver")):
            print(f"{name} left out: needs chromium and chromedriver")
            continue
        PICTURES[name](arguments.out / name)
        print(name)


if __name__ == "__main__":
    main()
