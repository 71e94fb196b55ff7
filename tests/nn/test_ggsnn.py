"""Questions about small graphs: by hand-made stories, and bAbI's own."""

import pytest
import torch

import gpnn
from gpnn.nn import GGSNN, GRAPH_HEADS, GatedSum, NodeSelection, mark_questions
from gpnn.nn.ggsnn import graph_argmax, graph_log_softmax, graph_of_node, graph_sum
from gpnn.schedule import partitioned, synchronous


def story(seed: int) -> tuple[gpnn.Graph, torch.Tensor, torch.Tensor]:
    """Four rooms in a row, in random order: annotations mark one that has a neighbour to the right, the answer is it.

    Edges run to the right as type 0 and back as type 1. Returns the graph, the annotations and the answer.
    """
    random = torch.Generator().manual_seed(seed)
    rooms = torch.randperm(4, generator=random)
    left, right = rooms[:-1], rooms[1:]
    graph = gpnn.Graph(torch.cat([left, right]), torch.cat([right, left]), 4, [0] * 3 + [1] * 3)
    asked = int(torch.randint(3, (), generator=random))
    return graph, torch.eye(4)[:, rooms[asked], None], rooms[asked + 1]


def stories(count: int, first: int = 0) -> tuple[gpnn.Graph, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The union, its annotations, where each graph begins, and the answers as nodes of the union."""
    graphs, annotations, answers = zip(*(story(first + number) for number in range(count)))
    union, ptr = gpnn.Graph.union(graphs)
    return union, torch.cat(annotations), ptr, torch.stack(answers) + ptr[:-1]


def train(model: GGSNN, batch: tuple, epochs: int, lr: float = 0.02) -> list[float]:
    """The loss before each step."""
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for _ in range(epochs):
        x, plan, ptr, answer = batch
        optimizer.zero_grad()
        loss = model.loss(model(x, plan, ptr), answer)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def accuracy(model: GGSNN, batch: tuple) -> float:
    x, plan, ptr, answer = batch
    with torch.no_grad():
        chosen = model.choose(model(x, plan, ptr), ptr)
    return (chosen == answer.view(len(answer), -1)).all(1).float().mean().item()


def test_finds_the_room_to_the_right():
    batches = []
    for first, count in ((0, 30), (1000, 100)):
        union, x, ptr, answer = stories(count, first)
        batches.append((x, gpnn.lower(union, synchronous(union, 3)), ptr, answer))
    model = GGSNN(1, 6, output="node", num_edge_types=2)
    losses = train(model, batches[0], 60)
    assert losses[-1] < 0.1 * losses[0]
    assert accuracy(model, batches[1]) == 1.0


@pytest.mark.parametrize("output", ["node", "class"])
def test_a_union_is_its_graphs_whatever_the_blocks(output):
    model = GGSNN(1, 5, 3, output=output, num_outputs=2, num_edge_types=2)
    union, x, ptr, _ = stories(4)
    blocks = torch.arange(4).repeat_interleave(4)
    together = model(x, gpnn.lower(union, synchronous(union, 2)), ptr)
    by_block = gpnn.lower(union, partitioned(union, blocks, rounds=2, cut=0))
    for runner in ("fused", "streamed"):
        model.runner = runner
        for ours, expected in zip(model(x, by_block, ptr), together):
            torch.testing.assert_close(ours, expected)
    model.runner = None
    for number in range(4):
        graph, annotation, _ = story(number)
        alone = model(annotation, gpnn.lower(graph, synchronous(graph, 2)), torch.tensor([0, 4]))
        rows = slice(4 * number, 4 * number + 4) if output == "node" else slice(number, number + 1)
        for ours, expected in zip(alone, together):
            torch.testing.assert_close(ours, expected[rows])


@pytest.mark.thorough
def test_two_outputs_in_order():
    """A chain of arrows: which kind comes first, which second? The answer cannot be read off the first annotations."""
    graphs, x, answers = [], [], []
    for first in range(3):
        for second in range(3):
            graphs.append(gpnn.Graph([0, 1], [1, 2], 3, [first, second]))
            x.append(torch.tensor([[1.0], [0.0], [0.0]]))
            answers.append([first, second])
    union, ptr = gpnn.Graph.union(graphs)
    batch = (torch.cat(x), gpnn.lower(union, synchronous(union, 2)), ptr, torch.tensor(answers))
    model = GGSNN(1, 10, 3, num_outputs=2, num_edge_types=3, seed=1)
    losses = train(model, batch, 200, lr=0.03)
    assert losses[-1] < 0.1 * losses[0]
    assert accuracy(model, batch) == 1.0


def test_one_output_leaves_the_next_annotations_alone():
    assert not GGSNN(1, 4, 2).annotate.requires_grad
    model = GGSNN(1, 4, 2, num_outputs=2, num_edge_types=2)
    union, x, ptr, _ = stories(2)
    model.loss(model(x, gpnn.lower(union, synchronous(union, 1)), ptr), torch.tensor([[0, 1], [1, 0]])).backward()
    assert model.annotate.grad.abs().sum() > 0


def test_questions_mark_their_own_columns():
    x, batch = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([0, 0, 1])
    marked = mark_questions(x, torch.tensor([0, 1]), batch, 2)
    assert marked.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1]]


def test_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"`in_channels` must be from 1 to the 4 of the states\. Got 5"):
        GGSNN(5, 4, 2)
    with pytest.raises(ValueError, match=r"`output` must be one of node, class\. Got 'edge'"):
        GGSNN(1, 4, 2, output="edge")
    with pytest.raises(ValueError, match=r"`num_outputs` must be at least 1\. Got 0"):
        GGSNN(1, 4, 2, num_outputs=0)
    union, x, ptr, _ = stories(2)
    with pytest.raises(ValueError, match=r"`ptr` must end at the 8 nodes of the plan\. Got 4"):
        GGSNN(1, 4, 2)(x, gpnn.lower(union, synchronous(union, 1)), ptr[:-1])


@pytest.mark.parametrize("task", [4, pytest.param(15, marks=pytest.mark.thorough)])
def test_babi(task, data_root):
    """Fifty stories solve the easy tasks, as Li et al. report; chance is one in three or more nodes."""
    from gpnn.data.babi import select_graphs

    data = gpnn.load_dataset("babi", root=data_root, task=task, num_train=50)
    num_questions, num_types = int(data.question_type.max()) + 1, int(data.edge_type.max()) + 1
    batches = []
    for chosen in (data.train_graphs, data.test_graphs & (data.story % 10 == 0)):
        part = select_graphs(data, chosen)
        x = mark_questions(part.x, part.question_type, part.batch, num_questions)
        batches.append((x, gpnn.lower(part, synchronous(part, 5)), part.ptr, part.answer))
    model = GGSNN(num_questions, 12, output="node", num_edge_types=num_types)
    losses = train(model, batches[0], 50, lr=0.03)
    assert losses[-1] < 0.2 * losses[0]
    assert accuracy(model, batches[1]) > 0.9


PTR = torch.tensor([0, 2, 5])


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(5, 4, generator=random), torch.randn(5, 2, generator=random)


@pytest.mark.parametrize("name", GRAPH_HEADS)
def test_graphs_do_not_see_each_other(name):
    head = GRAPH_HEADS[name](4, 2, 3, torch.Generator().manual_seed(1))
    state, annotation = inputs()
    together = head(state, annotation, PTR)
    alone = [head(state[a:b], annotation[a:b], torch.tensor([0, b - a])) for a, b in ((0, 2), (2, 5))]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("name", GRAPH_HEADS)
def test_learns_its_answers(name):
    head = GRAPH_HEADS[name](4, 2, 3, torch.Generator().manual_seed(1))
    state, annotation = inputs()
    answer = torch.tensor([1, 4]) if name == "node" else torch.tensor([2, 0])
    optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(40):
        optimizer.zero_grad()
        head.loss(head(state, annotation, PTR), answer).backward()
        optimizer.step()
    scores = head(state, annotation, PTR)
    assert head.loss(scores, answer) < 0.05
    assert head.choose(scores, PTR).equal(answer)


def test_the_gated_sum_by_hand():
    head = GatedSum(4, 2, 3, torch.Generator().manual_seed(1))
    state, annotation = inputs()
    for bias in (head.gate_bias, head.value_bias, head.bias):
        bias.data = torch.linspace(-1, 1, len(bias))
    sums = torch.zeros(2, 4)
    for node, graph in enumerate((0, 0, 1, 1, 1)):
        known = torch.cat([state[node], annotation[node]])
        gate = torch.sigmoid(known @ head.gate + head.gate_bias)
        sums[graph] += gate * torch.tanh(known @ head.value + head.value_bias)
    expected = (torch.tanh(sums) @ head.weight + head.bias).log_softmax(1)
    torch.testing.assert_close(head(state, annotation, PTR), expected)


def test_node_selection_is_a_distribution_over_each_graphs_nodes():
    head = NodeSelection(4, 2, 0, torch.Generator().manual_seed(1))
    scores = head(*inputs(), PTR)
    assert scores.shape == (5,)
    torch.testing.assert_close(scores[:2].exp().sum(), torch.tensor(1.0))
    torch.testing.assert_close(scores[2:].exp().sum(), torch.tensor(1.0))


THREE = torch.tensor([0, 3, 4, 9])


def values(columns: int = 2) -> torch.Tensor:
    return torch.randn(9, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 30


def parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    return list(tensor.split(THREE.diff().tolist()))


def test_each_graph_is_alone():
    assert graph_of_node(THREE).tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    torch.testing.assert_close(graph_sum(values(), THREE), torch.stack([part.sum(0) for part in parts(values())]))
    expected = torch.cat([part.log_softmax(0) for part in parts(values())])
    torch.testing.assert_close(graph_log_softmax(values(), THREE), expected)
    starts = [int(start) + part.argmax(0) for start, part in zip(THREE, parts(values()))]
    assert graph_argmax(values(), THREE).equal(torch.stack(starts))


def test_gradients():
    assert torch.autograd.gradcheck(lambda v: graph_log_softmax(v, THREE), values().requires_grad_())
    assert torch.autograd.gradcheck(lambda v: graph_sum(v, THREE), values().requires_grad_())


def test_the_first_of_equals_is_chosen():
    assert graph_argmax(torch.zeros(9, 1), THREE).flatten().tolist() == [0, 3, 4]


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_scores_do_not_overflow(size):
    probabilities = graph_log_softmax(torch.full((9, 1), size), THREE).exp().flatten()
    torch.testing.assert_close(probabilities, (1 / THREE.diff())[graph_of_node(THREE)])
