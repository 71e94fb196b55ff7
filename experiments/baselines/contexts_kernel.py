"""The loop of Planetoid's context loss over free embeddings."""

import numpy as np
from numba import njit


@njit(cache=True, fastmath=True)
def descend_triples(node, context_node, sign, order, embedding, context, rate):  # type: ignore[no-untyped-def]
    """One gradient step on −log σ(γ e_i · w_c) for each triple, in the given order; both tables change in place."""
    for at in order:
        own, other, gamma = embedding[node[at]], context[context_node[at]], sign[at]
        dot = np.float32(0)
        for column in range(len(own)):
            dot += own[column] * other[column]
        pull = rate * gamma / (np.float32(1) + np.exp(gamma * dot))
        for column in range(len(own)):
            before = own[column]
            own[column] += pull * other[column]
            other[column] += pull * before
