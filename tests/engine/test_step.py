import pytest
import torch

from gpnn.kernels.execution import choose_device


def test_auto_is_what_the_machine_has():
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_mistakes():
    with pytest.raises(ValueError, match=r"`device` must be auto, cpu, cuda or cuda:N. Got 'gpu'"):
        choose_device("gpu")
    with pytest.raises(ValueError, match=r"`device` must be auto, cpu, cuda or cuda:N. Got 'meta'"):
        choose_device("meta")
    with pytest.raises(ValueError, match=r"this machine has \d+ GPUs. Got 'cuda:99'"):
        choose_device("cuda:99")
