"""SoftSchedule: phases over a partition that is not decided yet, with gradients to the probabilities of each node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gpnn.check import check_choice, check_count
from gpnn.engine import NORMALIZATIONS, Plan, Step
from gpnn.engine.normalize import in_weight
from gpnn.engine.propagate import Runner
from gpnn.engine.step import OWN
from gpnn.graph import Graph
from gpnn.kernels import Operator, aggregate
from gpnn.kernels.aggregate import dot_edges, sum_edges
from gpnn.nn.cell import Cell, CellBank
from gpnn.nn.layers import FeatureLinear
from gpnn.partition import Partition
from gpnn.schedule.partitioned import held_cut_phases, partitioned_phases
from gpnn.schedule.phase_spec import PhaseSpec

WIDTH, STEPS, BETWEEN = 64, 60, 5  # of the random vectors that encode the structure


class FreeAssignment(nn.Module):
    """A score of each node for each subgraph, all of them parameters.

    Args:
        structure: an encoding of the nodes, of which only their number is used, `[N, r]`.
        in_channels: number of features; they are not used.
        num_parts: number of subgraphs K.
        generator: where the scores start from.
    """

    def __init__(self, structure: Tensor, in_channels: int, num_parts: int, generator: torch.Generator) -> None:
        super().__init__()
        self.scores = nn.Parameter(0.1 * torch.randn(len(structure), num_parts, generator=generator))

    def forward(self, x: Tensor | None) -> Tensor:
        """The scores, `[N, K]`."""
        return self.scores


class NetworkAssignment(nn.Module):
    """Scores by a network with one hidden ReLU layer over a node's place in the graph and its features.

    Args:
        structure: an encoding of the nodes by their place, as :func:`encode_structure` gives it, `[N, r]`.
        in_channels: number of features F; 0: none.
        num_parts: number of subgraphs K.
        generator: where the weights start from.
    """

    structure: Tensor

    def __init__(
        self,
        structure: Tensor,
        in_channels: int,
        num_parts: int,
        generator: torch.Generator,
        hidden_channels: int = 64,
    ) -> None:
        super().__init__()
        self.register_buffer("structure", structure)
        self.from_structure = FeatureLinear(structure.shape[1], hidden_channels, generator)
        self.from_features = FeatureLinear(in_channels, hidden_channels, generator, bias=False) if in_channels else None
        self.to_parts = FeatureLinear(hidden_channels, num_parts, generator)

    def forward(self, x: Tensor | None) -> Tensor:
        """The scores, `[N, K]`, given the features `[N, F]`."""
        hidden = self.from_structure(self.structure)
        if self.from_features is not None:
            hidden = hidden + self.from_features(x)
        return self.to_parts(hidden.relu())


# Each is made from an encoding of the structure `[N, r]`, the number of features, K and a generator.
ASSIGNMENTS: dict[str, Callable[[Tensor, int, int, torch.Generator], nn.Module]] = {
    "network": NetworkAssignment,
    "free": FreeAssignment,
}


def encode_structure(graph: Graph, generator: torch.Generator, width: int = WIDTH, steps: int = STEPS) -> Tensor:
    """Rows of length √r that are alike for nodes near each other, float32, `[N, r]`.

    Random vectors after some steps of a lazy random walk, made orthogonal between the steps: an approximation of its
    slowest modes. Directions, types and weights of edges are ignored.

    Args:
        graph: N nodes.
        generator: of the random vectors.
        width: number of vectors r, at most N.
        steps: of the walk.
    """
    others = graph.src != graph.dst
    ends = torch.cat([graph.src[others], graph.dst[others]]), torch.cat([graph.dst[others], graph.src[others]])
    walk = Operator.from_edges(*ends, torch.ones(len(ends[0])), (graph.num_nodes, graph.num_nodes))
    degree = walk.ptr.diff()[:, None]
    vectors = torch.randn(graph.num_nodes, min(width, graph.num_nodes), generator=generator)
    for step in range(steps):
        arrived = aggregate(walk, vectors) / degree.clamp(min=1)
        vectors = torch.where(degree > 0, 0.5 * (vectors + arrived), vectors)
        if step % BETWEEN == BETWEEN - 1:
            vectors = torch.linalg.qr(vectors)[0]
    length = vectors.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return vectors / length * vectors.shape[1] ** 0.5


def harden(probabilities: Tensor) -> Partition:
    """The partition in which each node is in its most probable subgraph; none is empty where there are nodes enough.

    Args:
        probabilities: of each node over the subgraphs, `[N, K]`.

    >>> harden(torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])).labels.tolist()
    [0, 0, 1]
    """
    from gpnn.partition.multilevel_refine import fill_empty

    num_nodes, num_parts = probabilities.shape
    labels = probabilities.detach().argmax(1).cpu().numpy()
    if num_parts <= num_nodes:
        fill_empty(labels, num_parts)
    return Partition(torch.from_numpy(labels), num_parts)


@dataclass(frozen=True, eq=False)
class SoftSchedule:
    r"""A schedule whose edges travel inside and over the cut at once, each with the probability that it is there.

    Node u is in subgraph k with probability :math:`s_{uk}`, so that the edge (u, v) is inside with probability
    :math:`p = \sum_k s_{uk} s_{vk}` (a self-loop always is). An inside phase weighs it by p, a cut phase by 1 − p, and
    the normalisation of the phase counts it as much. A node that only some edges make update goes that far from its old
    state to the new one as the most probable of them: the endpoints of the cut, and receivers. Probabilities of 0 and 1
    are the schedule over that partition, number for number.

    Attributes:
        operators: the edges of each type, receivers by senders, entries in row order.
        sender: sender of each edge, types after each other, `[E]`.
        receiver: receiver of each edge, `[E]`.
        weight: the graph's own weight of each edge, `[E]`.
        degree: in-weight of each node over the whole graph, its added self-loop included, `[N]`.
        loop: weight of the self-loop that is added to every node: 1 or 0.
        phases: the phases of a round.
        rounds: number of rounds T.
        normalization: a rule of :mod:`gpnn.engine.normalize`.
    """

    operators: tuple[Operator, ...]
    sender: Tensor
    receiver: Tensor
    weight: Tensor
    degree: Tensor
    loop: float
    phases: tuple[PhaseSpec, ...]
    rounds: int
    normalization: str

    @classmethod
    def of(
        cls,
        graph: Graph,
        phases: Sequence[PhaseSpec],
        rounds: int,
        *,
        normalization: str = "phase",
        self_loops: bool = False,
        device: torch.device | str = "cpu",
    ) -> SoftSchedule:
        """The phases over a graph, on a device.

        Args:
            graph: N nodes and E edges.
            phases: of a round, such as :func:`gpnn.schedule.partitioned.partitioned_phases` gives.
            rounds: number of rounds T.
            normalization: a rule of :mod:`gpnn.engine.normalize`.
            self_loops: every node also receives its own message.

        Raises:
            ValueError: for a rule or a number of rounds that there is not.
        """
        check_choice("normalization", normalization, NORMALIZATIONS)
        check_count("rounds", rounds)
        raw = torch.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight
        kind = torch.zeros_like(graph.src) if graph.edge_type is None else graph.edge_type
        shape = (graph.num_nodes, graph.num_nodes)
        chosen = [(kind == each).nonzero().flatten() for each in range(graph.num_edge_types)]
        operators = [Operator.from_edges(graph.dst[ids], graph.src[ids], raw[ids], shape).to(device) for ids in chosen]
        return cls(
            operators=tuple(operators),
            sender=torch.cat([each.col.long() for each in operators]),
            receiver=torch.cat([each.rows() for each in operators]),
            weight=torch.cat([each.weight for each in operators if each.weight is not None]),
            degree=(in_weight(graph) + float(self_loops)).to(device),
            loop=float(self_loops),
            phases=tuple(phases),
            rounds=rounds,
            normalization=normalization,
        )

    @property
    def num_nodes(self) -> int:
        return len(self.degree)

    def inside(self, probabilities: Tensor) -> Tensor:
        """The probability p of each edge to be inside a subgraph, `[E]`, from those of the nodes, `[N, K]`.

        Raises:
            ValueError: when there is not one row per node.
        """
        if probabilities.dim() != 2 or len(probabilities) != self.num_nodes:
            raise ValueError(f"`probabilities` must have shape [{self.num_nodes}, K]. Got {list(probabilities.shape)}.")
        p = torch.cat([dot_edges(each, probabilities, probabilities) for each in self.operators])
        return p.clamp(max=1).masked_fill(self.sender == self.receiver, 1)

    def bind(self, inside: Tensor) -> Runner:
        """The runner of :func:`gpnn.engine.propagate` for edges that are inside with these probabilities, `[E]`.

        Of the plan that it is called with it takes the order of the nodes alone.
        """
        return partial(self._run, [self._weigh(spec, inside) for spec in self.phases])

    def _run(
        self,
        phases: list[SoftPhase],
        cell: nn.Module,
        plan: Plan,
        state: Tensor,
        *,
        initial: Tensor | None,
        collect: bool,
    ) -> list[Tensor]:
        """The working states after each round, or after the last one only, in plan order, `[N, s]`."""
        state, states = plan.to_user_order(state), []
        initial = None if initial is None else plan.to_user_order(initial)
        for number in range(self.rounds):
            for position, phase in enumerate(phases):
                spec = phase.spec
                step = Step(number, spec.kind, 0, initial, position, spec.closing)
                state = self._do_phase(phase, _choose_cell(cell, step), state, step)
            states.append(state)
        return [plan.to_plan_order(each) for each in (states if collect else states[-1:])]

    def _do_phase(self, phase: SoftPhase, cell: Cell, state: Tensor, step: Step) -> Tensor:
        held = None if phase.held is None else self._receive(phase, phase.held, cell, cell.finish(state))
        for repeat in range(phase.spec.repeat):
            visible = cell.finish(state)
            messages = self._receive(phase, phase.edge, cell, visible)
            if held is not None:
                messages = messages + held
            if cell.aggregate == "mean" and phase.diagonal is not None:
                messages = torch.addcmul(messages, phase.diagonal[:, None], cell.message(visible, OWN))
            new = cell(state, messages, step._replace(repeat=repeat))
            state = new if phase.gate is None else torch.lerp(state, new, phase.gate[:, None])
        return state

    def _receive(self, phase: SoftPhase, edge: Tensor, cell: Cell, visible: Tensor) -> Tensor:
        """What nodes receive along edges of these weights, `[N, d]`."""
        if cell.aggregate == "sum":
            return self._sum(edge, lambda kind: cell.message(visible, kind))
        total = self._sum(edge, lambda kind: _scale(phase.sent, cell.message(visible, kind)))
        return _scale(phase.received, total)

    def _sum(self, edge: Tensor, sent: Callable[[int], Tensor]) -> Tensor:
        """The sum of the messages to each node, `[N, d]`, by weights `[E]`, of what nodes send along each type."""
        weights = edge.split([each.num_entries for each in self.operators])
        sums = [sum_edges(*each, sent(kind)) for kind, each in enumerate(zip(self.operators, weights))]
        return sums[0] if len(sums) == 1 else torch.stack(sums).sum(0)

    def _weigh(self, spec: PhaseSpec, p: Tensor) -> SoftPhase:
        """A phase, given the probability of each edge to be inside, `[E]`."""
        share = {"inside": p, "cut": 1 - p, "held": torch.ones_like(p), "all": torch.ones_like(p)}[spec.kind]
        weight, degree = self.weight.to(p), self.degree.to(p)
        sent, received, diagonal = self._normalize(weight * share, degree)
        held = weight * (1 - p) if spec.kind == "held" else None
        edge = weight * (p if spec.kind == "held" else share)
        return SoftPhase(spec, edge, held, sent, received, diagonal, self._gate(spec, share))

    def _normalize(self, weight: Tensor, degree: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Factors of what each node sends and receives, and of its message to itself, `[N]` each, by the rule."""
        rule, diagonal = self.normalization, None
        if rule == "none":
            return None, None, torch.ones_like(degree) if self.loop else None
        within = self._sum(weight.abs(), lambda kind: torch.ones_like(degree)[:, None])[:, 0]
        here = within + self.loop if rule in ("phase", "symmetric_phase") else degree
        if rule.endswith("split"):
            diagonal = (1 - within * _inverse(degree)).clamp(min=0)
        elif self.loop:
            diagonal = self.loop * _inverse(here)
        if rule.startswith("symmetric"):
            root = _inverse(here.clamp(min=_least(here)).sqrt()) * (here > _least(here))
            return root, root, diagonal
        return None, _inverse(here), diagonal

    def _gate(self, spec: PhaseSpec, share: Tensor) -> Tensor | None:
        """How far each node goes to its new state, `[N]`; None: all the way."""
        if spec.update == "members" and spec.kind != "cut":
            return None
        ends = [self.receiver] if spec.update == "receivers" else [self.receiver, self.sender]
        gate = share.new_zeros(self.num_nodes)
        return gate.scatter_reduce(0, torch.cat(ends), share.repeat(len(ends)), "amax")


