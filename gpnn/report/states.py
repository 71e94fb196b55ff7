"""Where the model puts the nodes: t-SNE of what it computed for them."""

from __future__ import annotations

import numpy as np

from gpnn.report.content import Chart, Section
from gpnn.report.drawing import LOOK
from gpnn.report.points import coloured_points, placed_points
from gpnn.report.shared_record import AnyRecord

STEPS = 300


def states(record: AnyRecord) -> Section | None:
    """t-SNE of a sample of the nodes' states, in the colours of the drawing; None where there are none to show."""
    found = record.sample
    if found is None or len(found.states) < 4:
        return None
    places = embed(found.states.float().cpu().numpy(), record.seed)
    if places is None:
        return None
    number = len(found.states)
    lead = f"t-SNE (van der Maaten and Hinton 2008) of the {found.name}"
    lead += f" of {number:,} nodes drawn at random." if number < found.num_nodes else " of all nodes."
    lead += " Near points are alike; distances between far groups mean little."
    views = coloured_points(found.facts)
    first = [name for name in ("true class", "prediction") if name in views][:1]
    views = {name: views[name] for name in [*first, *(name for name in views if name not in first)]}
    where = placed_points(found.facts, places)
    chart = Chart("tsne", "t-SNE", f"t-SNE of {number:,} nodes.", views, points=where, **LOOK)
    return Section("states", "States", lead, [chart])


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
