"""How the recipes of a race are weighed where labels are few: rules compared on development splits.

    python -m benchmarks.blend_rules [--jobs 1] [--graphs cora citeseer] [--splits 5] [--with-tuned]

Each line of `results/blend_rules.jsonl` is one race. Its candidates, each trained once as far as the race took it, are
weighed by several rules, and accuracy and log loss are those of the held-out nodes: neither in the development split's
training and validation nor in the public test set, so that nothing here has read the latter. *Selection* is what `gpnn
train` does, before it trains members again with other seeds; *selection, trained again* is all of what it does.
*Uniform* gives every candidate of a rule the same weight, *half* is the mean of *selection* and *uniform*. *Networks*
are all candidates but `features` and `columns`. *Best* is the one with the best validation metric, *least loss* that
with the least validation loss; losses are alike where their difference is within two standard errors. Finished lines
are not run again; `results/blend_rules.md` is the table of all of them. Its races had `averaged`, for which
`self_trained` takes part now, and `sampled` in one generation. Races of the same splits before recipes were let through
the ramp of their loss are in `results/blend_rules_before.jsonl`. `--with-tuned` races of the same splits have one
recipe more, *tuned*, the linear cell that was best on Citeseer's public validation nodes (`ours`): four rounds, 64
channels, dropout 0.3 and 0.2, decay 5e-4; they are in `results/blend_rules_tuned.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from benchmarks.lines import read_lines, row, write_lines_page
from benchmarks.random_propagation import load

if TYPE_CHECKING:
    from gpnn.train.fit import FitResult

RESULTS = Path(__file__).parent / "results" / "blend_rules.jsonl"
BEFORE = RESULTS.with_name("blend_rules_before.jsonl")
WITH_TUNED = RESULTS.with_name("blend_rules_tuned.jsonl")
COMMAND = "python -m benchmarks.blend_rules --jobs 1 --splits 5"
LATER = "--graphs citeseer --splits 10 --with-tuned --jobs 5"
PLAIN = ("features", "columns")  # recipes that propagate no states
TUNED = "tuned"
RAMPED = ("sampled", "averaged", "spread")  # recipes with a loss whose weight rises
BLEND = "selection, trained again"
CLOSE = 2.0  # standard errors of the difference of losses within which recipes are not told apart

Weights = dict[str, float]


def add_tuned() -> None:
    """Put the linear cell of `ours` for Citeseer among the recipes, where `averaged` takes part."""
    from gpnn.recipes import RECIPES

    one = RECIPES["averaged"]
    options = {**one.pipeline.model_options, "input_dropout": 0.3, "dropout": 0.2}
    partitioned: Any = {"partition": "flood_fill", "k": 5, "schedule": "partitioned"}
    pipeline = replace(one.pipeline, rounds=4, hidden_channels=64, model_options=options, **partitioned)
    train = replace(one.train, patience=150, tolerance=0.0, weight_decay=5e-4)
    RECIPES[TUNED] = replace(one, pipeline=pipeline, train=train)


def make_starts(data: Any, seed: int, device: str = "cpu", names: Sequence[str] = ()) -> dict[str, Any]:
    """How a race builds the trainings of these recipes, or of those that suit a graph, by their names."""
    from gpnn.data.features import choose_scale
    from gpnn.race import Start, Variants, choose_members
    from gpnn.recipes import RECIPES

    variants = Variants(data)

    def start(name: str) -> Any:
        own = variants.settings(RECIPES[name])
        scale = own.get("scale_features", "auto")
        scale = choose_scale(data.x) if scale == "auto" else scale
        given = variants.get(undirected=own.get("undirected", False), scale_features=scale)
        pipeline = replace(RECIPES[name].pipeline, seed=seed, device=device)
        return Start(lambda recipe: pipeline.assemble(given, recipe, keep_schedule=False), RECIPES[name].train)

    return {name: start(name) for name in names or choose_members(variants.facts(scale_is_set=False))}


def run(
    graph: str, split: int, folder: Path | None = None, with_tuned: bool = False, device: str = "cpu"
) -> dict[str, Any]:
    """One race on a development split, and what each rule makes of its candidates.

    Args:
        graph: the dataset.
        split: the seed of the split and of the race.
        folder: where the candidates' probabilities are kept, for another rule; None: nowhere.
        with_tuned: whether the tuned cell takes part.
        device: that trains.
    """
    from experiments.harness.machine import describe_machine
    from gpnn.race import Finals, run_race
    from gpnn.train.blend import choose_blend

    if with_tuned:
        add_tuned()
    torch.set_num_threads(1)
    began = time.process_time()
    data = load(graph, split)
    starts = make_starts(data, split, device)
    with tempfile.TemporaryDirectory() as scratch:
        record = run_race(starts, Path(scratch), on_record=lambda record: None)
        finals = Finals(starts, Path(scratch), record)
        results = {name: finals.train(name)[1] for name in record.candidates}
        selected = dict(choose_blend(results.items(), data).weights)
        finals.blend(data, on_record=lambda record: None)
        again = {name: (weight, finals.train(name)[1]) for name, weight in finals.members.items()}
    seconds = time.process_time() - began
    val, held = data.val_mask, data.test_mask
    found = {name: _probabilities(result) for name, result in results.items()}
    mixed = torch.stack([weight * _probabilities(result) for weight, result in again.values()]).sum(0)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        kept = {name: (each[val].half(), each[held].half()) for name, each in found.items()}
        kept |= {"trained again": (mixed[val].half(), mixed[held].half())}
        trained = {name: (weight, _probabilities(result)) for name, (weight, result) in again.items()}
        parts = {name: (weight, p[val].half(), p[held].half()) for name, (weight, p) in trained.items()}
        torch.save(parts, folder / f"{graph}-{split}-again.pt")
        targets = (data.y[val], data.y[held])
        torch.save({"outputs": kept, "targets": targets, "selected": selected}, folder / f"{graph}-{split}.pt")
    rules = rule_weights({name: each[val] for name, each in found.items()}, data.y[val], selected)
    scores = {rule: score(mix(found, weights)[held], data.y[held]) for rule, weights in rules.items()}
    scores[BLEND] = score(mixed[held], data.y[held])
    return {
        "graph": graph,
        "split": split,
        "recipes": {
            n: {"val": score(p[val], data.y[val]), "held": score(p[held], data.y[held])} for n, p in found.items()
        },
        "weights": {rule: {n: round(w, 3) for n, w in weights.items() if w} for rule, weights in rules.items()},
        "held": scores,
        "cpu_seconds": round(seconds, 1),
        "machine": describe_machine(),
    }


def _probabilities(result: FitResult) -> Tensor:
    assert result.logits is not None
    return result.logits.float().softmax(1).cpu()


def rule_weights(val: dict[str, Tensor], target: Tensor, selected: Weights) -> dict[str, Weights]:
    """The weights of each rule, by the candidates' probabilities on the validation nodes.

    Args:
        val: probabilities of each candidate, the best one first.
        target: classes.
        selected: the weights of ensemble selection.
    """
    losses = {name: -each[torch.arange(len(target)), target].clamp_min(1e-12).log() for name, each in val.items()}
    least = min(losses, key=lambda name: float(losses[name].mean()))
    networks = [name for name in val if name not in PLAIN] or list(val)
    first = min(networks, key=lambda name: float(losses[name].mean()))
    close = [name for name in networks if name == first or not _worse(losses[name], losses[first])]
    selection = {name: selected.get(name, 0.0) for name in val}
    return {
        "best": uniform([next(iter(val))]),
        "least loss": uniform([least]),
        "selection": selection,
        "uniform": uniform(list(val)),
        "uniform, networks": uniform(networks),
        "uniform, networks of like loss": uniform(close),
        "half": half(selection, uniform(list(val))),
        "half, networks": half(selection, uniform(networks)),
    }


def uniform(names: list[str]) -> Weights:
    """The same weight for each."""
    return {name: 1 / len(names) for name in names}


def half(one: Weights, other: Weights) -> Weights:
    """The mean of two weightings."""
    return {name: (one.get(name, 0.0) + other.get(name, 0.0)) / 2 for name in {**one, **other}}


def _worse(losses: Tensor, least: Tensor) -> bool:
    """Whether losses of the same nodes are larger beyond chance."""
    apart = losses - least
    return float(apart.mean()) > CLOSE * float(apart.std()) / len(apart) ** 0.5


def mix(found: dict[str, Tensor], weights: Weights) -> Tensor:
    """The weighted mean of probabilities."""
    return torch.stack([weight * found[name] for name, weight in weights.items()]).sum(0)


def score(probabilities: Tensor, target: Tensor) -> list[float]:
    """Accuracy and log loss."""
    right = (probabilities.argmax(1) == target).float().mean()
    loss = -probabilities[torch.arange(len(target)), target].clamp_min(1e-12).log().mean()
    return [round(float(right), 4), round(float(loss), 4)]


def table(lines: list[dict[str, Any]]) -> str:
    """Held-out accuracy of each rule and, paired over races, what it has more than the selection."""
    graphs = sorted({each["graph"] for each in lines})
    text = [row(["rule", *(f"{graph}, {what}" for graph in graphs for what in ("percent", "against selection"))])]
    text.append(row(["---"] * (1 + 2 * len(graphs))))
    for rule in lines[0]["held"]:
        cells = [rule]
        for graph in graphs:
            held = [each["held"] for each in lines if each["graph"] == graph]
            gains = [100 * (each[rule][0] - each["selection"][0]) for each in held]
            error = f" ± {stdev(gains) / len(gains) ** 0.5:.2f}" if len(gains) > 1 else ""
            cells += [f"{100 * fmean(each[rule][0] for each in held):.1f} [{len(held)}]", f"{fmean(gains):+.2f}{error}"]
        text.append(row(cells))
    return "\n".join(text)


def recipe_table(lines: list[dict[str, Any]]) -> str:
    """Validation and held-out accuracy of each candidate, and its mean weight by the selection."""
    text = [row(["graph", "recipe", "races", "validation", "held out", "weight"]), row(["---"] * 6)]
    for graph in sorted({each["graph"] for each in lines}):
        own = [each for each in lines if each["graph"] == graph]
        for name in sorted({name for each in own for name in each["recipes"]}):
            took = [each for each in own if name in each["recipes"]]
            means = [100 * fmean(each["recipes"][name][part][0] for each in took) for part in ("val", "held")]
            weight = fmean(each["weights"]["selection"].get(name, 0.0) for each in took)
            text.append(row([graph, name, str(len(took)), f"{means[0]:.1f}", f"{means[1]:.1f}", f"{weight:.2f}"]))
    return "\n".join(text)


def compare(
    lines: list[dict[str, Any]], before: list[dict[str, Any]], names: tuple[str, str] = ("before", "now")
) -> str:
    """Held-out accuracy of recipes and of the blend, less that of the same race before; paired over splits."""
    old = {(each["graph"], each["split"]): each for each in before}
    text = [row(["graph", "what", *names, "points"]), row(["---"] * 5)]
    for graph in sorted({each["graph"] for each in lines}):
        pairs = [
            (old[graph, each["split"]], each)
            for each in lines
            if each["graph"] == graph and (graph, each["split"]) in old
        ]
        found = {"blend": [(one["held"][BLEND][0], two["held"][BLEND][0]) for one, two in pairs]}
        for name in RAMPED:
            both = [(one["recipes"], two["recipes"]) for one, two in pairs]
            found[f"`{name}`"] = [
                (one[name]["held"][0], two[name]["held"][0]) for one, two in both if name in one and name in two
            ]
        for what, values in found.items():
            gains = [100 * (now - then) for then, now in values]
            if len(gains) > 1:
                means = [f"{100 * fmean(side):.1f} [{len(side)}]" for side in zip(*values)]
                text.append(row([graph, what, *means, f"{fmean(gains):+.2f} ± {stdev(gains) / len(gains) ** 0.5:.2f}"]))
    return "\n".join(text)


def write_page() -> None:
    """The page of all finished lines."""
    lines = read_lines(RESULTS)
    about = "\n\n".join((__doc__ or "").split("\n\n")[2:]).replace("\n", " ").strip()
    paired = "Percent; in brackets the races; *against selection*: points, mean and standard error over the same races."
    tuned = read_lines(WITH_TUNED)
    races = [*lines, *tuned]
    seconds = f"{len(races)} races, {fmean(each['cpu_seconds'] for each in races):.0f} CPU seconds each on average."
    parts = [about, paired, table(lines), recipe_table(lines)]
    if before := read_lines(BEFORE):
        told = "Held-out accuracy before recipes were let through the ramp of their loss, and now, on the same splits:"
        parts += [told, compare(lines, before)]
    if tuned:
        told = "Held-out accuracy without the tuned cell, and with it as one recipe more, on the same splits:"
        parts += [told, compare(tuned, lines, ("without", "with")), recipe_table(tuned)]
    title = "How the recipes of a race are weighed where labels are few"
    write_lines_page(RESULTS, title, parts, races, seconds, f"`{COMMAND}`, then with `{LATER}`")


def main() -> None:
    """Run what is not done, a line at a time, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--graphs", nargs="+", default=["cora", "citeseer"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", type=Path, help="a folder for the candidates' probabilities")
    parser.add_argument("--with-tuned", action="store_true", help="race with the linear cell of `ours`, too")
    given = parser.parse_args()
    results = WITH_TUNED if given.with_tuned else RESULTS
    done = {(each["graph"], each["split"]) for each in read_lines(results)}
    todo = [(graph, split) for split in range(given.splits) for graph in given.graphs]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(run, *each, given.keep, given.with_tuned, given.device) for each in todo if each not in done
        ]
        for future in as_completed(waiting):
            with results.open("a") as file:
                file.write(json.dumps(future.result(), ensure_ascii=False) + "\n")
            write_page()


if __name__ == "__main__":
    main()
