import numpy as np
from scipy.sparse import csr_matrix

from experiments.baselines.contexts import Contexts
from experiments.baselines.contexts_kernel import descend_triples
from experiments.baselines.visible import Labelled

CHAIN = csr_matrix(np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], np.float32))


def source(classes: list[int], negatives: int = 2) -> Contexts:
    train = Labelled(np.arange(len(classes)) * 10, np.array(classes))
    return Contexts.of(CHAIN, train, walk_length=4, window=1, negatives=negatives, seed=0)


def test_label_pairs_share_a_class_and_negatives_do_not() -> None:
    classes = [2, 0, 2, 1, 0]
    node, context, sign = source(classes).from_labels(300)
    of = dict(zip(range(0, 50, 10), classes))
    assert (sign == 1).sum() == 300
    assert (sign == -1).sum() == 600
    assert all((of[i] == of[c]) == (s == 1) for i, c, s in zip(node, context, sign))
    assert set(context.tolist()) == set(of)


def test_one_class_has_no_label_contexts() -> None:
    assert len(source([1, 1]).from_labels(5).sign) == 0


def test_walk_pairs_are_neighbours_within_a_window_of_one() -> None:
    node, context, sign = source([0, 1]).from_walks(np.array([0, 1, 2, 3]))
    true = sign == 1
    assert true.sum() == 3 * 8  # three walks of five nodes; node 3 goes nowhere
    assert (np.abs(node[true] - context[true]) == 1).all()
    assert (~true).sum() == 2 * true.sum()


def test_a_step_by_hand() -> None:
    embedding, context = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 2.0]], np.float32)
    one = np.ones(1, np.float32)
    at = np.zeros(1, np.int64)
    descend_triples(at, at, -one, at, embedding, context, np.float32(0.1))
    np.testing.assert_allclose(embedding, [[1.0, -0.1]], rtol=1e-6)  # 0.1 · −1 · σ(0) · w
    np.testing.assert_allclose(context, [[-0.05, 2.0]], rtol=1e-6)


def test_walks_give_contexts_of_the_wanted_nodes_only() -> None:
    node, context, sign = source([0, 1]).from_walks(np.array([0, 1, 2]), np.array([1]))
    assert set(node.tolist()) == {1}
    assert set(context[sign == 1].tolist()) <= {0, 2}
    assert (sign == -1).sum() == 2 * (sign == 1).sum()
