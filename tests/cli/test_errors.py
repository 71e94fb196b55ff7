import errno
import subprocess
import sys

import pytest
import torch

import gpnn as library
from gpnn.cli.errors import explain


def test_version_and_help(gpnn):
    assert gpnn("--version").stdout == f"gpnn {library.__version__}\n"
    for command in ("train", "predict", "partition", "schedule", "data"):
        assert command in gpnn("--help").stdout
        assert gpnn(command, "--help").exit_code == 0


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['gpnn', '--help']\n"
        "try:\n    from gpnn.cli import main; main()\nexcept SystemExit:\n    pass\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "scipy", "sklearn", "torch_geometric", "pyarrow", "numba"} & set(
        result.stderr.split()
    )


def test_memory_gets_advice():
    assert "not enough memory" in explain(MemoryError())
    on_gpu = explain(torch.OutOfMemoryError("CUDA out of memory"))
    assert "not enough memory" in on_gpu
    assert "device_memory" in on_gpu


@pytest.mark.parametrize("error", [RuntimeError("a bug"), BrokenPipeError(errno.EPIPE, "broken pipe")])
def test_what_is_not_the_users_is_not_explained(error):
    assert explain(error) is None


def test_a_full_disk_is_one_sentence():
    assert explain(OSError(errno.ENOSPC, "No space left on device")) == "no space left on device."


def test_a_bug_keeps_its_traceback(gpnn, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("gpnn.build.objects.load_dataset", broken)  # the module is read before its source is broken
    monkeypatch.setattr("gpnn.data.load_dataset", broken)
    result = gpnn("train")
    assert isinstance(result.exception, RuntimeError)
