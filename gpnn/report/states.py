"""Where the model puts the nodes: t-SNE of what it computed for them."""

from __future__ import annotations

import numpy as np
import torch

from gpnn.report.content import Chart, Section
from gpnn.report.drawing import LOOK
from gpnn.report.points import coloured_points, placed_points
from gpnn.report.record import Record

MAX_NODES = 1500
STEPS = 300


def states(record: Record) -> Section | None:
    """t-SNE of a sample of the nodes' states, in the colours of the drawing; None where there are none to show."""
    if record.states is None or record.states.shape[0] < 4:
        return None
    nodes = sample(record.states.shape[0], record.seed)
    places = embed(record.states[nodes].float().cpu().numpy(), record.seed)
    if places is None:
        return None
    lead = f"t-SNE (van der Maaten and Hinton 2008) of the {record.states_name}"
    lead += f" of {len(nodes):,} nodes drawn at random." if len(nodes) < record.states.shape[0] else " of all nodes."
    lead += " Near points are alike; distances between far groups mean little."
    views = coloured_points(record, nodes)
    first = [name for name in ("true class", "prediction") if name in views][:1]
    views = {name: views[name] for name in [*first, *(name for name in views if name not in first)]}
    where = placed_points(record, nodes, places)
    chart = Chart("tsne", "t-SNE", f"t-SNE of {len(nodes):,} nodes.", views, points=where, **LOOK)
    return Section("states", "States", lead, [chart])


def sample(num_nodes: int, seed: int) -> torch.Tensor:
    """At most 1,500 nodes, drawn without replacement, in ascending order."""
    if num_nodes <= MAX_NODES:
        return torch.arange(num_nodes)
    drawn = np.random.default_rng(seed).choice(num_nodes, MAX_NODES, replace=False)
    return torch.from_numpy(np.sort(drawn))


def embed(states: np.ndarray, seed: int) -> np.ndarray | None:
    """Positions [n, 2] by t-SNE from 32 principal components; None of states that are all alike or not finite."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    if not np.isfinite(states).all() or np.ptp(states, axis=0).max() < 1e-9:
        return None
    with threadpool_limits(1):  # two threads on busy cores wait for each other, and sums would depend on them
        if states.shape[1] > 32:
            states = PCA(min(32, len(states)), random_state=seed).fit_transform(states)
        start = "pca" if states.shape[1] > 1 else "random"
        perplexity = min(30.0, (len(states) - 1) / 3)
        return TSNE(perplexity=perplexity, init=start, max_iter=STEPS, random_state=seed, n_jobs=1).fit_transform(
            states
        )
