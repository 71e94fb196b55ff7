"""Layers: linear maps of dense or sparse features, random masks by key, batch normalisation, the type of states."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from gpnn.data.features import slice_rows
from gpnn.kernels import Operator, aggregate, hash_key
from gpnn.kernels.autograd import affine, is_plain, setting
from gpnn.kernels.masks import drop, masked_weight

Result = TypeVar("Result")
SPARSE_BELOW = 0.2  # dense features with a smaller share of non-zeros are multiplied as sparse ones

_known: dict[tuple[int, ...], tuple[weakref.ref[Tensor], int, Any]] = {}  # what was made of a tensor that still lives


def glorot(fan_in: int, fan_out: int, generator: torch.Generator) -> Tensor:
    """Glorot and Bengio's uniform start, `[fan_in, fan_out]`."""
    limit = (6 / (fan_in + fan_out)) ** 0.5
    return (torch.rand(fan_in, fan_out, generator=generator) * 2 - 1) * limit


class FeatureLinear(nn.Module):
    """x W + b for dense or sparse `x`; neither x nor the gradient of W is ever made dense by it.

    Args:
        in_channels: number of features F.
        out_channels: width of the result, d.
        bias: whether there is a b.

    Attributes:
        scale: what the numbers of each column are multiplied by, `[F]`; None: by 1. It belongs to the features, of
            8 bits, not to what is learned: it is not saved.
        mean, deviation: with which dense features are standardised first, `[F]`, saved with the model; None: they are
            taken as they are.
    """

    scale: Tensor | None
    mean: Tensor | None
    deviation: Tensor | None

    def __init__(self, in_channels: int, out_channels: int, generator: torch.Generator, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(glorot(in_channels, out_channels, generator))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        self.register_buffer("scale", None, persistent=False)
        self.register_buffer("mean", None)
        self.register_buffer("deviation", None)

    def standardize(self) -> None:
        """Take features in standard units, of mean 0 and deviation 1 until they are set."""
        self.mean, self.deviation = torch.zeros(len(self.weight)), torch.ones(len(self.weight))

    def forward(self, x: Tensor, p: float = 0.0, key: MaskKey | None = None, layer: int = 0) -> Tensor:
        """The product, `[N, d]`, after dropping entries of `x` with probability `p`."""
        if x.shape[1] != self.weight.shape[0]:
            raise ValueError(f"`x` must have {self.weight.shape[0]} columns. Got {x.shape[1]}.")
        weight = self.weight if self.scale is None else self.weight * self.scale[:, None]
        if self.mean is not None and self.deviation is not None:
            x = mark_dense((x.to(weight.dtype) - self.mean) / self.deviation)
        operator = None if x.requires_grad else feature_operator(x)
        if operator is None and x.element_size() == 2 and torch.is_autocast_enabled(x.device.type):
            narrow = torch.get_autocast_dtype(x.device.type)  # products in half precision need no wider copy
            x = drop_entries(x, p, key, layer, narrow)
            return affine(self.bias, x, weight)
        if operator is None:
            out = affine(None, drop_entries(x.to(weight.dtype), p, key, layer), weight)
        else:
            out = aggregate(drop_weights(operator, p, key, layer), weight)
        return out if self.bias is None else out + self.bias


def feature_operator(x: Tensor) -> Operator | None:
    """The features as an operator with its transpose, made once per tensor; None for features that are dense."""
    if is_plain() and x.layout == torch.strided:
        return None
    return made_once((id(x),), x, lambda: _make_operator(x))


def is_dense(x: Tensor) -> bool:
    """Whether features are multiplied as they are, by a look at the first of them."""
    return x.layout == torch.strided and feature_operator(feature_rows(x, slice(0, min(len(x), 1 << 16)))) is None


def mark_dense(x: Tensor) -> Tensor:
    """`x`, which is multiplied as it is, without a look at its zeros."""
    made_once((id(x),), x, lambda: None)
    return x


def feature_rows(x: Tensor, rows: slice) -> Tensor:
    """Some of the rows of features without gradients, in their memory; the same tensor each time, with its operator."""
    return made_once((id(x), rows.start, rows.stop), x, lambda: slice_rows(x, rows))


def made_once(key: tuple[int, ...], x: Tensor, make: Callable[[], Result]) -> Result:
    """What `make` gives, kept as long as `x` lives and does not change."""
    if key in _known and _is_of(key, x):
        return _known[key][2]
    made, dropped = make(), partial(_forget, _known, key)  # the table by value: at exit a module's names are gone
    _known[key] = (weakref.ref(x, dropped), x._version, made)
    return made


def known(key: tuple[int, ...], x: Tensor) -> Any:
    """What was made of `x` under this key; None: nothing, or `x` changed since."""
    return _known[key][2] if key in _known and _is_of(key, x) else None


def _is_of(key: tuple[int, ...], x: Tensor) -> bool:
    """Whether what is kept under a key was made of `x` as it is now; another tensor may have had its id."""
    owner, version, _ = _known[key]
    return owner() is x and version == x._version


def forget(key: tuple[int, ...]) -> None:
    """Keep what was made under this key no longer."""
    _known.pop(key, None)


def _forget(known: dict[tuple[int, ...], Any], key: tuple[int, ...], _: Any) -> None:
    known.pop(key, None)


def _make_operator(x: Tensor) -> Operator | None:
    if x.layout == torch.strided:
        if x.element_size() == 1 or x.count_nonzero() >= SPARSE_BELOW * x.numel():  # 8 bits are for dense ones
            return None
        rows, columns = x.nonzero(as_tuple=True)
        values = x.detach()[rows, columns]
    elif x.layout == torch.sparse_coo:
        x = x.detach().coalesce()
        (rows, columns), values = x.indices(), x.values()
    else:
        parts = (x.crow_indices().cpu(), x.col_indices().cpu(), x.detach().values().cpu())
        return Operator.from_csr(*parts, (x.shape[0], x.shape[1])).to(x.device)
    return Operator.from_edges(rows.cpu(), columns.cpu(), values.cpu(), (x.shape[0], x.shape[1])).to(x.device)


class BatchNorm(nn.BatchNorm1d):
    """Each column standardised over the nodes, then scaled and shifted by what is learned (Ioffe and Szegedy 2015).

    In training by the pass at hand; later by the running average of mean and variance, which starts at the first
    pass: PyTorch's starts at 0 and 1, from where columns as small as scaled features need a hundred passes.

    >>> import torch
    >>> norm = BatchNorm(1)
    >>> _ = norm(torch.tensor([[0.001], [0.003]]))
    >>> round(float(norm.running_mean), 6)
    0.002
    """

    def forward(self, x: Tensor) -> Tensor:
        """The standardised columns, `[N, d]`."""
        if self.training and len(x) == 1:  # which has no variance
            return batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        if self.training:
            assert self.num_batches_tracked is not None
            self.momentum = max(0.1, 1 / (1 + int(self.num_batches_tracked)))
        return super().forward(x)


class UnitBatchNorm(BatchNorm):
    """:class:`BatchNorm` of rows scaled to length one; rows of zeros stay so.

    >>> import torch
    >>> torch.allclose(UnitBatchNorm(2).eval()(torch.tensor([[3.0, 4.0]])), torch.tensor([[0.6, 0.8]]), atol=1e-3)
    True
    """

    def forward(self, x: Tensor) -> Tensor:
        """The standardised columns, `[N, d]`."""
        return super().forward(nn.functional.normalize(x))


class PassNorm(nn.Module):
    """Each column standardised over the nodes of the pass at hand in training, and of the last such pass later.

    Later it is one fixed affine map, so that a state that grows on with a longer graph grows on behind it. One is added
    to the variance: a column that is almost constant stays so.

    Args:
        channels: number of columns d.

    >>> import torch
    >>> norm = PassNorm(1)
    >>> _ = norm(torch.tensor([[-2.0], [2.0]]) * 6**0.5 / 2)
    >>> round(float(norm.eval()(torch.tensor([[5 * 7**0.5]]))), 4)
    5.0
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("deviation", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """The standardised columns, `[N, d]`."""
        if not self.training:
            return (x - self.mean) / self.deviation
        mean, deviation = x.mean(0), (x.var(0, correction=0) + 1).sqrt()
        self.mean.copy_(mean.detach())
        self.deviation.copy_(deviation.detach())
        return (x - mean) / deviation


class MaskKey(NamedTuple):
    """The RNG key of one forward pass: its random masks are a hash of the key, the layer, the node and the column.

    Attributes:
        seed: the run's seed.
        epoch: number of the epoch.
        number: number of the pass inside the epoch.
        nodes: the user's node in each row, `[N]`, whose masks the row gets; None: row i is node i.
    """

    seed: int
    epoch: int = 0
    number: int = 0
    nodes: Tensor | None = None

    @classmethod
    def random(cls) -> MaskKey:
        """A key from torch's global generator."""
        return cls(int(torch.randint(2**62, ())))

    def fold_in(self, layer: int) -> int:
        """The key of one layer's masks."""
        return hash_key(self.seed, self.epoch, self.number, layer)

    def of_rows(self, rows: slice, device: torch.device) -> MaskKey:
        """The key for some of the rows alone, which get the masks that they have among all."""
        nodes = torch.arange(rows.start, rows.stop, device=device) if self.nodes is None else self.nodes[rows]
        return self._replace(nodes=nodes)

    def rows(self, like: Tensor) -> Tensor:
        """The node of each row of `like`, `[N]`."""
        return torch.arange(like.shape[0], device=like.device) if self.nodes is None else self.nodes


def drop_entries(x: Tensor, p: float, key: MaskKey | None, layer: int, dtype: torch.dtype | None = None) -> Tensor:
    """`x` with each entry dropped with probability `p` and the others scaled by 1/(1 − p); unchanged without a key.

    Where that makes a copy of what needs no gradient, it may be in another type.
    """
    if key is None or p == 0:
        return x
    return drop(x, key.fold_in(layer), key.rows(x), p, whole=False, dtype=dtype)


def drop_rows(x: Tensor, p: float, key: MaskKey | None, layer: int) -> Tensor:
    """The same for whole rows: DropNode of GRAND (Feng et al. 2020)."""
    if key is None or p == 0:
        return x
    return drop(x, key.fold_in(layer), key.rows(x), p, whole=True)


def drop_weights(operator: Operator, p: float, key: MaskKey | None, layer: int) -> Operator:
    """The same for the stored entries of a sparse matrix."""
    if key is None or p == 0:
        return operator
    return operator.with_weight(masked_weight(operator, key.fold_in(layer), p, key.nodes))


_state_type: ContextVar[torch.dtype | None] = ContextVar("state_type", default=None)


def states_in(dtype: torch.dtype | None) -> AbstractContextManager[None]:
    """Inside, models propagate states and messages in `dtype`; None: in the type of their parameters.

    >>> with states_in(torch.bfloat16):
    ...     state_type()
    torch.bfloat16
    """
    return setting(_state_type, dtype)


def state_type() -> torch.dtype | None:
    """The type that states are propagated in, or None: that of the parameters."""
    return _state_type.get()
