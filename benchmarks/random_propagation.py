"""What helps random propagation in mini-batches (GRAND+): many trainings at once, on development splits.

    python -m benchmarks.random_propagation [--device cuda] [--settings NAME …] [--graphs cora citeseer] [--splits 16]
        [--first 0] [--seeds 2] [--steps 8000] [--jobs 1]

The recipe `sampled`, here in one generation, and the published code beside it differ in a dozen details, and its
settings in as many numbers. Here all trainings of one setting on one graph, over splits and seeds, are one batch of
matrices, so that a GPU trains them together; what differs from the recipe is in the setting's name. After every ten
steps validation and held-out nodes are predicted. Held out are nodes that are neither in the development split's
training and validation nor in the public test set, so that nothing here has read the latter. A line of
`results/random_propagation.jsonl` is one setting on one graph: for each split and seed what three rules would have
kept, `accuracy` (the best; ties by loss; it stops after 150 checks without a better one, as the recipe does), `loss`
(the least) and `both` (the last check at which neither was worse than at the one kept before, GRAND's rule), and for
each split the mean probabilities of its seeds. Finished lines are not run again; `results/random_propagation.md` is the
table of all of them.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.lines import read_lines, row, write_lines_page
from gpnn.csr import compress
from gpnn.nn.sampled_kernel import keep_largest
from gpnn.nn.sampled_rows import LEAST, walk_weights

RESULTS = Path(__file__).parent / "results" / "random_propagation.jsonl"
COMMAND = "python -m benchmarks.random_propagation --device cuda --jobs 3"
LATER = "--seeds 1 --steps 3000 --jobs 4"  # of the lines of sixteen trainings; five with 4,000 steps
EVERY = 10  # steps between two checks
PATIENCE = 150  # checks


@dataclass(frozen=True)
class Setting:
    """What a training has; the defaults are a generation of the recipe `sampled`."""

    order: int = 10
    alpha: float = 0.2
    hidden: int = 64
    input_dropout: float = 0.5
    dropout: float = 0.2
    drop_node: float = 0.5
    decay: float = 1e-3
    rate: float = 0.01
    weight: float = 1.5  # λ
    warmup: int = 1000  # steps
    temperature: float = 0.1
    threshold: float = 2.0  # times chance
    labelled: int = 50
    others: int = 100
    passes: int = 2
    steps: int = 4000
    entries: int = 32
    least: float = LEAST
    last: str = "rest"  # the longest walk's weight: all that is left, or the "geometric" one
    repeated: bool = True  # whether an edge that the file has twice counts twice
    start: str = "glorot"  # or "uniform", ± 1/√inputs, biases too
    batches: str = "drawn"  # or "in turn": the training nodes in a random order, the last batch smaller
    checked: str = "whole"  # validation takes the "whole" propagation or the "largest" entries
    scale: str = "rows"  # of features; or "idf", "root", "length"
    symmetric: bool = False  # D^-½ A D^-½ instead of the mean
    like: int = 0  # edges added to the nodes with the most similar features
    like_below: int | None = None  # only from nodes of fewer neighbours than that
    smooth: float = 0.0  # of labels
    decay_first: bool = False  # the first layer alone decays
    # What others are drawn to: the average of the passes; the prediction by the "whole" matrix; that of the last check
    # with the training labels, propagated once more ("smoothed"); the mean of the first and this ("mixed"); or the mean
    # prediction at the last check of all seeds of the split ("together").
    aim: str = "passes"
    other_alpha: float | None = None  # of every second pass
    mixed: float = 0.0  # mixup: pairs of nodes and of what they are drawn to, with a share of Beta(mixed, mixed)


RULE = Setting()
REFERENCE = replace(
    RULE, least=0.0, last="geometric", repeated=False, start="uniform", batches="in turn", checked="largest"
)
CORA = {"order": 20, "dropout": 0.7}
CITESEER = {"alpha": 0.4, "hidden": 256, "input_dropout": 0.0, "dropout": 0.0, "rate": 0.001, "weight": 0.8}
CITESEER = {**CITESEER, "warmup": 500, "steps": 8000}
NARROW = {**CITESEER, "hidden": 64}
AVERAGED = replace(RULE, order=4, alpha=0.0, temperature=0.3, threshold=0.0, decay=5e-4, input_dropout=0.3)
SETTINGS: dict[str, Setting] = {
    "rule": RULE,
    "mean of 4": replace(RULE, order=4, alpha=0.0),
    "temperature 0.3": replace(RULE, temperature=0.3),
    "reference, GRAND+'s for Cora": replace(REFERENCE, **CORA),
    "GRAND+'s for Cora": replace(RULE, **CORA),
    "decay 5e-4": replace(RULE, decay=5e-4),
    "λ 2.5": replace(RULE, weight=2.5),
    "aim smoothed": replace(RULE, aim="smoothed"),
    "400 others": replace(RULE, others=400),
    "dropout 0.5": replace(RULE, dropout=0.5),
    "input dropout 0.8": replace(RULE, input_dropout=0.8),
    "input dropout 0.2": replace(RULE, input_dropout=0.2),
    "all labelled": replace(RULE, labelled=200),
    "aim mixed": replace(RULE, aim="mixed"),
    "λ 0.8": replace(RULE, weight=0.8),
    "node dropout 0.3": replace(RULE, drop_node=0.3),
    "uniform start": replace(RULE, start="uniform"),
    "four passes": replace(RULE, passes=4),
    "α 0.1": replace(RULE, alpha=0.1, order=15),
    "256 channels": replace(RULE, hidden=256),
    "rate 0.003": replace(RULE, rate=0.003),
    "symmetric": replace(RULE, symmetric=True),
    "node dropout 0.7": replace(RULE, drop_node=0.7),
    "no threshold": replace(RULE, threshold=0.0),
    "GRAND+'s for Citeseer": replace(RULE, **CITESEER),
    "reference, GRAND+'s for Citeseer": replace(REFERENCE, **CITESEER),
    "GRAND+'s for Citeseer, 64 channels": replace(RULE, **NARROW),
    "GRAND+'s for Citeseer, 64 channels, input dropout 0.5": replace(RULE, **NARROW | {"input_dropout": 0.5}),
    "rate 0.001": replace(RULE, rate=0.001, steps=8000),
    "no dropout": replace(RULE, input_dropout=0.0, dropout=0.0),
    "α 0.4": replace(RULE, alpha=0.4),
    "reference, rule": REFERENCE,
    "idf": replace(RULE, scale="idf"),
    "aim whole": replace(RULE, aim="whole"),
    "dropout 0.7": replace(RULE, dropout=0.7),
    "64 entries": replace(RULE, entries=64),
    "exact rows": replace(RULE, least=0.0),
    "geometric walks": replace(RULE, last="geometric"),
    "labels in turn": replace(RULE, batches="in turn"),
    "edges once": replace(RULE, repeated=False),
    "checked on largest entries": replace(RULE, checked="largest"),
    "like `averaged`": AVERAGED,
    "like `averaged`, symmetric, 400 others": replace(AVERAGED, symmetric=True, others=400),
    "mean of 2": replace(RULE, order=2, alpha=0.0),
    "mean of 6": replace(RULE, order=6, alpha=0.0),
    "α 0.3": replace(RULE, alpha=0.3),
    "input dropout 0.7": replace(RULE, input_dropout=0.7),
    "decay 2e-4": replace(RULE, decay=2e-4),
    "decay 2e-3": replace(RULE, decay=2e-3),
    "first layer decays": replace(RULE, decay_first=True),
    "threshold 3": replace(RULE, threshold=3.0),
    "20 labelled": replace(RULE, labelled=20),
    "32 channels": replace(RULE, hidden=32),
    "length one": replace(RULE, scale="length"),
    "slow ramp": replace(RULE, warmup=2000),
    "labels smooth": replace(RULE, smooth=0.1),
    "3 nodes alike": replace(RULE, like=3),
    "5 nodes alike": replace(RULE, like=5),
    "10 nodes alike": replace(RULE, like=10),
    "3 nodes alike, α 0.3": replace(RULE, like=3, alpha=0.3),
    "3 nodes alike, of fewer than 3 neighbours": replace(RULE, like=3, like_below=3),
    "5 nodes alike, of fewer than 3 neighbours": replace(RULE, like=5, like_below=3),
    "mean of 8": replace(RULE, order=8, alpha=0.0),
    "temperature 0.5": replace(RULE, temperature=0.5),
    "λ 4": replace(RULE, weight=4.0),
    "α 0.4 and 0.1": replace(RULE, alpha=0.4, other_alpha=0.1),
    "α 0.3, 20 steps": replace(RULE, alpha=0.3, order=20),
    "pairs mixed": replace(RULE, mixed=0.5),
    "pairs mixed, λ 2.5": replace(RULE, mixed=0.5, weight=2.5),
    "aim together": replace(RULE, aim="together"),
}


@dataclass(frozen=True, eq=False)
class Task:
    """A graph under one setting, and the splits of its trainings.

    Attributes:
        x: features, `[N, F]`.
        columns, weights: the largest entries of the rows of the propagation matrix, of one pass after another,
            `[passes or 1, N, k]`.
        whole, largest: features propagated by the whole matrix and by these entries, `[N, F]`.
        y: classes, `[N]`.
        train, others: nodes with a training label and all others of each training, `[B, ·]`.
        val, held: masks, `[B, N]`.
        matrix: of one step, sparse `[N, N]`.
    """

    x: Tensor
    columns: Tensor
    weights: Tensor
    whole: Tensor
    largest: Tensor
    y: Tensor
    train: Tensor
    others: Tensor
    val: Tensor
    held: Tensor
    matrix: Tensor

    @classmethod
    def of(cls, graph: str, setting: Setting, splits: list[int], device: str) -> Task:
        """The task of some splits, one training each."""
        known = {split: load(graph, split) for split in set(splits)}
        given = [known[split] for split in splits]
        x = given[0].x
        x = scale((x if x.layout == torch.strided else x.to_dense()).float().to(device), setting.scale)
        receiver, sender = join(given[0].edge_index, x, setting)
        senders = compress(receiver.cpu().numpy(), sender.cpu().numpy(), len(x), with_edge=False)
        alphas = [setting.alpha] if setting.other_alpha is None else [setting.alpha, setting.other_alpha]
        walks = [walks_of(replace(setting, alpha=alpha)) for alpha in alphas]
        shape = (len(walks), len(x), min(setting.entries, len(x)))
        columns, weights = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        for place, each in enumerate(walks):
            keep_largest(senders.ptr, senders.index, each, setting.least, columns[place], weights[place])
        if setting.symmetric:  # entries of the mean's rows, times √(own degree / sender's)
            degree = np.diff(senders.ptr) + 1.0
            weights *= np.sqrt(degree[:, None] / degree[columns]).astype(np.float32)
        matrix = transition(receiver, sender, len(x), symmetric=setting.symmetric)
        whole = propagate(matrix, np.mean(walks, 0), x)
        entries = torch.from_numpy(columns).to(device), torch.from_numpy(weights).to(device)
        largest = whole if setting.checked == "whole" else spread_rows(entries[0][0], entries[1][0], x)
        train = torch.stack([each.train_mask.nonzero().flatten() for each in given])
        others = torch.stack([(~each.train_mask).nonzero().flatten() for each in given])
        val, held = (torch.stack([each[name] for each in given]) for name in ("val_mask", "test_mask"))
        parts = (each.to(device) for each in (given[0].y.clamp_min(0), train, others, val, held))
        return cls(x, *entries, whole, largest, *parts, matrix)


def propagate(matrix: Tensor, walks: np.ndarray, x: Tensor) -> Tensor:
    """Σₜ walks[t] · matrixᵗ x."""
    found, at = walks[0] * x, x
    for walk in walks[1:]:
        at = matrix @ at
        found = found + walk * at
    return found


def load(graph: str, split: int) -> Any:
    """A graph with few labels: a development split, or for a graph of `kinds` one that no table there has.

    Of `nell`, rate 0.001, that is one training node per class and 500 validation nodes among those that are not in the
    public test set.
    """
    from gpnn import load_dataset
    from gpnn.data.splits import split_per_class

    if graph == "nell":
        data = load_dataset(graph, rate=0.001)
        known = data.y.masked_fill(data.test_mask, -1)
        data.update(split_per_class(known, per_class=1, num_val=500, seed=split)._asdict())
        return data
    if graph in ("cora", "citeseer", "pubmed"):
        return load_dataset(graph, split="development", seed=split)
    return load_dataset(graph, split="per_class", seed=1000 + split)


def spread_rows(columns: Tensor, weights: Tensor, x: Tensor) -> Tensor:
    """Features summed along rows of `[n, k]` entries, scaled to sum one, `[n, F]`."""
    weights = weights / weights.sum(1, keepdim=True).clamp_min(1e-12)
    return torch.zeros(len(weights), len(x), device=x.device).scatter_add_(1, columns, weights) @ x


def walks_of(setting: Setting) -> np.ndarray:
    """The weight of walks of each length."""
    if setting.last == "rest" or not setting.alpha:
        return walk_weights(setting.order, setting.alpha)
    weights = setting.alpha * (1 - setting.alpha) ** np.arange(setting.order + 1.0)
    return weights / weights.sum()


def scale(x: Tensor, how: str) -> Tensor:
    """Features, scaled by row."""
    if how == "idf":
        x = x * (len(x) / (x > 0).sum(0).clamp_min(1)).log()
    if how == "root":
        x = x.sqrt()
    size = x.square().sum(1, keepdim=True).sqrt() if how == "length" else x.sum(1, keepdim=True)
    return x / torch.where(size == 0, 1.0, size)


def join(edges: Tensor, x: Tensor, setting: Setting) -> tuple[Tensor, Tensor]:
    """Receiver and sender of every edge, with those to the nodes whose features are most alike."""
    edges = edges.to(x.device)
    if not setting.repeated:
        edges = edges.unique(dim=1)
    if setting.like:
        words = torch.nn.functional.normalize(scale(x, "idf"))
        alike = words @ words.T
        best = alike.fill_diagonal_(-1).topk(setting.like, 1)
        pairs = torch.stack([torch.arange(len(x), device=x.device)[:, None].expand_as(best.indices), best.indices])
        wanted = best.values > 0
        if setting.like_below is not None:
            wanted &= (torch.bincount(edges[1], minlength=len(x)) < setting.like_below)[:, None]
        pairs = pairs.flatten(1)[:, wanted.flatten()]
        edges = torch.cat([edges, pairs, pairs.flip(0)], 1).unique(dim=1)
    return edges[1], edges[0]


def transition(receiver: Tensor, sender: Tensor, size: int, *, symmetric: bool) -> Tensor:
    """The matrix of one step, every node sending to itself too, sparse `[N, N]`."""
    own = torch.arange(size, device=sender.device)
    receiver, sender = torch.cat([receiver, own]), torch.cat([sender, own])
    degree = torch.bincount(receiver, minlength=size).float()
    weight = (degree[receiver] * degree[sender]) ** -0.5 if symmetric else 1 / degree[receiver]
    return torch.sparse_coo_tensor(torch.stack([receiver, sender]), weight, (size, size)).coalesce().to_sparse_csr()


@dataclass(eq=False)
class Trainings:
    """Networks of two layers, `B` of them, each trained on a split of its own by Adam; gradients by hand."""

    task: Task
    setting: Setting
    seed: int
    alike: int = 1  # trainings of the same split, one after another
    params: list[Tensor] = field(init=False)
    curve: list[Tensor] = field(default_factory=list)  # of each check: validation accuracy, loss, held-out, [3, B]
    kept: Tensor | None = None  # probabilities of the best check so far, [B, N, C]
    best: Tensor | None = None

    def __post_init__(self) -> None:
        task, device = self.task, self.task.x.device
        self.random = torch.Generator(device).manual_seed(self.seed)
        classes = int(task.y.max()) + 1
        sizes, size = (task.x.shape[1], self.setting.hidden, classes), len(task.train)
        self.params = []
        for wide, narrow in pairwise(sizes):
            uniform = self.setting.start == "uniform"
            limit = wide**-0.5 if uniform else (6 / (wide + narrow)) ** 0.5
            for shape, bound in (((size, wide, narrow), limit), ((size, 1, narrow), limit if uniform else 0.0)):
                self.params.append((self._rand(*shape) * 2 - 1) * bound)
        self.moments = (
            [torch.zeros_like(each) for each in self.params],
            [torch.zeros_like(each) for each in self.params],
        )
        self.count = torch.zeros((), device=device)
        self.order: Tensor | None = None
        self.smoothed: Tensor | None = None

    def _rand(self, *shape: int) -> Tensor:
        return torch.rand(*shape, device=self.task.x.device, generator=self.random)

    def run(self) -> None:
        """All steps and checks."""
        for number in range(self.setting.steps):
            self._step(number)
            if number % EVERY == EVERY - 1:
                self._check()

    def _draw(self, number: int) -> tuple[Tensor, Tensor]:
        """Training nodes `[B, n]` with whether they count, and others behind them."""
        task, size = self.task, min(self.setting.labelled, self.task.train.shape[1])
        counts = torch.ones(len(task.train), size, device=task.x.device)
        batches = -(-task.train.shape[1] // size)
        if self.setting.batches == "drawn" or number % batches == 0 or self.order is None:
            self.order = self._rand(*task.train.shape).argsort(1)
        place = self.order[:, :size]
        if self.setting.batches != "drawn":
            turn = number % batches
            place = self.order[:, turn * size : (turn + 1) * size]
            missing = size - place.shape[1]
            if missing:
                place, counts[:, -missing:] = torch.cat([place, self.order[:, :missing]], 1), 0.0
        other = (self._rand(len(task.others), self.setting.others) * task.others.shape[1]).long()
        return torch.cat([task.train.gather(1, place), task.others.gather(1, other)], 1), counts

    def _step(self, number: int) -> None:
        task, setting = self.task, self.setting
        nodes, counts = self._draw(number)
        size, drawn, shown = len(nodes), nodes.shape[1], counts.shape[1]
        which = torch.arange(setting.passes, device=nodes.device)[:, None] % len(task.weights)
        weights, columns = task.weights[which, nodes[:, None]], task.columns[which, nodes[:, None]]
        weights *= self._rand(*weights.shape) >= setting.drop_node
        x = spread_rows(columns.flatten(0, 2), weights.flatten(0, 2), task.x).view(size, setting.passes * drawn, -1)
        if setting.input_dropout:
            x *= self._rand(*x.shape) >= setting.input_dropout
            x /= 1 - setting.input_dropout
        truth = torch.nn.functional.one_hot(task.y[nodes[:, :shown]], int(task.y.max()) + 1).float()
        truth = truth * (1 - setting.smooth) + setting.smooth / truth.shape[-1]
        drawn_to = None
        if setting.mixed:
            found = self._predict(x).exp().view(size, setting.passes, drawn, -1)[:, :, shown:]
            x, truth, drawn_to = self._mix(x, truth, self._target(found, self._aim(nodes[:, shown:])))
        first, first_bias, second, second_bias = self.params
        raw = torch.baddbmm(first_bias, x, first)
        mask = (raw > 0).float()
        if setting.dropout:
            mask *= (self._rand(*raw.shape) >= setting.dropout) / (1 - setting.dropout)
        hidden = raw * mask
        found = torch.baddbmm(second_bias, hidden, second).softmax(-1)
        passes = found.view(size, setting.passes, drawn, -1)
        if drawn_to is None:
            drawn_to = self._target(passes[:, :, shown:], self._aim(nodes[:, shown:]))
        slope = self._slope(passes, truth, counts, number, *drawn_to).view_as(found)
        back = (slope @ second.mT) * mask
        grads = [x.mT @ back, back.sum(1, keepdim=True), hidden.mT @ slope, slope.sum(1, keepdim=True)]
        self.count += 1
        for layer in (slice(0, 2), slice(2, 4)):
            torch._fused_adam_(
                self.params[layer],
                grads[layer],
                *(each[layer] for each in self.moments),
                [],
                [self.count] * 2,
                lr=setting.rate,
                beta1=0.9,
                beta2=0.999,
                weight_decay=0.0 if setting.decay_first and layer.start else setting.decay,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )

    def _aim(self, nodes: Tensor) -> Tensor | None:
        """What some nodes `[B, n]` are drawn to beside or instead of the average of the passes, `[B, n, C]`."""
        if self.setting.aim == "whole":
            return self._predict(self.task.whole[nodes]).exp()
        if self.smoothed is None:
            return None
        return self.smoothed.gather(1, nodes[..., None].expand(-1, -1, self.smoothed.shape[-1]))

    def _smooth(self, found: Tensor) -> Tensor:
        """Probabilities of all nodes with the training labels in place of theirs, propagated, `[B, N, C]`."""
        task, classes = self.task, found.shape[-1]
        known = torch.nn.functional.one_hot(task.y[task.train], classes).to(found)
        found = found.scatter(1, task.train[..., None].expand(-1, -1, classes), known)
        spread = propagate(task.matrix, walks_of(self.setting), found.transpose(0, 1).flatten(1))
        spread = spread.view(found.shape[1], len(found), classes).transpose(0, 1)
        return spread / spread.sum(-1, keepdim=True).clamp_min(1e-12)

    def _target(self, others: Tensor, aim: Tensor | None) -> tuple[Tensor, Tensor]:
        """What nodes without a label are drawn to, `[B, n, C]`, and whether that is sure enough, `[B, n]`."""
        setting, average = self.setting, others.mean(1)
        if aim is not None:
            average = (average + aim) / 2 if setting.aim == "mixed" else aim
        sharp = (average.clamp_min(1e-30).log() / setting.temperature).softmax(-1)
        return sharp, (average.amax(-1) > min(0.75, setting.threshold / average.shape[-1])).float()

    def _mix(
        self, x: Tensor, truth: Tensor, drawn_to: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Labelled nodes mixed with each other, and others with others, in all passes alike."""
        size, shown, passes = len(x), truth.shape[1], self.setting.passes
        drawn = x.shape[1] // passes
        half = torch.full((size, drawn), self.setting.mixed, device=x.device)
        pair = torch._standard_gamma(half, self.random), torch._standard_gamma(half, self.random)
        share = (pair[0] / (pair[0] + pair[1]).clamp_min(1e-12))[..., None]
        share = torch.maximum(share, 1 - share)
        parts = [self._rand(size, count).argsort(1) for count in (shown, drawn - shown)]
        place = torch.cat([parts[0], parts[1] + shown], 1)
        x = x.view(size, passes, drawn, -1)
        other = x.gather(2, place[:, None, :, None].expand_as(x))
        x = (share[:, None] * x + (1 - share[:, None]) * other).flatten(1, 2)
        sharp, sure = drawn_to

        def mixed(values: Tensor, own: Tensor, share: Tensor) -> Tensor:
            return share * values + (1 - share) * values.gather(1, own[..., None].expand_as(values))

        truth, sharp = mixed(truth, parts[0], share[:, :shown]), mixed(sharp, parts[1], share[:, shown:])
        return x, truth, (sharp, mixed(sure[..., None], parts[1], share[:, shown:])[..., 0])

    def _slope(self, found: Tensor, truth: Tensor, counts: Tensor, number: int, sharp: Tensor, sure: Tensor) -> Tensor:
        """The gradient of the loss by the scores, `[B, passes, nodes, C]`."""
        setting, shown = self.setting, counts.shape[1]
        slope = torch.zeros_like(found)
        share = (counts / counts.sum(1, keepdim=True) / setting.passes)[:, None, :, None]
        slope[:, :, :shown] = (found[:, :, :shown] - truth[:, None]) * share
        others = found[:, :, shown:]
        sure = sure / sure.sum(1, keepdim=True).clamp_min(1)
        ramp = setting.weight * min(1.0, (number + 1) / setting.warmup)
        pull = 2 * (others - sharp[:, None]) * (sure / setting.passes * ramp)[:, None, :, None]
        slope[:, :, shown:] = others * (pull - (pull * others).sum(-1, keepdim=True))
        return slope

    def _predict(self, x: Tensor) -> Tensor:
        """Log probabilities of all nodes, `[B, N, C]`."""
        first, first_bias, second, second_bias = self.params
        return ((x @ first + first_bias).relu_() @ second + second_bias).log_softmax(-1)

    def _check(self) -> None:
        task = self.task
        whole = self._predict(task.whole)
        checked = whole if self.setting.checked == "whole" else self._predict(task.largest)
        right = (checked.argmax(-1) == task.y).float()
        val = (right * task.val).sum(1) / task.val.sum(1)
        loss = -(checked.gather(-1, task.y.expand(len(whole), -1)[..., None])[..., 0] * task.val).sum(1) / task.val.sum(
            1
        )
        held = ((whole.argmax(-1) == task.y).float() * task.held).sum(1) / task.held.sum(1)
        self.curve.append(torch.stack([val, loss, held]))
        if self.setting.aim in ("smoothed", "mixed"):
            self.smoothed = self._smooth(whole.exp())
        if self.setting.aim == "together":
            groups = whole.exp().view(-1, self.alike, *whole.shape[1:])
            self.smoothed = groups.mean(1, keepdim=True).expand_as(groups).flatten(0, 1)
        merit = val - 1e-4 * loss.clamp(max=9)
        if self.kept is None or self.best is None:
            self.kept, self.best = whole.exp(), merit
        better = merit > self.best
        self.best = torch.where(better, merit, self.best)
        self.kept = torch.where(better[:, None, None], whole.exp(), self.kept)


