"""Tables read by plain loops: what ids, labels and columns mean, said a second time."""

from typing import Any


def match_ids(ids: list[Any], ends: list[Any]) -> list[int] | None:
    """The place of each end among the ids, by their text; None where one is missing."""
    place = {str(name): number for number, name in enumerate(ids)}
    found = [place.get(str(end)) for end in ends]
    return None if None in found else found  # type: ignore[return-value]


def number_labels(labels: list[Any]) -> tuple[list[int], list[Any]]:
    """The class of each label, -1 for an empty one or −1, and the classes in order."""
    known = sorted({label for label in labels if label not in ("", -1)})
    return [known.index(label) if label in known else -1 for label in labels], known


def encode(columns: dict[str, list[Any]]) -> list[list[float]]:
    """Features row by row: numbers less their mean over their deviation, a one for the category among all."""
    rows: list[list[float]] = [[] for _ in next(iter(columns.values()))]
    for values in columns.values():
        if all(isinstance(value, int | float) for value in values):
            mean = sum(values) / len(values)
            deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5 or 1.0
            for row, value in zip(rows, values):
                row.append((value - mean) / deviation)
        else:
            for category in sorted({value for value in values if value != ""}):
                for row, value in zip(rows, values):
                    row.append(float(value == category))
    return rows