SOFT_SCHEDULES: dict[str, Callable[..., tuple[PhaseSpec, ...]]] = {
    "partitioned": partitioned_phases,
    "held_cut": held_cut_phases,
}


def make_soft_schedule(
    name: str, graph: Graph, rounds: int, *, options: Mapping[str, Any] | None = None, **settings: Any
) -> SoftSchedule:
    """The soft form of a schedule by its name; of one that needs no partition, that of "partitioned".

    Args:
        name: a name of :data:`gpnn.schedule.SCHEDULES`.
        graph: N nodes.
        rounds: number of rounds T.
        options: the schedule's own, such as `intra` and `cut`.
        **settings: normalisation, self-loops and device, as :meth:`SoftSchedule.of` takes them.

    Raises:
        ValueError: when the options ask for virtual nodes.
    """
    taken = dict(options or {}) if name in SOFT_SCHEDULES else {}
    if (virtual := taken.pop("virtual", None)) is not None:
        raise ValueError(f"A learned partition has no virtual nodes: `virtual` must be None. Got {virtual!r}.")
    return SoftSchedule.of(graph, SOFT_SCHEDULES.get(name, partitioned_phases)(**taken), rounds, **settings)


class SoftPhase(NamedTuple):
    """A phase over a soft partition."""

    spec: PhaseSpec
    edge: Tensor  # [E] weight of each edge, times the probability that the phase has it
    held: Tensor | None  # [E] the same of the edges whose messages are held, where it holds any
    sent: Tensor | None  # [N] factors of the senders by the normalisation; None: all one
    received: Tensor | None  # [N] factors of the receivers
    diagonal: Tensor | None  # [N] weight of each node's message to itself; None: all zero
    gate: Tensor | None  # [N] how far each node goes to its new state; None: all the way


def _choose_cell(cell: nn.Module, step: Step) -> Cell:
    """The cell of a step, whose messages can be weighed."""
    chosen = cell.cells[cell.choose(step)] if isinstance(cell, CellBank) else cell
    if not isinstance(chosen, Cell) or chosen.aggregate not in ("mean", "sum"):
        got = chosen.aggregate if isinstance(chosen, Cell) else type(chosen).__name__
        raise ValueError(f"A soft partition needs cells that aggregate by mean or sum. Got {got}.")
    return chosen


def _scale(factor: Tensor | None, rows: Tensor) -> Tensor:
    return rows if factor is None else factor[:, None] * rows


def _least(degree: Tensor) -> float:
    """A degree below this counts as 0: the square of its inverse, which the gradient holds, would overflow."""
    return torch.finfo(degree.dtype).tiny ** 0.5


def _inverse(degree: Tensor) -> Tensor:
    """1 / degree, and 0 where it is 0, with finite gradients everywhere."""
    positive = degree > _least(degree)
    return torch.where(positive, 1 / torch.where(positive, degree, 1.0), 0.0)
