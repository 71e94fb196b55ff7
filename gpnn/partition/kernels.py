"""Compiled loops of the partitioners and of their quality measures."""

import numpy as np
from numba import njit

from gpnn.csr_kernel import unite

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE, _WORD = np.uint64(1), np.uint64(0xFFFFFFFF)


def stream(seed: int) -> np.ndarray:
    """The state of a stream, `[1]`: :func:`below` advances it in place."""
    return np.array([np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]], np.uint64)


@njit(cache=True, nogil=True)
def below(state, bound):  # type: ignore[no-untyped-def]
    """A random integer in `[0, bound)`, for bounds under 2³²; the bias is under 2⁻³² · bound."""
    state[0] += _GAMMA
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    z = z ^ (z >> np.uint64(31))
    return np.int64(((z >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def shuffle(state, values, length):  # type: ignore[no-untyped-def]
    """Permute `values[:length]` in place, every permutation equally likely (Fisher and Yates)."""
    for i in range(length - 1, 0, -1):
        j = below(state, i + 1)
        values[i], values[j] = values[j], values[i]


@njit(cache=True, nogil=True)
def grow(ptr, index, seeds, state):  # type: ignore[no-untyped-def]
    """Labels `[N]` (-1 where no seed reaches), and the buffer of the queues `[N]` for reuse.

    A node enters one queue once, so the queues are linked lists through one array.
    """
    num_nodes, num_parts = len(ptr) - 1, len(seeds)
    labels = np.full(num_nodes, -1, np.int32)
    following = np.empty(num_nodes, np.int32)
    head = seeds.astype(np.int32)
    tail = seeds.astype(np.int32)
    for part in range(num_parts):
        labels[seeds[part]] = part
    active = np.arange(num_parts).astype(np.int32)
    num_active = num_parts
    while num_active:
        shuffle(state, active, num_active)
        kept = 0
        for i in range(num_active):
            part = active[i]
            node = head[part]
            for e in range(ptr[node], ptr[node + 1]):
                child = index[e]
                if labels[child] < 0:
                    labels[child] = part
                    following[tail[part]] = child
                    tail[part] = child
            if node != tail[part]:
                head[part] = following[node]
                active[kept] = part
                kept += 1
        num_active = kept
    return labels, following


@njit(cache=True, nogil=True)
def assign_to_smallest(labels, num_parts):  # type: ignore[no-untyped-def]
    """Assign every unlabelled node to the part that is smallest now (the first of several)."""
    smallest = np.argmin(_sizes(labels, num_parts))
    for node in range(len(labels)):
        if labels[node] < 0:
            labels[node] = smallest


def assign_components(
    ptr: np.ndarray, index: np.ndarray, labels: np.ndarray, parent: np.ndarray, num_parts: int
) -> None:
    """Assign each component of unlabelled nodes, largest first, to the part that is smallest then.

    Components of equal weight go by their first node, equal parts by their number. `parent` `[N]` is scratch.
    """
    weight = _find_components(ptr, index, labels, parent)
    order = np.argsort(-weight, kind="stable")
    _place_components(labels, parent, weight, order, _sizes(labels, num_parts))


@njit(cache=True, nogil=True)
def _find_components(ptr, index, labels, parent):  # type: ignore[no-untyped-def]
    """The number of nodes of each component of unlabelled nodes, by its first node, `[C]`.

    `parent` becomes that first node, and its label −2 − c, where c is the component's number.
    """
    for node in range(len(labels)):
        parent[node] = node
    for node in range(len(labels)):
        if labels[node] < 0:
            for e in range(ptr[node], ptr[node + 1]):
                if labels[index[e]] < 0:
                    unite(parent, node, np.int64(index[e]))
    count = 0
    for node in range(len(labels)):
        if labels[node] < 0:
            parent[node] = parent[parent[node]]  # a root comes before its members
            if parent[node] == node:
                labels[node] = -2 - count
                count += 1
    weight = np.zeros(count, np.int64)
    for node in range(len(labels)):
        if labels[node] < 0:
            weight[-2 - labels[parent[node]]] += 1
    return weight


@njit(cache=True, nogil=True)
def _place_components(labels, parent, weight, order, size):  # type: ignore[no-untyped-def]
    """Label the nodes of the components: in `order` `[C]` each joins the part of least `size` `[K]`, which grows."""
    heap = np.arange(len(size))  # the parts, smallest first, as a binary heap
    for at in range(len(size) // 2 - 1, -1, -1):
        _sink_part(heap, size, np.int64(at))
    part_of = np.empty(len(weight), np.int64)
    for component in order:
        part_of[component] = heap[0]
        size[heap[0]] += weight[component]
        _sink_part(heap, size, np.int64(0))
    for node in range(len(labels)):
        if labels[node] == -1:
            labels[node] = labels[parent[node]]  # a root comes before its members
        elif labels[node] < -1:
            labels[node] = part_of[-2 - labels[node]]


@njit(cache=True, nogil=True)
def _sink_part(heap, size, at):  # type: ignore[no-untyped-def]
    """Move the part at `at` down until no smaller one is below it; equal parts go by their number."""
    part = heap[at]
    while 2 * at + 1 < len(heap):
        down = 2 * at + 1
        if down + 1 < len(heap):
            left, right = heap[down], heap[down + 1]
            if size[right] < size[left] or (size[right] == size[left] and right < left):
                down += 1
        other = heap[down]
        if size[part] < size[other] or (size[part] == size[other] and part < other):
            break
        heap[at] = other
        at = down
    heap[at] = part


@njit(cache=True, nogil=True)
def _sizes(labels, num_parts):  # type: ignore[no-untyped-def]
    sizes = np.zeros(num_parts, np.int64)
    for label in labels:
        if label >= 0:
            sizes[label] += 1
    return sizes


@njit(cache=True, nogil=True)
def tally(ptr, index, labels, num_parts):  # type: ignore[no-untyped-def]
    """Per part `[K]`: edge ends, cut edges, halo rows; and the numbers of cut edges and of cut nodes."""
    num_nodes = len(ptr) - 1
    ends = np.zeros(num_parts, np.int64)
    crossing = np.zeros(num_parts, np.int64)
    halo = np.zeros(num_parts, np.int64)
    last = np.full(num_parts, -1, np.int64)  # the sender last counted in each part's halo
    touched = np.zeros(num_nodes, np.bool_)
    num_cut = 0
    for node in range(num_nodes):
        own = labels[node]
        ends[own] += ptr[node + 1] - ptr[node]
        for e in range(ptr[node], ptr[node + 1]):
            other = labels[index[e]]
            ends[other] += 1
            if other == own:
                continue
            num_cut += 1
            crossing[own] += 1
            crossing[other] += 1
            touched[node] = True
            touched[index[e]] = True
            if last[other] != node:
                last[other] = node
                halo[other] += 1
    return ends, crossing, halo, num_cut, touched.sum()


@njit(cache=True, nogil=True)
def adopt_labels(ptr, index, labels, closed, out, seed, number, sample):  # type: ignore[no-untyped-def]
    """out[v] = the label that most of v's neighbours have, if more have it than v's own; half of the nodes per round.

    Of more than `sample` neighbours, `sample` evenly spaced ones are counted. Labels in `closed` `[L]` accept no new
    nodes. Ties are broken by a hash of (label, seed), the same for all nodes, so that neighbours choose alike.
    """
    near, votes = np.empty(sample, np.int64), np.empty(sample, np.int64)
    for node in range(len(labels)):
        own, first, count = labels[node], ptr[node], ptr[node + 1] - ptr[node]
        out[node] = own
        if count == 0 or _hash(node ^ number) & _ONE:
            continue
        found, kept = 0, 0
        for slot in range(min(count, sample)):
            label = labels[index[first + (slot * count // sample if count > sample else slot)]]
            kept += label == own
            at = 0
            while at < found and near[at] != label:
                at += 1
            if at == found:
                near[at], votes[at] = label, 0
                found += 1
            votes[at] += 1
        best, chosen = np.int64(-1), np.int64(-1)
        for at in range(found):
            score = votes[at] * 1024 + np.int64(_hash(near[at] ^ seed) >> np.uint64(22))
            if (near[at] == own or not closed[near[at]]) and (score, near[at]) > (best, chosen):
                best, chosen = score, near[at]
        if best >= (kept + 1) * 1024:
            out[node] = chosen


@njit(cache=True, nogil=True)
def _hash(value):  # type: ignore[no-untyped-def]
    """The 32-bit hash "lowbias32" (Wellons 2018) of the low 32 bits, as uint64."""
    x = np.uint64(value) & _WORD
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(0x7FEB352D)) & _WORD
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(0x846CA68B)) & _WORD
    return x ^ (x >> np.uint64(16))
