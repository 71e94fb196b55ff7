"""Sums of decision trees' leaves, a range of rows each, compiled once and cached on disk."""

from numba import njit


@njit(cache=True, nogil=True)
def sum_trees(start, stop, columns, feature, threshold, left, right, value, output, out):  # type: ignore[no-untyped-def]
    """out[row, output[t]] += the value of the leaf of tree t that the row falls into.

    A node of a tree is a leaf where `left` is 0; else a row goes left where its column is at most the threshold.
    """
    for row in range(start, stop):
        for tree in range(len(output)):
            node = 0
            while left[tree, node] != 0:
                goes_left = columns[row, feature[tree, node]] <= threshold[tree, node]
                node = left[tree, node] if goes_left else right[tree, node]
            out[row, output[tree]] += value[tree, node]
