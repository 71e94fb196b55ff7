"""Compiled loops of the table from ids to rows: open addressing, slots hold rows, -1 where empty."""

import numpy as np
from numba import njit

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of splitmix64


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
