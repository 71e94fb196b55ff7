"""States: where a trained model puts the nodes, in two dimensions, and how well its classes are apart (Figure 2)."""

from __future__ import annotations

from experiments.harness.kinds.kind import Kind, Metrics
from experiments.harness.kinds.training import build_cell, read_config, shrink_training, train
from experiments.harness.settings import Settings
from gpnn.nn import GPNN


def run_states(settings: Settings, seed: int) -> Metrics:
    """A training's metrics, the silhouettes of its states, and their t-SNE in the plane.

    The silhouette of a node is (b − a) / max(a, b), a its mean distance to its own class and b to the nearest other
    (Rousseeuw 1987); the mean over all labelled nodes is 1 where classes are far apart and 0 where they overlap. It is
    taken of the states themselves and of the plane's points, which t-SNE pulls apart by design. "plane_x", "plane_y"
    and "plane_class" are the labelled nodes' points, in tenths, and classes.
    """
    import torch
    from sklearn.manifold import TSNE
    from sklearn.metrics import silhouette_score

    built = build_cell(settings, seed)
    result, clock = train(built)
    assert isinstance(built.model, GPNN)
    with torch.no_grad():
        found = built.model.states(built.data.get("x"), built.plan).cpu()
    known = built.data.y >= 0
    states, classes = found[known].numpy(), built.data.y[known].numpy()
    perplexity = min(30.0, len(states) / 4)
    plane = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(states)
    return {
        **result.metrics,
        **clock.metrics(),
        "silhouette": float(silhouette_score(states, classes)),
        "plane_silhouette": float(silhouette_score(plane, classes)),
        "plane_x": (10 * plane[:, 0]).round().astype(int).tolist(),
        "plane_y": (10 * plane[:, 1]).round().astype(int).tolist(),
        "plane_class": classes.tolist(),
    }


STATES = Kind(run_states, shrink_training, lambda settings: read_config(settings)[1])
