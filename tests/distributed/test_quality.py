"""Processes that know their own subgraphs only count what one that knows all would measure."""

import pytest
import torch

import gpnn
from tests.oracle.sharded_cases import quality_case

FIGURES = ("num_parts", "edge_cut", "balance", "edge_balance", "num_cut_edges", "num_cut_nodes", "num_empty")
COLUMNS = ("sizes", "edge_ends", "halo", "conductance", "train_labels")


def random_graph(seed: int) -> tuple[gpnn.Graph, gpnn.Partition]:
    """Forty nodes with parallel edges and self-loops in seven subgraphs, one of them empty."""
    generator = torch.Generator().manual_seed(seed)
    src, dst = torch.randint(40, (2, 130), generator=generator)
    labels = torch.randint(6, (40,), generator=generator)
    return gpnn.Graph(src, dst, num_nodes=40), gpnn.Partition(labels + (labels > 2), num_parts=7)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_counts_are_those_of_the_whole(processes, size):
    for seed in range(3):
        graph, part = random_graph(seed)
        train = torch.arange(0, 40, 3)
        whole = part.quality(graph, torch.isin(torch.arange(40), train))
        parts = sorted(zip(*(getattr(whole, name) for name in COLUMNS)))
        for found in processes(quality_case, graph.src, graph.dst, part.labels, train, size=size):
            for name in FIGURES:
                assert getattr(found, name) == pytest.approx(getattr(whole, name)), name
            ours = sorted(zip(*(getattr(found, name) for name in COLUMNS)))  # numbered in the node order
            torch.testing.assert_close(torch.tensor(ours), torch.tensor(parts))
