from pathlib import Path

import pytest

from gpnn.run.lock import lock_run


def test_a_second_holder_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    with (
        lock_run(tmp_path),
        pytest.raises(ValueError, match=r"one process at a time\. '.*' is in use by another\."),
        lock_run(tmp_path),
    ):
        pass
    with lock_run(tmp_path):
        assert list(tmp_path.iterdir()) == []  # nothing stands in the folder for it


def test_a_holder_that_fails_lets_go(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0
    with pytest.raises(RuntimeError), lock_run(tmp_path):
        raise RuntimeError
    with lock_run(tmp_path):
        pass
    assert not before or len(list(Path("/proc/self/fd").iterdir())) == before
