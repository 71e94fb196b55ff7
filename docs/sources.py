"""Where the numbers of the pages come from: committed results, as functions that docs/claims.txt calls.

Experiments are read from the cells under experiments/results, benchmarks from the tables and sentences of
benchmarks/results. Shares are in percent, as the tables show them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

from experiments.harness import Experiment, Results, find_file, read_experiment
from experiments.harness.measure import scale
from experiments.harness.pairs import Comparison, compare_pairs
from experiments.harness.results import mean_and_deviation

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"(?<![\w.])[-−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?(?![\w]|\.\d)")


def mean(experiment: str, row: str, *columns: str, measure: str | None = None) -> list[float]:
    """The mean over the finished seeds, by column; all columns where none is named."""
    return spread(experiment, row, *columns, measure=measure)[::2]


def spread(experiment: str, row: str, *columns: str, measure: str | None = None) -> list[float]:
    """Mean and sample standard deviation, column by column."""
    found, results = _results(experiment)
    measure = measure or found.measure
    values = []
    for column in columns or [each.name for each in found.columns]:
        cells = [cell for cell in found.cells() if (cell.row, cell.column) == (row, column)]
        if not results.values(cells, measure):
            raise ValueError(f"{experiment} has no finished run of {row!r} in {column!r} with {measure}.")
        values += [scale(measure) * value for value in mean_and_deviation(results.values(cells, measure))]
    return values


def printed(experiment: str, row: str, *columns: str) -> list[float]:
    """The paper's numbers, by column."""
    (found,) = (each for each in _results(experiment)[0].rows if each.name == row)
    return [float(found.paper[column]) for column in columns or found.paper]


def rows(experiment: str) -> list[str]:
    """The names of an experiment's rows."""
    return [row.name for row in _results(experiment)[0].rows]


def gap(experiment: str, first: str, second: str, *columns: str) -> list[float]:
    """The first row less the second, in percent points, over the seeds that both have."""
    return [each.difference for each in _compare(experiment, first, second, columns)]


def p_value(experiment: str, first: str, second: str, *columns: str) -> list[float]:
    """The probability that chance alone gives such a gap, by the two-sided paired t-test."""
    return [each.p_value for each in _compare(experiment, first, second, columns) if each.p_value is not None]


def leads(experiment: str, column: str, chosen_by: str) -> list[float]:
    """A column less the best of the others, by row, in percent points, over the seeds that both have.

    The best is the one with the highest mean of the measure `chosen_by` over these seeds. A row in which one of the
    others has no such seed is left out.
    """
    found, results = _results(experiment)
    measures = chosen_by, found.measure
    by_seed: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(dict)
    for each in results.outcomes.values():
        by_seed[each.row, each.column][each.seed] = [scale(name) * each.metrics[name] for name in measures]
    values = []
    for row in rows(experiment):
        own, others = by_seed[row, column], []
        for name in (each.name for each in found.columns if each.name != column):
            other = by_seed[row, name]
            if shared := own.keys() & other:
                chosen, first, second = (
                    fmean(seeds[seed][at] for seed in shared) for seeds, at in ((other, 0), (own, 1), (other, 1))
                )
                others.append((chosen, first - second))
        if len(others) == len(found.columns) - 1:
            values.append(max(others)[1])
    return values


def cell(benchmark: str, *labels: str, column: str | int | slice, under: str = "") -> list[float]:
    """The numbers in one column of those rows of a benchmark's tables that begin with `labels`.

    Numbers in parentheses are left out.

    Args:
        benchmark: the result's name.
        labels: the first cells of the row; none takes every row.
        column: the heading of the column, or its position where headings repeat.
        under: how the heading over the table begins.
    """
    found: list[str] = []
    for title, heading, lines in _tables(benchmark):
        if title.startswith(under) and (not isinstance(column, str) or column in heading):
            at = heading.index(column) if isinstance(column, str) else column
            chosen = [line[at] for line in lines if tuple(line[: len(labels)]) == labels]
            found += [" ".join(each) if isinstance(each, list) else each for each in chosen]
    if not found:
        raise ValueError(f"{benchmark} has no row {labels} with {column!r} under {under!r}.")
    return [value for text in found for value in numbers(re.sub(r"\(.*?\)", "", text))]


def sentence(benchmark: str, pattern: str) -> list[float]:
    """The numbers that a pattern's groups find in a benchmark's text."""
    found = re.search(pattern, " ".join(_read(benchmark).split()))
    if found is None:
        raise ValueError(f"{benchmark} has no text {pattern!r}.")
    return [value for group in found.groups() for value in numbers(group)]


def phrase(words: str, holds: bool) -> str:
    """The words, if they hold.

    Raises:
        ValueError: if they do not.
    """
    if not holds:
        raise ValueError(f"{words!r} does not hold any more.")
    return words


def numbers(text: str) -> list[float]:
    """Every number in a text."""
    return [parse_number(found[0]) for found in NUMBER.finditer(text)]


def parse_number(text: str) -> float:
    """A number as pages write it.

    >>> parse_number("−1,024.5")
    -1024.5
    """
    return float(text.replace("−", "-").replace(",", ""))


@cache
def _results(name: str) -> tuple[Experiment, Results]:
    folder = ROOT / "experiments"
    return read_experiment(find_file(folder, name)), Results.open(folder / "results" / "cells" / f"{name}.jsonl")


def _compare(name: str, first: str, second: str, columns: tuple[str, ...]) -> list[Comparison]:
    experiment, results = _results(name)
    found = {each.column: each for each in compare_pairs(replace(experiment, pairs=((first, second),)), results)}
    if not found.keys() >= set(columns):
        raise ValueError(f"{name} has no seed of both {first!r} and {second!r} in one of {columns}.")
    return [found[each] for each in columns or found]


@cache
def _read(benchmark: str) -> str:
    return (ROOT / "benchmarks" / "results" / f"{benchmark}.md").read_text(encoding="utf-8")


def _tables(benchmark: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Heading, first row and other rows of each table."""
    title, rows = "", []
    for line in [*_read(benchmark).splitlines(), ""]:
        if line.startswith("|"):
            rows.append([each.strip().strip("`") for each in line.strip("|").split("|")])
            continue
        if rows:
            yield title, rows[0], rows[2:]
            rows = []
        title = line.strip("# ") if line.startswith("#") else title


SOURCES = (mean, spread, printed, rows, gap, p_value, leads, cell, sentence, phrase)
