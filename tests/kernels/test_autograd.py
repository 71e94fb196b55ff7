"""Every autograd function of the package refuses second derivatives, unless it is known to give right ones."""

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import gpnn
from gpnn.kernels.autograd import SECOND_DERIVATIVES, first_order

PACKAGE = Path(gpnn.__file__).parent
TWICE = {"gpnn.engine.rows._Permute"}  # differentiable as often as asked: tests/engine/test_rows.py


def function_classes() -> dict[str, ast.ClassDef]:
    """The classes of the package that derive from torch's `Function`, by their full name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module, text = ".".join(["gpnn", *path.relative_to(PACKAGE).with_suffix("").parts]), path.read_text()
        for node in ast.walk(ast.parse(text)) if "Function" in text else ():
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Function") for base in node.bases):
                found[f"{module}.{node.name}"] = node
    return found


CLASSES = function_classes()


@pytest.mark.parametrize("name", sorted(set(CLASSES) - TWICE))
def test_every_backward_is_first_order(name: str) -> None:
    module, _, short = name.rpartition(".")
    if ".gpu" in module and not find_spec("triton"):  # read, where it cannot be run
        (backward,) = (each for each in CLASSES[name].body if getattr(each, "name", "") == "backward")
        assert [ast.unparse(each) for each in backward.decorator_list] == ["staticmethod", "first_order"]
        return
    function = getattr(importlib.import_module(module), short)
    with torch.enable_grad(), pytest.raises(RuntimeError) as refusal:
        function.backward(None, torch.ones(1))
    assert str(refusal.value) == SECOND_DERIVATIVES


def test_no_function_escapes_the_search() -> None:
    """A subclass under another spelling of its base would be loaded, but not found in the source."""
    for name in CLASSES:
        if ".gpu" not in name or find_spec("triton"):
            importlib.import_module(name.rpartition(".")[0])
    known, loaded = set(CLASSES), [torch.autograd.Function]
    while loaded:
        each = loaded.pop()
        loaded += each.__subclasses__()
        if each.__module__.startswith("gpnn.") and not each.__name__.endswith("Backward"):  # torch makes those
            assert f"{each.__module__}.{each.__name__}" in known
    assert len(known) > 10


def test_a_constant_gradient_passes_torchs_own_guard() -> None:
    """The reason for `first_order`: under `once_differentiable` the second derivative of x³ is zero, not 6x."""

    def cube(guard):  # type: ignore[no-untyped-def]
        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):  # type: ignore[no-untyped-def]
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            @guard
            def backward(ctx, grad):  # type: ignore[no-untyped-def]
                return 3 * ctx.saved_tensors[0] ** 2 * grad

        return Cube.apply

    x = torch.tensor([2.0], requires_grad=True)
    silent = cube(torch.autograd.function.once_differentiable)
    assert torch.autograd.functional.hvp(lambda x: silent(x).sum(), x, torch.ones(1))[1].item() == 0
    with pytest.raises(RuntimeError, match="Second derivatives are not supported"):
        torch.autograd.functional.hvp(lambda x: cube(first_order)(x).sum(), x, torch.ones(1))
    assert torch.autograd.grad(cube(first_order)(x).sum(), x)[0].item() == 12
