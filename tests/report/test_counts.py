import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.report import counts
from gpnn.report.counts import MAX_CLASSES, confusion, count_predictions, largest_classes


def test_rows_are_true_classes():
    target, given = torch.tensor([0, 0, 2, 2, 2]), torch.tensor([0, 1, 2, 2, 0])
    assert confusion(target, given, torch.arange(3), 3).tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 2, 0]]
    assert confusion(target, given, torch.tensor([0, 2]), 3).tolist() == [[1, 0, 1], [1, 2, 0]]


def test_the_largest_classes_keep_their_order():
    counts = torch.tensor([5, 1, *[3] * MAX_CLASSES])
    assert largest_classes(counts).tolist() == [0, *range(2, MAX_CLASSES + 1)]


class Shares:
    """Notes the counts that a process hands over to be summed."""

    def __init__(self) -> None:
        self.counts: list[torch.Tensor] = []

    def note(self, counts: torch.Tensor) -> torch.Tensor:
        self.counts.append(counts)
        return counts


def splits_of(nodes: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"test": nodes[nodes % 2 == 0], "val": nodes[nodes % 2 == 1], "train": nodes[:0]}


@given(st.integers(1, 40), st.booleans(), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_counts_of_shares_add_up_to_the_whole(num_nodes, several, seed):
    """What `all_reduce` is given in each half of the nodes sums to what it is given for all of them."""
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.rand(num_nodes, 3, generator=generator)
    y = (torch.rand(num_nodes, 3, generator=generator) > 0.5).float() if several else torch.arange(num_nodes) % 3
    whole = Shares()
    count_predictions(probabilities, y, splits_of(torch.arange(num_nodes)), whole.note)
    half = num_nodes // 2
    parts: list[Shares] = []
    for own in (slice(0, half), slice(half, num_nodes)):
        share, remembered = Shares(), iter(whole.counts)

        def all_reduce(counts, share=share, remembered=remembered):
            share.note(counts)
            return next(remembered)

        nodes = torch.arange(num_nodes)[own]
        local = {name: chosen - own.start for name, chosen in splits_of(nodes).items()}
        count_predictions(probabilities[own], y[own], local, all_reduce)
        parts.append(share)
    for first, second, all_of_them in zip(parts[0].counts, parts[1].counts, whole.counts, strict=True):
        torch.testing.assert_close(first + second, all_of_them)


def test_training_nodes_are_counted_where_there_are_no_others():
    probabilities, y = torch.eye(3), torch.arange(3)
    none, all_nodes = torch.empty(0, dtype=torch.long), torch.arange(3)
    found = count_predictions(probabilities, y, {"test": none, "val": none, "train": all_nodes})
    assert list(found.classes) == ["training"]
    assert count_predictions(probabilities, y, {"test": none, "val": none, "train": none}) is None


def test_edges_between_subgraphs_are_counted_by_chunks(monkeypatch):
    monkeypatch.setattr(counts, "CHUNK", 3)
    chain = Graph([0, 1, 2, 3], [1, 2, 3, 4], num_nodes=5).to_undirected()
    assert counts.count_between(chain, torch.tensor([0, 0, 1, 1, 1]), 2).tolist() == [[2, 1], [1, 4]]
