"""The compiled kernel of the force layout."""

import numpy as np
from numba import njit


@njit(cache=True)
def relax(places, src, dst, steps, gravity):  # type: ignore[no-untyped-def]
    """Move `places` [N, 2] for `steps` steps: all pairs push with 1/d, edges pull with d², all are drawn to 0.

    Fruchterman and Reingold (1991) in units in which an edge alone is one long; no node moves further in a step
    than a bound that falls to zero.
    """
    n = len(places)
    push = np.empty_like(places)
    reach = np.sqrt(n) / 8
    for step in range(steps):
        for i in range(n):
            push[i, 0] = -gravity * places[i, 0]
            push[i, 1] = -gravity * places[i, 1]
        for i in range(n):
            x, y = places[i, 0], places[i, 1]
            fx, fy = 0.0, 0.0
            for j in range(i):
                dx, dy = x - places[j, 0], y - places[j, 1]
                force = 1.0 / (dx * dx + dy * dy + 1e-4)
                fx += dx * force
                fy += dy * force
                push[j, 0] -= dx * force
                push[j, 1] -= dy * force
            push[i, 0] += fx
            push[i, 1] += fy
        for e in range(len(src)):
            i, j = src[e], dst[e]
            dx, dy = places[i, 0] - places[j, 0], places[i, 1] - places[j, 1]
            pull = np.sqrt(dx * dx + dy * dy)
            push[i, 0] -= dx * pull
            push[i, 1] -= dy * pull
            push[j, 0] += dx * pull
            push[j, 1] += dy * pull
        bound = reach * (1 - step / steps) ** 1.5
        for i in range(n):
            length = np.sqrt(push[i, 0] ** 2 + push[i, 1] ** 2) + 1e-12
            scale = min(length, bound) / length
            places[i, 0] += push[i, 0] * scale
            places[i, 1] += push[i, 1] * scale
