"""ShardedPhase: a process's share of a phase, in two blocks where it reads rows that other processes own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gpnn.distributed.halo_exchange import HaloExchange
from gpnn.engine.block import Block, Messages
from gpnn.engine.lowered_phase import LoweredPhase, join_rows


@dataclass(frozen=True, eq=False)
class ShardedPhase(LoweredPhase):
    """A lowered phase whose senders may live elsewhere.

    Attributes:
        exchange: brings the rows that are read and owned elsewhere; None where no process reads any.
        num_own: number of rows that this process owns.
    """

    exchange: HaloExchange | None = None
    num_own: int = 0

    def prepare(self) -> None:
        """Build the blocks that running needs; collective, where weights need the degrees of senders elsewhere."""
        _ = self.row_index, self.interior_and_boundary if self.exchanges_steps else self.whole

    @property
    def exchanges_steps(self) -> bool:
        """Whether each repeat exchanges rows; where messages are held, one exchange serves all repeats."""
        return self.exchange is not None and (self.phase.held is None or self.repeat == 1)

    @cached_property
    def interior_and_boundary(self) -> tuple[Block, Block]:
        """The rows that receive messages from own rows only, and those that receive one from another process.

        The inputs of the boundary block end in the received rows, in the order in which they come.
        """
        messages = self.messages()
        waits = torch.zeros(self.num_own, dtype=torch.bool)  # which own rows need a received row
        waits[messages.dst[messages.src >= self.num_own]] = True
        node_waits, edge_waits = waits[messages.nodes], waits[messages.dst]
        interior = self._part(messages, ~node_waits, ~edge_waits)
        return interior, self._part(messages, node_waits, edge_waits)

    @cached_property
    def row_index(self) -> Tensor:
        """The rows that the phase writes, `[n]`: those of the interior, then those of the boundary."""
        if not self.exchanges_steps:
            return self.phase.nodes.to(self.builder.device)
        return join_rows([block.rows for block in self.interior_and_boundary], self.builder.device)

    def read(self, state: Tensor, received: Tensor) -> Tensor:
        """The inputs of the boundary block, `[m, s]`: rows of `state`, then the received ones."""
        block = self.interior_and_boundary[1]
        own = block.num_inputs - len(received)
        if isinstance(block.inputs, slice):
            return torch.cat([state[block.inputs.start : block.inputs.start + own], received])
        return torch.cat([state.index_select(0, block.inputs[:own]), received])

    def read_held(self, state: Tensor, received: Tensor) -> Tensor:
        """The inputs of the whole phase, `[m, s]`: rows of `state`, and the received ones among them."""
        rows, first = self._own_inputs
        own = state.index_select(0, rows)
        return torch.cat([own[:first], received, own[first:]])

    @cached_property
    def _own_inputs(self) -> tuple[Tensor, int]:
        """The own rows that the whole phase reads, `[m − r]`, and how many of them come before the received rows."""
        inputs = join_rows([self.whole.inputs], self.builder.device)
        own = inputs < self.num_own
        return inputs[own], int((~own).int().argmax()) if not bool(own.all()) else len(inputs)

    def _part(self, messages: Messages, nodes: Tensor, edges: Tensor) -> Block:
        return self.builder.build(messages.select(nodes.nonzero().flatten(), edges.nonzero().flatten()))
