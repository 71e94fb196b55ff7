"""Compiled loops: edges scattered into buckets and sorted by row; a table from ids to rows; routes in ego networks.

The table uses open addressing: slots hold rows, -1 where empty.
"""

import numpy as np
from numba import njit

SHORT = 48  # entries of a row that insertion sorts as fast as anything
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of splitmix64


@njit(cache=True, nogil=True)
def count_buckets(rows, shift, counts):  # type: ignore[no-untyped-def]
    """Add the edges of each bucket of rows."""
    for row in rows:
        counts[row >> shift] += 1


@njit(cache=True, nogil=True)
def scatter(rows, columns, shift, cursor, out_column, out_row, out_edge):  # type: ignore[no-untyped-def]
    """Write each edge at its bucket's cursor: its column, its row within the bucket, and its number where wanted."""
    mask = (1 << shift) - 1
    for e in range(len(rows)):
        row = rows[e]
        at = cursor[row >> shift]
        cursor[row >> shift] = at + 1
        out_column[at] = columns[e]
        out_row[at] = row & mask
        if len(out_edge):
            out_edge[at] = e


@njit(cache=True, nogil=True)
def order_rows(ptr, key, order):  # type: ignore[no-untyped-def]
    """Sort the entries of each row by `key`, equal ones in their order: permutes `key` and `order` in place.

    An empty `order` stands for none. Runs of up to `SHORT` entries are sorted by insertion, then merged: numba's own
    sort takes seconds to compile.
    """
    longest = 0
    for row in range(len(ptr) - 1):
        longest = max(longest, ptr[row + 1] - ptr[row])
    spare = np.empty(longest if longest > SHORT else 0, key.dtype)
    spare_order = np.empty(len(spare) if len(order) else 0, order.dtype)
    for row in range(len(ptr) - 1):
        begin, end = ptr[row], ptr[row + 1]
        for first in range(begin, end, SHORT):
            _insert(key, order, first, min(first + SHORT, end))
        width = SHORT
        while width < end - begin:
            for first in range(begin, end - width, 2 * width):
                _merge(key, order, first, first + width, min(first + 2 * width, end), spare, spare_order)
            width *= 2


@njit(cache=True, nogil=True)
def _insert(key, order, begin, end):  # type: ignore[no-untyped-def]
    """Sort `key[begin:end]` by insertion, and `order` with it unless it is empty."""
    for at in range(begin + 1, end):
        value, to = key[at], at
        while to > begin and key[to - 1] > value:
            key[to] = key[to - 1]
            to -= 1
        key[to] = value
        if len(order):
            number = order[at]
            for back in range(at, to, -1):
                order[back] = order[back - 1]
            order[to] = number


@njit(cache=True, nogil=True)
def _merge(key, order, begin, middle, end, spare, spare_order):  # type: ignore[no-untyped-def]
    """Merge two sorted runs, of equal keys the first run's first; `spare` is as long as the first run or longer."""
    for at in range(begin, middle):
        spare[at - begin] = key[at]
        if len(order):
            spare_order[at - begin] = order[at]
    left, right, to = 0, middle, begin
    while left < middle - begin:
        if right < end and key[right] < spare[left]:
            key[to] = key[right]
            if len(order):
                order[to] = order[right]
            right += 1
        else:
            key[to] = spare[left]
            if len(order):
                order[to] = spare_order[left]
            left += 1
        to += 1


@njit(cache=True, nogil=True)
def merge_rows(ptr, key, first):  # type: ignore[no-untyped-def]
    """Keep one of equal keys of a row: moves them to the front of `key`, in place, and `ptr` with them.

    `first` receives where each that was kept came from; the number kept is returned.
    """
    used, begin = 0, ptr[0]
    for row in range(len(ptr) - 1):
        end, start = ptr[row + 1], used
        for at in range(begin, end):
            if used > start and key[used - 1] == key[at]:
                continue
            key[used] = key[at]
            if len(first):
                first[used] = at
            used += 1
        begin = end
        ptr[row + 1] = used
    return used


@njit(cache=True, nogil=True)
def mix(key):  # type: ignore[no-untyped-def]
    """A hash of 64 bits."""
    z = np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def mix_bytes(content, begin, end):  # type: ignore[no-untyped-def]
    """A hash of the bytes of one value (FNV-1a, mixed)."""
    z = np.uint64(0xCBF29CE484222325)
    for at in range(begin, end):
        z = (z ^ np.uint64(content[at])) * np.uint64(0x100000001B3)
    return mix(z)


