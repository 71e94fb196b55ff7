"""What is wrong with a phase: one compiled pass over its nodes and edges, no temporary of their size."""

from numba import njit

REPEATED_NODE, SILENT_RECEIVER, CROSSING_EDGE = 1, 2, 3
UNTOUCHED = -1


@njit(cache=True)
def find_fault(src, dst, edges, nodes, edge_ptr, node_ptr, owner):  # type: ignore[no-untyped-def]
    """The first fault as (code, id of the node or edge), or (0, 0).

    `owner` [N] is full of UNTOUCHED and left so. Meanwhile it says which block writes a node (b), or which
    single block reads a node that none writes (−2 − b).
    """
    fault = (0, 0)
    for block in range(len(node_ptr) - 1):
        for at in range(node_ptr[block], node_ptr[block + 1]):
            if owner[nodes[at]] != UNTOUCHED and fault[0] == 0:
                fault = (REPEATED_NODE, nodes[at])
            owner[nodes[at]] = block
    for block in range(len(edge_ptr) - 1):
        for at in range(edge_ptr[block], edge_ptr[block + 1]):
            if fault[0]:
                break
            sender, receiver = owner[src[edges[at]]], owner[dst[edges[at]]]
            if receiver < 0:
                fault = (SILENT_RECEIVER, dst[edges[at]])
            elif receiver != block or (sender != block and sender != UNTOUCHED and sender != -2 - block):
                fault = (CROSSING_EDGE, edges[at])
            elif sender == UNTOUCHED:
                owner[src[edges[at]]] = -2 - block
    for node in nodes:
        owner[node] = UNTOUCHED
    for edge in edges:
        owner[src[edge]] = UNTOUCHED
    return fault
