"""Many trainings at once: their gradient by hand, their steps, and what a rule keeps."""

from dataclasses import replace

import torch

from benchmarks.random_propagation import RULE, Setting, Task, Trainings, choose, spread_rows, transition


def make(setting: Setting, size: int = 2) -> Trainings:
    random = torch.Generator().manual_seed(0)
    x = torch.rand(12, 5, generator=random)
    columns, weights = torch.randint(12, (12, 4), generator=random), torch.rand(12, 4, generator=random)
    val = torch.zeros(size, 12, dtype=torch.bool).index_fill_(1, torch.arange(4, 8), True)
    held = torch.zeros(size, 12, dtype=torch.bool).index_fill_(1, torch.arange(8, 12), True)
    whole = spread_rows(columns, weights, x)
    train, others = torch.arange(4).expand(size, -1), torch.arange(4, 12).expand(size, -1)
    matrix = transition(torch.arange(12), torch.arange(12).roll(1), 12, symmetric=False)
    task = Task(x, columns[None], weights[None], whole, whole, torch.arange(12) % 3, train, others, val, held, matrix)
    return Trainings(task, setting, seed=1, alike=size)


def test_the_gradient_by_hand_is_that_of_the_loss() -> None:
    trainings = make(replace(RULE, threshold=0.9, warmup=4, temperature=0.5))
    random = torch.Generator().manual_seed(3)
    scores = torch.randn(2, 2, 7, 3, generator=random, requires_grad=True)
    target, counts = torch.tensor([[0, 1, 2], [2, 2, 0]]), torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    found = scores.softmax(-1)
    drawn_to = trainings._target(found[:, :, 3:].detach(), None)
    slope = trainings._slope(found.detach(), torch.eye(3)[target], counts, 1, *drawn_to)
    average = found[:, :, 3:].mean(1).detach()
    sharp = (average**2 / (average**2).sum(-1, keepdim=True))[:, None]
    sure = (average.amax(-1) > 0.3).float()
    apart = ((found[:, :, 3:] - sharp).square().sum(-1).mean(1) * sure).sum(1) / sure.sum(1)
    logs = found[:, :, :3].log().gather(-1, target[:, None, :, None].expand(-1, 2, -1, -1))[..., 0].mean(1)
    loss = (-(logs * counts).sum(1) / counts.sum(1) + RULE.weight * 0.5 * apart).sum()
    torch.testing.assert_close(slope, torch.autograd.grad(loss, scores)[0])


def test_steps_lower_the_loss_and_leave_a_curve() -> None:
    alone = replace(RULE, weight=0.0, decay=0.0, input_dropout=0.0, drop_node=0.0)
    trainings = make(replace(alone, steps=200, others=4, batches="in turn", labelled=3))
    trainings.run()
    curve = torch.stack(trainings.curve)
    assert curve.shape == (20, 3, 2)
    assert torch.isfinite(curve).all()
    found = trainings._predict(trainings.task.whole[:4]).argmax(-1)
    assert (found == trainings.task.y[:4]).float().mean() > 0.7


def test_mixed_pairs_stay_among_labelled_and_among_others() -> None:
    trainings = make(replace(RULE, mixed=0.5))
    x = torch.zeros(2, 14, 5)
    x[:, 3:7], x[:, 10:] = 1.0, 1.0  # nodes without a label, in both passes
    truth, sure = torch.eye(3).expand(2, -1, -1), torch.ones(2, 4)
    mixed, target, (_, kept) = trainings._mix(x, truth, (torch.eye(4)[:, :3].expand(2, -1, -1), sure))
    torch.testing.assert_close(mixed, x)
    torch.testing.assert_close(target.sum(-1), torch.ones(2, 3))
    assert float(target.diagonal(dim1=1, dim2=2).min()) >= 0.5
    torch.testing.assert_close(kept, sure)


def test_seeds_of_a_split_are_drawn_to_their_mean() -> None:
    trainings = make(replace(RULE, aim="together", steps=10, others=4))
    trainings.run()
    assert trainings.smoothed is not None
    torch.testing.assert_close(trainings.smoothed[0], trainings.smoothed[1])


def test_smoothed_probabilities_take_the_training_labels_along() -> None:
    trainings = make(replace(RULE, order=1, alpha=0.5))
    found = torch.full((2, 12, 3), 1 / 3)
    known = torch.eye(3)[trainings.task.y[:4]]
    smoothed = trainings._smooth(found)
    torch.testing.assert_close(smoothed[1, 3], known[3] * 0.75 + known[2] * 0.25)
    torch.testing.assert_close(smoothed[0, 4], found[0, 4] * 0.75 + known[3] * 0.25)


def test_a_step_is_the_mean_over_a_node_and_its_senders() -> None:
    receiver, sender = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 0])
    matrix = transition(receiver, sender, 3, symmetric=False).to_dense()
    torch.testing.assert_close(matrix, torch.tensor([[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))


def test_a_rule_with_patience_stops() -> None:
    curve = [[0.5, 1.0, 0.1], *[[0.4, 0.9, 0.2]] * 150, [0.6, 0.8, 0.3]]
    assert [choose(curve, rule)[3] for rule in ("accuracy", "loss", "both")] == [0.1, 0.3, 0.3]
