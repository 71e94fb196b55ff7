"""A table of nodes to search in: mistakes, doubts, predictions without a label, and what to label next."""

from __future__ import annotations

from gpnn.report.content import Search, Section
from gpnn.report.counts import SPLIT_NAMES
from gpnn.report.notable import LISTS, MAX_LISTED
from gpnn.report.record import NodeFacts, Record
from gpnn.text import percent

LONGEST = 60


def nodes(record: Record) -> Section | None:
    """The lists of notable nodes and the sample; None where nodes have several labels."""
    if record.notable is None:
        return None
    facts, lists = record.notable.facts, record.notable.lists
    groups = {name: _rows(facts, lists[name]) for name in LISTS if lists.get(name)}
    if record.sample is not None:
        some, number = record.sample.facts, record.sample.num_nodes
        name = "all nodes" if len(some.names) == number else f"{len(some.names):,} drawn at random"
        groups[name] = _rows(some, range(len(some.names)))
    if not groups:
        return None
    lead = (
        f"At most {MAX_LISTED} of each. Mistakes are among the held-out nodes. Worth a label next are nodes without "
        "one, where the model is unsure and many edges meet."
    )
    middle = ("probability", "second choice") if facts.numbers is None else ("low", "high")
    columns = ("node", "true", "prediction", *middle, "split", "subgraph", "edges")
    return Section("nodes", "Nodes", lead, [Search("Find a node", columns, groups)])


def _rows(facts: NodeFacts, places: range | list[int]) -> list[tuple[str, ...]]:
    return [_row(facts, place) for place in places]


def _row(facts: NodeFacts, place: int) -> tuple[str, ...]:
    split = int(facts.splits[place])
    where = "–" if facts.parts is None else str(int(facts.parts[place]))
    degree = "–" if facts.degrees is None else f"{int(facts.degrees[place]):,}"
    after = ("–" if split < 0 else list(SPLIT_NAMES.values())[split], where, degree)
    if facts.numbers is not None:
        values = [f"{value:.4g}" if value == value else "–" for value in facts.numbers[place].tolist()]
        return (_short(facts.names[place]), *values, *after)
    true, best = int(facts.y[place]), facts.probabilities[place].topk(min(2, facts.probabilities.shape[1]))
    first, *second = [_short(facts.classes[number]) for number in best.indices.tolist()]
    label = "–" if true < 0 else _short(facts.classes[true])
    also = f"{second[0]} ({percent(float(best.values[1]))})" if second else "–"
    return (_short(facts.names[place]), label, first, percent(float(best.values[0])), also, *after)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
