"""The compiled kernel of the force layout."""

import numpy as np
from numba import njit


@njit(cache=True)
def relax(places, src, dst, weight, mass, steps, gravity):  # type: ignore[no-untyped-def]
    """Move `places` [N, 2] for `steps` steps: nodes push by their masses over the distance, edges pull with weight · d.

    ForceAtlas2 (Jacomy et al. 2014) without its approximation: a node's mass is its share of edges, so that hubs keep
    others away and clusters part. All are drawn to 0. A node goes along its force over its mass, and no further than a
    bound that falls to zero.
    """
    n = len(places)
    force = np.empty_like(places)
    reach = np.sqrt(n) / 8
    for step in range(steps):
        for i in range(n):
            force[i, 0] = -gravity * mass[i] * places[i, 0]
            force[i, 1] = -gravity * mass[i] * places[i, 1]
        for i in range(n):
            x, y = places[i, 0], places[i, 1]
            fx, fy = 0.0, 0.0
            for j in range(i):
                dx, dy = x - places[j, 0], y - places[j, 1]
                push = mass[i] * mass[j] / (dx * dx + dy * dy + 1e-4)
                fx += dx * push
                fy += dy * push
                force[j, 0] -= dx * push
                force[j, 1] -= dy * push
            force[i, 0] += fx
            force[i, 1] += fy
        for e in range(len(src)):
            i, j = src[e], dst[e]
            dx = weight[e] * (places[i, 0] - places[j, 0])
            dy = weight[e] * (places[i, 1] - places[j, 1])
            force[i, 0] -= dx
            force[i, 1] -= dy
            force[j, 0] += dx
            force[j, 1] += dy
        bound = reach * (1 - step / steps) ** 1.5
        for i in range(n):
            length = np.sqrt(force[i, 0] ** 2 + force[i, 1] ** 2) / mass[i] + 1e-12
            scale = min(length, bound) / (length * mass[i])
            places[i, 0] += force[i, 0] * scale
            places[i, 1] += force[i, 1] * scale