def share(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over the nodes of each mask, `[B]`."""
    return (values.float() * mask).sum(1) / mask.sum(1)


def run(
    graph: str, name: str, splits: range, seeds: int, device: str, steps: int, keep: Path | None = None
) -> dict[str, Any]:
    """All trainings of a setting on a graph; what each rule keeps of each."""
    from experiments.harness.machine import describe_machine

    torch.backends.cuda.matmul.allow_tf32 = True
    began = time.perf_counter()
    drawn = [split for split in splits for _ in range(seeds)]
    setting = replace(SETTINGS[name], steps=min(steps, SETTINGS[name].steps))
    task = Task.of(graph, setting, drawn, device)
    trainings = Trainings(task, setting, seed=splits.stop, alike=seeds)
    trainings.run()
    curves = torch.stack(trainings.curve).permute(2, 0, 1).tolist()  # [B, checks, 3]
    assert trainings.kept is not None
    mean = trainings.kept.view(len(splits), seeds, *trainings.kept.shape[1:]).mean(1)
    together = share(mean.argmax(-1) == task.y, task.held[::seeds])
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        torch.save(trainings.kept.half().cpu(), keep / (re.sub(r"\W+", "_", f"{graph} {name}", flags=re.ASCII) + ".pt"))
    return {
        "graph": graph,
        "setting": name,
        "splits": drawn,
        "steps": setting.steps,
        "kept": {rule: [choose(curve, rule) for curve in curves] for rule in RULES},
        "together": [round(value, 4) for value in together.tolist()],
        "seconds": round(time.perf_counter() - began, 1),
        "machine": describe_machine(),
    }


RULES = ("accuracy", "loss", "both")


def choose(curve: list[list[float]], rule: str) -> list[float]:
    """Number of the check, validation accuracy and loss, and held-out accuracy of what a rule keeps.

    >>> curve = [[0.5, 1.0, 0.4], [0.6, 1.2, 0.5], [0.5, 0.9, 0.45]]
    >>> [choose(curve, rule)[0] for rule in RULES]
    [2, 3, 3]
    """
    best = 0
    for at, (accuracy, loss, _) in enumerate(curve):
        if rule == "accuracy":
            better = (accuracy, -loss) > (curve[best][0], -curve[best][1])
        else:
            better = loss <= curve[best][1] and (rule == "loss" or accuracy >= curve[best][0])
        best = at if better else best
        if at - best >= PATIENCE and rule == "accuracy":
            break
    return [best + 1, *(round(value, 4) for value in curve[best])]


def table(lines: list[dict[str, Any]]) -> str:
    """Of each setting: held-out accuracy by rule and, paired over splits, what it has more than the recipe."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for line in lines:
        own = found.setdefault(line["graph"], {})
        own[line["setting"]] = merge(own[line["setting"]], line) if line["setting"] in own else line
    text = []
    for graph, own in found.items():
        head = ["setting", "trainings", "validation", "loss", *RULES, "seeds together", "against the recipe"]
        text += [f"**{graph}**, percent", "", row(head), row(["---"] * len(head))]
        for name, line in own.items():
            kept = line["kept"]
            first = kept["accuracy"]
            cells = [name, str(len(first)), f"{100 * fmean(each[1] for each in first):.2f}"]
            cells += [f"{fmean(each[2] for each in first):.3f}"]
            cells += [f"{100 * fmean(each[3] for each in kept[rule]):.2f}" for rule in RULES]
            cells += [f"{100 * fmean(line['together']):.2f}", _gain(line, own.get("rule"))]
            text.append(row(cells))
        text.append("")
    return "\n".join(text)


def merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The trainings of two lines of the same setting."""
    kept = {rule: one["kept"][rule] + other["kept"][rule] for rule in RULES}
    return one | {
        "splits": one["splits"] + other["splits"],
        "kept": kept,
        "together": one["together"] + other["together"],
    }


def _gain(line: dict[str, Any], other: dict[str, Any] | None) -> str:
    if other is None or line is other:
        return "–"
    means = []
    for each in (line, other):
        held: dict[int, list[float]] = {}
        for split, kept in zip(each["splits"], each["kept"]["accuracy"]):
            held.setdefault(split, []).append(kept[3])
        means.append({split: fmean(values) for split, values in held.items()})
    gains = [100 * (means[0][split] - means[1][split]) for split in means[0] if split in means[1]]
    error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
    return f"{fmean(gains):+.2f} ± {error:.2f}"


def write_page() -> None:
    """The page of all finished lines."""
    lines = read_lines(RESULTS)
    about = "\n\n".join((__doc__ or "").split("\n\n")[2:]).replace("\n", " ").strip()
    count = f"{sum(len(each['splits']) for each in lines)} trainings."
    command = f"`{COMMAND}`, then with `{LATER}`"
    title = "What helps random propagation in mini-batches"
    write_lines_page(RESULTS, title, [about, table(lines)], lines, count, command)


def main() -> None:
    """Run what is not done, a setting at a time, until the minutes are over, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--graphs", nargs="+", default=["cora", "citeseer"])
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--splits", type=int, default=16)
    parser.add_argument("--first", type=int, default=0, help="the first split")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8000, help="at most")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the kept probabilities")
    given = parser.parse_args()
    splits = range(given.first, given.first + given.splits)
    done = {(each["graph"], each["setting"]) for each in read_lines(RESULTS) if splits[0] in each["splits"]}
    todo = [(graph, name) for name in given.settings for graph in given.graphs if (graph, name) not in done]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        how = (splits, given.seeds, given.device, given.steps, given.keep)
        waiting = {pool.submit(run, *each, *how): each for each in todo}
        for future in as_completed(waiting):
            if future.exception() is not None:
                print(*waiting[future], repr(future.exception()), flush=True)
                continue
            line = future.result()
            with RESULTS.open("a") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            print(line["graph"], line["setting"], line["seconds"], flush=True)
    write_page()


if __name__ == "__main__":
    main()
