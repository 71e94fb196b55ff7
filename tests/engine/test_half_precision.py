"""Under autocast every cell runs with every runner and schedule, states keep their type, and the runners agree."""

from typing import Any

import pytest
import torch

import gpnn
from gpnn.engine import propagate
from gpnn.nn import UPDATES
from tests.oracle.engine_cases import gradients, make_cell, make_schedule, multigraph, states

# rows of the first phase: all; only receivers; those of the first level
NAMES = ("partitioned", "receivers", "sequential")


def run(cell: torch.nn.Module, plan: gpnn.Plan, runner: str, dtype: torch.dtype) -> list[torch.Tensor]:
    leaf = states().to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = propagate(cell, plan, leaf, runner=runner)
    assert isinstance(out, torch.Tensor)
    assert out.dtype == dtype
    return [out.detach(), *gradients(cell, out, [leaf])]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_runners_agree(name: str, update: str, dtype: torch.dtype) -> None:
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule(name, graph), normalization="split")
    cell = make_cell(update, "linear").float().eval()
    for fused, streamed in zip(*(run(cell, plan, runner, dtype) for runner in ("fused", "streamed")), strict=True):
        if fused is not None:
            torch.testing.assert_close(streamed, fused, rtol=0, atol=0.06 * float(fused.abs().max()) + 1e-6)


def test_the_older_gate_runs_too() -> None:
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    assert run(make_cell("gru", reset="before").float(), plan, "fused", torch.float32)[0].isfinite().all()


def test_the_backward_pass_repeats_the_forward_one_in_the_same_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else gradients would be those of other states than the ones that were returned."""
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule("partitioned", graph, rounds=2))
    cell = make_cell("mlp", "linear").float()
    enabled: list[bool] = []
    forward = cell.update.forward

    def note(*arguments: Any) -> torch.Tensor:
        enabled.append(torch.is_autocast_enabled("cpu"))
        return forward(*arguments)

    monkeypatch.setattr(cell.update, "forward", note)
    run(cell, plan, "streamed", torch.float32)
    assert len(enabled) > 2 * plan.num_rounds
    assert all(enabled)
