"""Rows compared seed by seed: the same seed is the same partition, initial weights and masks on both sides."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.harness.results import Results, mean_and_deviation
from experiments.harness.spec import Experiment


@dataclass(frozen=True)
class Comparison:
    """One row less another on a column, over the seeds that both have.

    Attributes:
        difference: mean difference of the measure, in percent points.
        deviation: its sample standard deviation.
        seeds: number of seeds n.
        p_value: of the paired t-test, two-sided; None with fewer than two seeds or no spread at all.
        wins: seeds in which the first row is better.
    """

    first: str
    second: str
    column: str
    difference: float
    deviation: float
    seeds: int
    p_value: float | None
    wins: int


def compare_pairs(experiment: Experiment, results: Results) -> list[Comparison]:
    """Every pair of the experiment on every column where both rows have a finished seed in common."""
    values: dict[tuple[str, str], dict[int, float]] = {}
    for cell in experiment.cells():
        outcome = results.outcomes.get(cell.key)
        if outcome is not None and outcome.metrics.get(experiment.measure) is not None:
            values.setdefault((cell.row, cell.column), {})[cell.seed] = 100 * outcome.metrics[experiment.measure]
    found = []
    for first, second in experiment.pairs:
        for column in experiment.columns:
            one, other = values.get((first, column.name), {}), values.get((second, column.name), {})
            differences = [one[seed] - other[seed] for seed in one if seed in other]
            if differences:
                found.append(_compare(first, second, column.name, differences))
    return found


def pair_lines(experiment: Experiment, results: Results) -> list[str]:
    """The comparisons as a Markdown table; nothing where there is none."""
    comparisons = compare_pairs(experiment, results)
    if not comparisons:
        return []
    lines = [
        "Paired over seeds, first row less second, in percent points; p of the two-sided paired t-test:",
        "",
        "| first | second | column | difference | seeds | first is better in | p |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in comparisons:
        p_value = "–" if each.p_value is None else f"{each.p_value:.2g}"
        lines.append(
            f"| {each.first} | {each.second} | {each.column} | {each.difference:+.2f} ± {each.deviation:.2f} "
            f"| {each.seeds} | {each.wins} | {p_value} |"
        )
    return [*lines, ""]


def _compare(first: str, second: str, column: str, differences: list[float]) -> Comparison:
    mean, deviation = mean_and_deviation(differences)
    p_value = None
    if deviation > 0:
        from scipy.stats import ttest_1samp

        p_value = float(ttest_1samp(differences, 0.0).pvalue)
    wins = sum(difference > 0 for difference in differences)
    return Comparison(first, second, column, mean, deviation, len(differences), p_value, wins)
