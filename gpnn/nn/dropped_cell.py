"""DroppedCell: a cell under the random masks of one pass."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gpnn.engine import Block, CellLike, Plan, Step
from gpnn.kernels import hash_key
from gpnn.nn.layers import MaskKey, drop_entries


class DroppedCell:
    """A cell, of whose change of a state each entry is dropped: h' = h + mask · (cell(h) − h).

    What a state holds is not lost (Semeniuta et al. 2016); a residual cell so has the dropout of its branch. The masks
    follow from the key, the step and the node, so that a step that is computed again sees the same ones.

    Args:
        cell: whose working state is its visible one, or holds more.
        p: probability that an entry is dropped.
        key: of the pass.
        plan: which node stands in each row.
    """

    random = False

    def __init__(self, cell: CellLike, p: float, key: MaskKey, plan: Plan) -> None:
        self.cell, self.p, self.key, self.nodes = cell, p, key, _nodes_by_row(plan)
        self.residual, self.local = cell.residual, cell.local
        self.start, self.finish = cell.start, cell.finish

    def parameters(self) -> Iterator[Tensor]:
        return self.cell.parameters()

    def advance(self, block: Block, inputs: Tensor, step: Step) -> Tensor:
        own, new = inputs[: block.num_rows], self.cell.advance(block, inputs, step)
        key = self.key._replace(nodes=self.nodes[block.rows])
        return own + drop_entries(new - own, self.p, key, hash_key(step.round, step.phase, step.repeat))


def _nodes_by_row(plan: Plan) -> Tensor:
    """The user's node in each plan row, `[N + V]`; virtual nodes have numbers after all others."""
    rows = torch.arange(plan.num_nodes + plan.num_virtual, device=plan.device) if plan.order is None else plan.order
    if plan.nodes is None:
        return rows
    virtual = plan.nodes.new_full((plan.num_virtual,), torch.iinfo(torch.int32).max)
    return torch.cat([plan.nodes, virtual])[rows]
