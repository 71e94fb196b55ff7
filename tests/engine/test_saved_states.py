"""Boundaries come back as they were, or rounded where asked."""

import torch

from gpnn.engine.saved_states import Boundary


def stored(state: torch.Tensor, **settings) -> torch.Tensor:
    given = {"dtype": None, "device": None, "folder": None, "copy": True} | settings
    into = torch.empty_like(state)
    boundary = Boundary(state, **given)
    if given["copy"]:
        state.zero_()
    boundary.load(into)
    return into


def test_a_copy_survives_the_state():
    state = torch.randn(5, 3)
    assert stored(state.clone()).equal(state)


def test_on_disk(tmp_path):
    state = torch.randn(5, 3)
    assert stored(state.clone(), folder=tmp_path / "new").equal(state)
    assert stored(state.clone(), folder=tmp_path, dtype=torch.bfloat16).equal(state.bfloat16().float())
    assert not list((tmp_path / "new").iterdir())


def test_without_a_copy_nothing_is_allocated():
    state = torch.randn(5, 3)
    assert Boundary(state, None, None, None, copy=False)._stored is state
