"""Compiled step of the broadcast problem: which sources each node has heard of, as bits of uint64 words."""

import numpy as np
from numba import njit

_ONE_IN_2 = np.uint64(0x5555555555555555)
_TWO_IN_4 = np.uint64(0x3333333333333333)
_FOUR_IN_8 = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)
_S1, _S2, _S4, _S56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@njit(cache=True)
def step(heard, missing, fresh, receivers, ptr, senders, num_real):  # type: ignore[no-untyped-def]
    """Send one synchronous step; return how many (source, real node) pairs it added.

    `heard` [N, W]: the sources that reached each node. `missing` [N]: how many more may reach it; a node that
    misses none is passed over. Receiver i hears `senders[ptr[i]:ptr[i + 1]]`. `fresh` [n, W] is room for the
    new rows: all messages of a step are sent before any is read. Nodes from `num_real` on are virtual.
    """
    for i in range(len(receivers)):
        if missing[receivers[i]] > 0:
            fresh[i] = heard[receivers[i]]
            for at in range(ptr[i], ptr[i + 1]):
                sender = senders[at]
                for word in range(heard.shape[1]):
                    fresh[i, word] |= heard[sender, word]
    total = 0
    for i in range(len(receivers)):
        node = receivers[i]
        if missing[node] > 0:
            gained = 0
            for word in range(heard.shape[1]):
                gained += _count_bits(fresh[i, word] ^ heard[node, word])
                heard[node, word] = fresh[i, word]
            missing[node] -= gained
            if node < num_real:
                total += gained
    return total


@njit(cache=True)
def _count_bits(word):  # type: ignore[no-untyped-def]
    if word == 0:
        return 0
    word = word - ((word >> _S1) & _ONE_IN_2)
    word = (word & _TWO_IN_4) + ((word >> _S2) & _TWO_IN_4)
    word = (word + (word >> _S4)) & _FOUR_IN_8
    return np.int64((word * _BYTES) >> _S56)
