"""The loop of iterative classification."""

from numba import njit

from gpnn.partition.kernels import shuffle


@njit(cache=True)
def sweep(ptr, index, weight, content, link, guess, nodes, scores, state):  # type: ignore[no-untyped-def]
    """Classify `nodes` once each, in a new random order, by `content` and their neighbours' `guess` of the moment.

    `guess` `[N]`, `scores` `[N, c]`, the order of `nodes` and the stream `state` change in place.
    """
    shuffle(state, nodes, len(nodes))
    for node in nodes:
        own = scores[node]
        for each in range(len(own)):
            own[each] = content[node, each]
        for entry in range(ptr[node], ptr[node + 1]):
            received = link[guess[index[entry]]]
            for each in range(len(own)):
                own[each] += weight[entry] * received[each]
        best = 0
        for each in range(1, len(own)):
            if own[each] > own[best]:
                best = each
        guess[node] = best
