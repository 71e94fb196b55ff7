"""Autograd functions refuse second derivatives unless they give right ones; sums of rows are exact however cut."""

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import gpnn
from gpnn.kernels import autograd
from gpnn.kernels.autograd import SECOND_DERIVATIVES, affine, first_order, plain_operations, sum_products

PACKAGE = Path(gpnn.__file__).parent
# differentiable as often as asked: tests/engine/test_rows.py, and below
TWICE = {"gpnn.engine.rows._Permute", "gpnn.kernels.autograd._Affine"}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


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


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long sums begin with few rows, and take few at a time."""
    monkeypatch.setattr(autograd, "FEW", 10)
    monkeypatch.setattr(autograd, "RUNS", {"cpu": 8, "cuda": 8})
    monkeypatch.setattr(autograd, "MOST_SUMS", 100)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def distance(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bias", ["none", "row", "rows"])
@pytest.mark.parametrize("factors", [{}, {"beta": 0.25, "alpha": 0.75}])
def test_gradients_are_those_of_autograd(few: None, bias: str, factors: dict[str, float], device: str) -> None:
    shape = {"none": None, "row": (3,), "rows": (101, 3)}[bias]
    found, expected = [], []
    for into, take in ((found, affine), (expected, autograd._affine)):
        given = [draw(101, 5, seed=1), draw(5, 3, seed=2)] + ([] if shape is None else [draw(*shape, seed=3)])
        given = [each.to(device).requires_grad_() for each in given]
        values = {"beta": 1.0, "alpha": 1.0} | factors
        out = take(given[2] if shape else None, *given[:2], **values)
        (out * draw(101, 3, seed=4).to(device)).sum().backward()
        into += [out, *(each.grad for each in given)]
    assert torch.equal(found[0], expected[0])
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_gradient_can_be_differentiated(few: None) -> None:
    x, weight = draw(40, 4, seed=1).requires_grad_(), draw(4, 2, seed=2).requires_grad_()
    grads = []
    for take in (lambda: affine(None, x, weight), lambda: x @ weight):
        (grad,) = torch.autograd.grad((take() ** 3).sum(), weight, create_graph=True)
        grads.append(torch.autograd.grad(grad.square().sum(), (x, weight)))
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-2)


def test_few_rows_other_types_and_tracers_take_torchs_own_product(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(autograd._Affine, "apply", refuse)
    weight = draw(4, 2).requires_grad_()
    with pytest.raises(AssertionError):
        affine(None, draw(11, 4), weight)
    affine(None, draw(10, 4), weight)
    affine(None, draw(11, 4).double(), weight.double())
    affine(None, draw(11, 4), weight.detach())
    with plain_operations():
        affine(None, draw(11, 4), weight)
    with torch.autocast("cpu"):
        assert affine(None, draw(11, 4), weight).dtype == torch.bfloat16


@pytest.mark.parametrize("rows", [0, 3, 8, 16, 101])
def test_a_sum_takes_every_row_once(few: None, rows: int) -> None:
    a, b = draw(rows, 6, seed=1)[:, 1:], draw(rows, 3, seed=2)
    torch.testing.assert_close(sum_products(a, b), a.T @ b)
    assert torch.equal(sum_products(a.double(), b.double()), a.T.double() @ b.double())


@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_many_rows_are_as_exact_however_they_are_cut(device: str) -> None:
    a, b = draw(200_000, 24, seed=1).to(device), draw(200_000, 16, seed=2).to(device)
    exact = a.double().T @ b.double()
    whole = sum_products(a, b)
    cut = sum_products(a[:70_001], b[:70_001]) + sum_products(a[70_001:], b[70_001:])
    assert distance(whole, exact) < 4e-7
    assert distance(cut, exact) < 4e-7


def test_narrow_rows_are_summed_wide() -> None:
    a, b = draw(5000, 4, seed=1).bfloat16(), draw(5000, 3, seed=2).bfloat16()
    if torch.cuda.is_available():
        a, b = a.cuda(), b.cuda()
    exact = a.double().T @ b.double()
    assert sum_products(a, b).dtype == torch.float32
    assert distance(sum_products(a, b), exact) < 1e-6


@pytest.mark.parametrize("message", ["linear", "mlp"])
@pytest.mark.parametrize("cell", ["mlp", "residual", "gcn_residual", "batch_residual", "gcnii"])
def test_a_network_has_the_same_gradients(cell: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = gpnn.load_dataset("planted", num_nodes=300)
    plan = gpnn.lower(gpnn.schedule.synchronous(data, rounds=2))
    found = []
    for rows in (10, 1000):
        monkeypatch.setattr(autograd, "FEW", rows)
        torch.manual_seed(0)
        model = gpnn.nn.GPNN(data.num_features, 8, 3, cell=cell, message=message, dropout=0.0)
        model(data.x, plan).square().sum().backward()
        found.append([each.grad for each in model.parameters()])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))
