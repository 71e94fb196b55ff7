"""Scheduled: convolutions of PyTorch Geometric under any schedule."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from gpnn.engine import Block, Plan, Step, propagate
from gpnn.engine.propagate import Runner

EDGE_DATA = ("edge_type", "edge_weight", "edge_attr")
KNOWN = ("x", "edge_index", *EDGE_DATA, "x_0")  # arguments that a schedule can give
# convolutions of PyG that take these arguments and cannot be run phase by phase
UNFIT = {
    "CuGraphGATConv": "takes its edges as an EdgeIndex",
    "CuGraphRGCNConv": "takes its edges as an EdgeIndex",
    "CuGraphSAGEConv": "takes its edges as an EdgeIndex",
    "DNAConv": "has the states of all earlier layers as its input",
    "MeshCNNConv": "counts on four edges into each node, in their order",
    "PANConv": "returns a matrix beside the states",
    "WLConv": "returns colours, which are integers",
}


class Scheduled(nn.Module):
    """A convolution of PyG whose messages travel phase by phase as a plan says.

    In each step the convolution is called on the nodes that the phase reads and the edges that it sends over, and the
    rows of the nodes that the phase updates are kept: `state[nodes] = conv(state, edge_index[:, edges])[nodes]`. All
    other rows keep their state, so the convolution must give states as wide as it takes, unless the schedule is one
    phase that writes all nodes. What a convolution derives from its edges it derives from the phase's: the
    normalisation of `GCNConv` follows the degrees inside each phase (a plan's own `normalization` is not used), and
    self-loops that it adds are added in every phase.

    Edge types, weights and attributes are passed where the convolution's `forward` takes `edge_type`, `edge_weight` or
    `edge_attr`, or passes them on by `**kwargs` to one that does, and the initial states where it takes `x_0`. Dropout
    inside the convolution draws from torch's global generator: the streamed runner repeats its own draws in the
    backward pass, but does not draw what the fused one does. Batch normalisation sees one block at a time. `GPSConv`
    attends over the nodes that a phase reads, and must have the fused runner.

    Args:
        conv: the convolution; it must not cache its normalisation.
        local: promise that a node's output follows from its own state and those of its senders alone, so that the
            streamed runner may cut phases without blocks into chunks. True of `SAGEConv`, `GINConv`, `GATv2Conv`,
            `TransformerConv`, `RGCNConv`; not of `GCNConv`, which reads the senders' degrees, nor of several hops.

    Raises:
        ValueError: when it is no convolution that a schedule can call.

    >>> import gpnn
    >>> from torch_geometric.nn import SAGEConv
    >>> chain = gpnn.Graph([0, 1, 2], [1, 2, 3], num_nodes=4).to_undirected()
    >>> plan = gpnn.lower(chain, gpnn.schedule.partitioned(chain, [0, 0, 1, 1], rounds=2))
    >>> gpnn.nn.Scheduled(SAGEConv(8, 8))(torch.ones(4, 8), plan).shape
    torch.Size([4, 8])
    """

    def __init__(self, conv: nn.Module, *, local: bool = False) -> None:
        super().__init__()
        self.conv = conv
        self.local = local
        self.takes = _arguments(conv)
        self.attends = _attends(conv)

    @property
    def residual(self) -> bool:
        return "x_0" in self.takes

    @property
    def random(self) -> bool:
        return self.training

    def forward(
        self,
        x: Tensor,
        plan: Plan,
        edge_attr: Tensor | None = None,
        *,
        runner: str | Runner | None = None,
        collect: bool = False,
    ) -> Tensor | list[Tensor]:
        """The states after all rounds, `[N, d]`, in the user's order; with `collect` those after each round.

        Args:
            x: the states before the first round, `[N, d]`.
            plan: the graph's schedule, lowered.
            edge_attr: attributes of the graph's edges, `[E, a]`; edges of virtual nodes have zeros.
            runner: as in :func:`gpnn.engine.propagate`.
            collect: as in :func:`gpnn.engine.propagate`.
        """
        if self.attends and (runner not in (None, "fused") or plan.runners is not None):
            raise ValueError(
                "A convolution that attends over all rows of a phase must have `runner` fused. Got another."
            )
        if edge_attr is None:
            return propagate(self, plan, x, runner=runner, collect=collect)
        attributed = _Attributed(self, _checked(edge_attr, plan, self.takes))
        return propagate(attributed, plan, x, runner=runner, collect=collect)

    def start(self, state: Tensor) -> Tensor:
        return state

    def finish(self, working: Tensor) -> Tensor:
        return working

    def advance(self, block: Block, inputs: Tensor, step: Step) -> Tensor:
        return self.convolve(block, inputs, step)

    def convolve(self, block: Block, inputs: Tensor, step: Step, edge_attr: Tensor | None = None) -> Tensor:
        """The convolution's output at the rows that `block` writes, `[n, d]`."""
        given: dict[str, Tensor] = {}
        if "edge_type" in self.takes:
            _check_types(self.conv, block)
            given["edge_type"] = block.edge_type
        if "edge_weight" in self.takes and block.edge_weight is not None:
            given["edge_weight"] = block.edge_weight.to(inputs.dtype)
        if edge_attr is not None:
            given["edge_attr"] = edge_attr[block.edge_id.to(edge_attr.device)]
        if "x_0" in self.takes:
            assert step.initial is not None
            given["x_0"] = nn.functional.pad(step.initial, (0, 0, 0, block.num_inputs - block.num_rows))
        return self._check_output(self.conv(inputs, edge_index=block.edge_index, **given))[: block.num_rows]

    def _check_output(self, output: Any) -> Tensor:
        if not isinstance(output, Tensor) or output.dim() != 2 or not output.is_floating_point():
            got = f"shape {list(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
            name = type(self.conv).__name__
            raise ValueError(f"A scheduled convolution must return states [N, d], floating point. Got {got} of {name}.")
        return output


class _Attributed:
    """A scheduled convolution bound to one graph's edge attributes, `[E, a]`."""

    def __init__(self, scheduled: Scheduled, edge_attr: Tensor) -> None:
        self.scheduled, self.edge_attr = scheduled, edge_attr
        self.residual, self.local, self.random = scheduled.residual, scheduled.local, scheduled.random
        self.start, self.finish = scheduled.start, scheduled.finish

    def parameters(self) -> Iterator[Tensor]:
        yield from self.scheduled.parameters()
        yield self.edge_attr

    def advance(self, block: Block, inputs: Tensor, step: Step) -> Tensor:
        return self.scheduled.convolve(block, inputs, step, self.edge_attr)


def _arguments(conv: nn.Module) -> frozenset[str]:
    """The arguments of the convolution's `forward` that a schedule gives."""
    name = type(conv).__name__
    if not isinstance(conv, nn.Module):
        raise ValueError(f"`conv` must be a convolution of PyTorch Geometric. Got {name}.")
    if name in UNFIT:
        raise ValueError(f"A schedule runs convolutions of states [N, d] over edges. Got {name}, which {UNFIT[name]}.")
    if any(getattr(module, "cached", False) for module in conv.modules()):
        raise ValueError(f"A scheduled convolution sees other edges in every phase. Got {name} with cached=True.")
    parameters = inspect.signature(conv.forward).parameters
    missing = {"x", "edge_index"} - set(parameters)
    needed = [key for key, value in parameters.items() if _is_needed(value) and key not in KNOWN]
    if missing or needed:
        listed = ", ".join(map(str, parameters))
        raise ValueError(f"A schedule can give a convolution {', '.join(KNOWN)}. Got {name}, which takes {listed}.")
    takes = frozenset(KNOWN) & frozenset(parameters)
    if any(value.kind is inspect.Parameter.VAR_KEYWORD for value in parameters.values()):
        takes |= _passed_on(conv)
    return takes


def _is_needed(parameter: inspect.Parameter) -> bool:
    variable = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and not variable


def _passed_on(conv: nn.Module) -> frozenset[str]:
    """What a convolution around another passes on to it by `**kwargs`: the edge data that the inner one takes."""
    from torch_geometric.nn import MessagePassing

    inner = [_arguments(child) for child in conv.children() if isinstance(child, MessagePassing)]
    return frozenset(EDGE_DATA).intersection(*inner) if inner else frozenset()


def _attends(conv: nn.Module) -> bool:
    """Whether a node's output follows from nodes that no edge joins it to."""
    from torch_geometric.nn import GPSConv

    return any(isinstance(module, GPSConv) for module in conv.modules())


def _checked(edge_attr: Tensor, plan: Plan, takes: frozenset[str]) -> Tensor:
    """The attributes of all edges of the plan, those of virtual nodes included, `[E + …, a]`."""
    if "edge_attr" not in takes:
        raise ValueError("`edge_attr` must be None for a convolution that takes none. Got a tensor.")
    graph = plan.schedule.graph
    virtual = int((torch.maximum(graph.src, graph.dst) >= plan.num_nodes).sum())  # they come last
    num_edges = graph.num_edges - virtual
    if len(edge_attr) != num_edges:
        raise ValueError(f"`edge_attr` must have a row for each of the {num_edges} edges. Got {len(edge_attr)}.")
    return torch.cat([edge_attr, edge_attr.new_zeros(virtual, *edge_attr.shape[1:])]) if virtual else edge_attr


def _check_types(conv: nn.Module, block: Block) -> None:
    given = len(block.operators)
    for known in (getattr(module, "num_relations", None) for module in conv.modules()):
        if isinstance(known, int) and given > known:
            raise ValueError(
                f"The convolution must know all {given} edge types of the plan. Got num_relations={known}."
            )
