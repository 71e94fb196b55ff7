"""What the engine's tests may ask for."""

import pytest


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phases without blocks are cut into chunks of two receivers."""
    monkeypatch.setattr("gpnn.engine.lower_schedule._chunk_rows", lambda schedule: 2)
