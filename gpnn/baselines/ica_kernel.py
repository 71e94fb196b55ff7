"""The loop of iterative classification."""

from numba import njit

from gpnn.partition.splitmix import shuffle


@njit(cache=True)
def sweep(ptr, index, weight, content, link, guess, nodes, scores, state):  # type: ignore[no-untyped-def]
    """Classify `nodes` once each, in a new random order, by `content` and the `guess` of their neighbours of the moment.

    `guess` `[N]`, `scores` `[N, c]`, the order of `nodes` and the stream `state` change in place.
    """
    shuffle(state, nodes, len(nodes))
    for node in nodes:
        scores[node] = content[node]
        for entry in range(ptr[node], ptr[node + 1]):
            scores[node] += weight[entry] * link[guess[index[entry]]]
        guess[node] = scores[node].argmax()
