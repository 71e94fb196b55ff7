"""A short form of the soak: a long-lived process gives the predictions of a fresh one."""

import pytest

from benchmarks.soak_update import MOST_DIFFERENCE, follow
from gpnn.train.notes import NoteWarning


@pytest.mark.filterwarnings(f"ignore::{NoteWarning.__module__}.{NoteWarning.__qualname__}")
@pytest.mark.parametrize("settings", [{}, {"cell": "gru", "hidden_channels": 4, "normalization": "phase"}])
def test_many_updates_give_the_predictions_of_a_fresh_process(settings):
    _, differences, _ = follow(40, num_nodes=800, **settings)
    assert max(differences) < MOST_DIFFERENCE
