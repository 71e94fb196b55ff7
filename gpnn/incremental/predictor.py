"""Predictor: a model's outputs for a graph that changes; what a change cannot reach is not computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.engine import Plan
from gpnn.incremental.change import Change
from gpnn.incremental.dynamic_graph import DynamicGraph, Round, affected, local_round, required, widen
from gpnn.incremental.live_graph import LiveGraph
from gpnn.incremental.region import Region, Tape
from gpnn.incremental.rows import distinct
from gpnn.kernels.execution import choose_device, one_thread
from gpnn.memory.available import available_bytes
from gpnn.nn import GPNN, NodeModel
from gpnn.nn.column_model import ColumnModel
from gpnn.pipeline import Pipeline
from gpnn.train.evaluate import predict_outputs

if TYPE_CHECKING:
    from gpnn.incremental.variants import VariantGraph, VariantTape

MOST = 0.5  # of the nodes that are worth computing apart: for more, all are computed at once


@dataclass(frozen=True, eq=False)
class Update:
    """What a change did.

    Attributes:
        slots: nodes whose outputs were computed again, `[n]`.
        outputs: theirs, `[n, C]`.
        whole: why all nodes were computed; "" where only those within reach were.
    """

    slots: np.ndarray
    outputs: Tensor
    whole: str = ""


class Predictor:
    """A trained model's outputs for every node of a graph, kept up to date while nodes and edges come and go.

    Args:
        model: trained; on the pipeline's device.
        graph: the graph, as the model takes it.
        pipeline: the arguments of its schedule.
        precision: as of :class:`gpnn.train.Recipe`.
        keep: whether states are kept after every step, for changes to come; else a change computes what it needs.
    """

    def __init__(
        self,
        model: NodeModel,
        graph: LiveGraph,
        pipeline: Pipeline,
        *,
        precision: str = "float32",
        keep: bool = True,
    ) -> None:
        self.model, self.graph, self.pipeline = model, graph, pipeline
        self.device, self.precision, self.keep = choose_device(pipeline.device), precision, keep
        self.round, self.whole = self._locality()
        self.tape: Tape | None = None  # where there is memory for it; else a change computes what it needs
        self.stale = keep  # whether what is kept is not that of the graph
        self.outputs: Tensor | None = None

    def predict(self) -> Tensor:
        """The outputs of all nodes, computed anew, `[N, C]`, the oldest node first."""
        self._predict_all()
        assert self.outputs is not None
        return self.outputs[torch.from_numpy(self.graph.slots.in_order())]

    def update(self, change: Change) -> Update:
        """Apply a change; the outputs of all nodes that it may have changed.

        Raises:
            ValueError: when the change does not suit the graph, which then stays as it was.
        """
        rows, why = self.reach(change)
        if why:
            return self._whole(why)
        wanted, tape = rows[-1], self.tape
        if tape is None or not len(wanted):
            outputs = self.predict_nodes(wanted)
        else:
            tape.enlarge(self.graph.edges.num_slots)
            outputs = self._run(widen(rows), tape, wanted)
        self._store(wanted, outputs)
        self.stale = False
        return Update(wanted, outputs)

    def reach(self, change: Change) -> tuple[list[np.ndarray], str]:
        """Apply a change; the nodes that it reaches after each step, or why all must be computed.

        Raises:
            ValueError: when the change does not suit the graph, which then stays as it was.
        """
        started, concerned = self.graph.apply(change, symmetric=self.pipeline.normalization.startswith("symmetric"))
        stale, self.stale = self.stale, True  # what is kept
        if self.whole or stale:
            return [], self.whole or "what was kept is not that of the graph"
        assert self.round is not None
        rows = affected(self.graph.edges, self.round, started, concerned)
        if len(rows[-1]) > MOST * len(self.graph.slots):
            return [], f"the change reaches {len(rows[-1]):,} of {len(self.graph.slots):,} nodes"
        return rows, ""

    def predict_nodes(self, slots: np.ndarray) -> Tensor:
        """The outputs of some nodes, rising, `[n, C]`, from the features of all that they need."""
        assert self.round is not None
        if not len(slots):
            return torch.zeros(0, self._width())
        rows = required(self.graph.edges, self.round, slots)
        return self._run(rows, Tape(len(rows[0]), rows[0]), slots)

    def _width(self) -> int:
        """How many outputs a node has."""
        assert isinstance(self.model, GPNN)
        return self.model.head.weights[-1].shape[1]

    def _locality(self) -> tuple[Round | None, str]:
        """The phases of a round, and why a change is not local; "" where it is."""
        model, pipeline = self.model, self.pipeline
        if not isinstance(model, GPNN):
            return None, "its columns follow from the whole graph"
        if model.embedding is not None:
            return None, "its nodes have embeddings"
        found = local_round(pipeline.schedule, int(pipeline.rounds), pipeline.schedule_options)
        if found is None:
            virtual = " with virtual nodes" if pipeline.schedule_options.get("virtual") else ""
            return None, f"the schedule {pipeline.schedule}{virtual} reaches the whole graph"
        return found, ""

    def _whole(self, why: str) -> Update:
        slots = self._predict_all()
        assert self.outputs is not None
        return Update(slots, self.outputs[torch.from_numpy(slots)], why)

    def _predict_all(self) -> np.ndarray:
        """Set the outputs of all nodes, and the tape where it is of use; their slots."""
        slots, self.tape, self.outputs = self.graph.slots.in_order(), None, None
        if self.round is not None and self.keep and self._fits(len(slots)):
            slots, tape = np.sort(slots), Tape(self.graph.edges.num_slots)
            outputs = self._run([slots] * (1 + len(list(self.round.steps()))), tape, slots)
            self.tape = tape if tape.states else None  # none where the model has no steps
        else:
            data, x = self.graph.edges.to_graph(slots).to_data(), self.graph.take_features(slots)
            if isinstance(self.model, ColumnModel):
                self.model.move_labels(torch.from_numpy(self.graph.known[slots]))
            plan = self.pipeline.lower_again(data, self.graph.partition(slots))
            outputs = predict_outputs(self.model, x, plan, precision=self.precision)
        self._store(slots, outputs)
        self.stale = False
        return slots

    def _fits(self, num_nodes: int) -> bool:
        """Whether there is memory for the states after every step."""
        assert isinstance(self.model, GPNN)
        assert self.round is not None
        values = (1 + len(list(self.round.steps()))) * num_nodes * self.model.state_channels
        return 8 * values < available_bytes(self.device)  # an LSTM has two of each

    def _run(self, rows: list[np.ndarray], tape: Tape, wanted: np.ndarray) -> Tensor:
        """The outputs of the wanted nodes, `[n, C]`, after their rows were computed step by step."""
        x = self.graph.take_features(distinct(rows[0], wanted))
        return self.run(self.graph.edges, rows, tape, wanted, x)

    def run(
        self,
        graph: DynamicGraph | VariantGraph,
        rows: list[np.ndarray],
        tape: Tape | VariantTape,
        wanted: np.ndarray,
        x: Tensor | None,
    ) -> Tensor:
        """The outputs of wanted nodes, `[n, C]`.

        Args:
            graph: the graph, or one with further slots.
            rows: the slots to set at the start, and to compute in each step, rising.
            tape: as of :class:`Region`.
            wanted: the slots to give, rising.
            x: the features of the rows at the start and of the wanted ones, rising, `[m, F]`.
        """
        assert isinstance(self.model, GPNN)
        assert self.round is not None
        region = Region(
            graph,
            self.round,
            rows,
            wanted,
            normalization=self.pipeline.normalization,
            self_loops=self.pipeline.self_loops,
            device=self.device,
            tape=tape,
        )
        plan = Plan(
            rounds=((),) * self.round.number,
            order=None,
            device=self.device,
            normalization=self.pipeline.normalization,
            num_nodes=len(region.nodes),
            num_virtual=0,
            num_edge_types=self.graph.edges.num_edge_types,
            source=None,
            edge_digest=None,
        )
        with one_thread(self.model.state_channels * sum(map(len, rows))):
            before, self.model.runner = self.model.runner, region
            try:
                found = predict_outputs(self.model, x, plan, precision=self.precision)
            finally:
                self.model.runner = before
            return found[torch.from_numpy(np.searchsorted(region.nodes, wanted))]

    def _store(self, slots: np.ndarray, outputs: Tensor) -> None:
        if self.outputs is None:
            self.outputs = outputs.new_zeros(self.graph.edges.num_slots, outputs.shape[1])
        elif len(self.outputs) < self.graph.edges.num_slots:
            more = self.graph.edges.num_slots - len(self.outputs)
            self.outputs = torch.cat([self.outputs, self.outputs.new_zeros(more, self.outputs.shape[1])])
        if len(slots):
            self.outputs[torch.from_numpy(slots)] = outputs
