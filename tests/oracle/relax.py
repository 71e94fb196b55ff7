"""The force layout's steps, all pairs at once in numpy."""

import numpy as np


def slow_relax(
    places: np.ndarray,
    src: np.ndarray,
    dst: np.ndarray,
    weight: np.ndarray,
    mass: np.ndarray,
    *,
    steps: int,
    gravity: float,
) -> np.ndarray:
    places = places.copy()
    for step in range(steps):
        apart = places[:, None] - places[None]  # [N, N, 2]
        push = mass[:, None] * mass[None] / ((apart**2).sum(2) + 1e-4)
        force = (apart * push[..., None]).sum(1) - gravity * mass[:, None] * places
        pull = weight[:, None] * (places[src] - places[dst])
        np.add.at(force, src, -pull)
        np.add.at(force, dst, pull)
        move = force / mass[:, None]
        length = np.sqrt((move**2).sum(1)) + 1e-12
        bound = np.sqrt(len(places)) / 8 * (1 - step / steps) ** 1.5
        places += move * (np.minimum(length, bound) / length)[:, None]
    return places
