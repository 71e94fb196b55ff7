"""Large pages change where a tensor lies, not what it holds."""

import pytest
import torch

from gpnn.kernels import pages


@pytest.mark.parametrize("rows", [0, 3, 40_000])
def test_moved_tensors_hold_what_they_held(rows: int) -> None:
    tensor = torch.arange(rows * 64.0).view(rows, 64)
    expected, place = tensor.clone(), tensor.data_ptr()
    pages.move_to_large(tensor)
    assert tensor.equal(expected)
    assert tensor.data_ptr() == place


def test_a_tensor_is_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []
    monkeypatch.setattr(pages, "LARGE", 14)
    monkeypatch.setattr(pages, "_advise", lambda tensor, advice: asked.append(advice))
    first, second = torch.zeros(3, 2), torch.zeros(3, 2)
    for tensor in (first, second, first):
        pages.move_to_large(tensor)
    assert asked == [25, 25]


def test_a_system_without_large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LARGE", None)
    monkeypatch.setattr(pages, "_libc", lambda: pytest.fail("asked"))
    pages.move_to_large(pages.empty_large(40_000, 64, dtype=torch.float32))