@njit(cache=True, nogil=True)
def insert_numbers(ids, slots):  # type: ignore[no-untyped-def]
    """Enter each id's row; the first row whose id is there already, and the row that has it, or -1 twice."""
    mask = np.uint64(len(slots) - 1)
    for row in range(len(ids)):
        at = mix(ids[row]) & mask
        while slots[at] >= 0:
            if ids[slots[at]] == ids[row]:
                return row, np.int64(slots[at])
            at = (at + np.uint64(1)) & mask
        slots[at] = row
    return np.int64(-1), np.int64(-1)


@njit(cache=True, nogil=True)
def find_numbers(keys, ids, slots, out):  # type: ignore[no-untyped-def]
    """Write the row of each key; the first key that is not an id, or -1."""
    mask = np.uint64(len(slots) - 1)
    for number in range(len(keys)):
        at = mix(keys[number]) & mask
        row = slots[at]
        while row >= 0 and ids[row] != keys[number]:
            at = (at + np.uint64(1)) & mask
            row = slots[at]
        if row < 0:
            return number
        out[number] = row
    return -1


@njit(cache=True, nogil=True)
def find_direct(keys, low, table, out):  # type: ignore[no-untyped-def]
    """The same through `table`, which has the row of each number from `low` on, -1 where it is not an id."""
    for number in range(len(keys)):
        at = keys[number] - low
        if at < 0 or at >= len(table) or table[at] < 0:
            return number
        out[number] = table[at]
    return -1


@njit(cache=True, nogil=True)
def find_rows(keys, num_rows, out):  # type: ignore[no-untyped-def]
    """The same where an id is the number of its row."""
    for number in range(len(keys)):
        if keys[number] < 0 or keys[number] >= num_rows:
            return number
        out[number] = keys[number]
    return -1


@njit(cache=True, nogil=True)
def _equal(first, begin, end, second, start, stop):  # type: ignore[no-untyped-def]
    if end - begin != stop - start:
        return False
    for at in range(end - begin):  # noqa: SIM110
        if first[begin + at] != second[start + at]:
            return False
    return True


@njit(cache=True, nogil=True)
def insert_text(ptr, content, slots):  # type: ignore[no-untyped-def]
    """As `insert_numbers`, for text: row r's id is `content[ptr[r]:ptr[r + 1]]`."""
    mask = np.uint64(len(slots) - 1)
    for row in range(len(ptr) - 1):
        at = mix_bytes(content, ptr[row], ptr[row + 1]) & mask
        while slots[at] >= 0:
            other = np.int64(slots[at])
            if _equal(content, ptr[row], ptr[row + 1], content, ptr[other], ptr[other + 1]):
                return row, other
            at = (at + np.uint64(1)) & mask
        slots[at] = row
    return np.int64(-1), np.int64(-1)


@njit(cache=True, nogil=True)
def find_text(key_ptr, keys, ptr, content, slots, out):  # type: ignore[no-untyped-def]
    """As `find_numbers`, for text."""
    mask = np.uint64(len(slots) - 1)
    for number in range(len(key_ptr) - 1):
        begin, end = key_ptr[number], key_ptr[number + 1]
        at = mix_bytes(keys, begin, end) & mask
        row = np.int64(slots[at])
        while row >= 0 and not _equal(keys, begin, end, content, ptr[row], ptr[row + 1]):
            at = (at + np.uint64(1)) & mask
            row = np.int64(slots[at])
        if row < 0:
            return number
        out[number] = row
    return -1


@njit(cache=True, nogil=True)
def local_eccentricity(ptr, index, length, hops):  # type: ignore[no-untyped-def]
    """For each node the largest length of a shortest route within its ego network of `hops` hops, `[N]`.

    `ptr`, `index`, `length`: the neighbours as compressed rows, and how long the edge to each is. Lengths are relaxed
    in breadth-first order until none shrinks.
    """
    num_nodes = len(ptr) - 1
    found = np.zeros(num_nodes)
    hop = np.full(num_nodes, -1, np.int64)
    route = np.full(num_nodes, np.inf)
    ball = np.empty(num_nodes, np.int64)
    for source in range(num_nodes):
        ball[0], hop[source], route[source] = source, 0, 0.0
        head, size = 0, 1
        while head < size:
            node = ball[head]
            head += 1
            for at in range(ptr[node], ptr[node + 1]):
                if hop[node] < hops and hop[index[at]] < 0:
                    hop[index[at]] = hop[node] + 1
                    ball[size] = index[at]
                    size += 1
        changed = True
        while changed:
            changed = False
            for node in ball[:size]:
                for at in range(ptr[node], ptr[node + 1]):
                    if hop[index[at]] >= 0 and route[node] + length[at] < route[index[at]]:
                        route[index[at]] = route[node] + length[at]
                        changed = True
        for node in ball[:size]:
            found[source] = max(found[source], route[node])
            hop[node], route[node] = -1, np.inf
    return found
