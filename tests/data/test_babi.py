"""bAbI: two stories worked out by hand, and the real tasks against their counts."""

from pathlib import Path

import pytest
import torch

from gpnn.data import load_dataset, select_graphs
from gpnn.graph import Graph

NODE_STORIES = "1 1 2\n2 2 3\n? 2 2 1\n? 1 3 2\n\n4 1 2\n? 1 4 2\n\n"
TEST_STORY = "3 2 1\n? 2 1 3\n"


def write(root: Path, task: int, train: str, test: str, labels: int = 0) -> Path:
    words = {"edge_types": 2, "node_ids": 4, "question_types": 2, "labels": labels}
    for part, stories in (("train", train), ("test", test)):
        folder = root / "babi" / "fold_1" / part
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{task}_graphs.txt").write_text(stories)
        for name, count in words.items():
            (folder / f"{task}_{name}.txt").write_text("".join(f"w{n}={n}\n" for n in range(1, count + 1)))
    return root


class TestNodeTask:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return write(tmp_path, 4, NODE_STORIES, TEST_STORY)

    def test_each_question_is_a_graph(self, root: Path) -> None:
        data = load_dataset("babi", root=root, task=4, num_train=1, num_val=1)
        assert data.ptr.tolist() == [0, 3, 6, 8, 10]
        assert data.batch.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
        assert data.story.tolist() == [0, 0, 1, 2]
        assert data.question_type.tolist() == [1, 0, 0, 1]
        assert data.node_id.tolist() == [0, 1, 2, 0, 1, 2, 3, 1, 2, 0]

    def test_edges_are_typed_and_run_backwards_under_types_of_their_own(self, root: Path) -> None:
        data = load_dataset("babi", root=root, task=4, num_train=1, num_val=1)
        forward = [[0, 1], [1, 2], [3, 4], [4, 5], [6, 7], [8, 9]]
        assert data.edge_index.T.tolist() == [*forward, *([b, a] for a, b in forward)]
        assert data.edge_type.tolist() == [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3]
        one_way = load_dataset("babi", root=root, task=4, num_train=1, num_val=1, reverse=False)
        assert one_way.edge_index.T.tolist() == forward

    def test_arguments_are_marked_and_answers_are_nodes(self, root: Path) -> None:
        data = load_dataset("babi", root=root, task=4, num_train=1, num_val=1)
        assert data.output == "node"
        assert data.x.flatten().nonzero().flatten().tolist() == [1, 5, 6, 9]
        assert data.answer.tolist() == [0, 4, 7, 8]
        assert data.y.nonzero().flatten().tolist() == [0, 4, 7, 8]

    def test_stories_train_validate_and_test(self, root: Path) -> None:
        data = load_dataset("babi", root=root, task=4, num_train=1, num_val=1)
        assert data.train_graphs.tolist() == [True, True, False, False]
        assert data.val_graphs.tolist() == [False, False, True, False]
        assert data.test_graphs.tolist() == [False, False, False, True]
        assert torch.equal(data.train_mask, data.train_graphs[data.batch])

    def test_a_batch_is_a_union_of_its_own(self, root: Path) -> None:
        data = load_dataset("babi", root=root, task=4, num_train=1, num_val=1)
        batch = select_graphs(data, torch.tensor([1, 3]))
        assert batch.ptr.tolist() == [0, 3, 5]
        assert batch.batch.tolist() == [0, 0, 0, 1, 1]
        assert batch.edge_index.T.tolist() == [[0, 1], [1, 2], [3, 4], [1, 0], [2, 1], [4, 3]]
        assert batch.edge_type.tolist() == [0, 1, 1, 2, 3, 3]
        assert batch.answer.tolist() == [1, 3]
        assert batch.x.flatten().tolist() == [0, 0, 1, 0, 1]
        assert batch.story.tolist() == [0, 2]
        assert batch.num_nodes == 5

    @pytest.mark.parametrize(
        ("stories", "message"),
        [
            ("1 1\n", r"4_graphs\.txt, line 1: 3 ids from 1 are expected\. Got '1 1'\."),
            ("1 1 2\n? 1 2\n", r"line 2: 3 ids from 1 are expected\. Got '1 2'\."),
            ("1 1 0\n", r"line 1: 3 ids from 1 are expected\. Got '1 1 0'\."),
            ("1 1 b\n", r"line 1: 3 ids from 1 are expected\. Got '1 1 b'\."),
            ("1 3 2\n? 1 2 1\n", r"line 2: ids must be among the 2 of edge_types\. Got 3\."),
            ("1 1 2\n? 5 2 1\n", r"line 2: ids must be among the 2 of question_types\. Got 5\."),
            ("1 1 2\n? 1 2 4\n", r"line 2: the answer must be a node of the story\. Got 4\."),
        ],
    )
    def test_names_the_line(self, root: Path, stories: str, message: str) -> None:
        (root / "babi/fold_1/train/4_graphs.txt").write_text(stories)
        with pytest.raises(ValueError, match=message):
            load_dataset("babi", root=root, task=4, num_train=1, num_val=0)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"task": 5}, r"`task` must be one of 4, 15, 16, 18, 19\. Got 5\."),
            ({"fold": 3}, r"`fold` must be one of 1, 2\. Got 3\."),
            ({"num_train": 2, "num_val": 1}, r"must be at most 2 stories\. Got 2 and 1\."),
        ],
    )
    def test_refuses(self, root: Path, options: dict, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            load_dataset("babi", root=root, **options)


def test_a_class_for_the_whole_graph(tmp_path: Path) -> None:
    write(tmp_path, 18, "1 1 2\n2 1 3\n? 1 1 3 2\n", "1 1 2\n? 1 2 1 1\n", labels=2)
    data = load_dataset("babi", root=tmp_path, task=18, num_train=1, num_val=0)
    assert data.output == "class"
    assert data.answer.tolist() == [1, 0]
    assert data.x.tolist() == [[1, 0], [0, 0], [0, 1], [0, 1], [1, 0]]
    assert data.num_classes == 2
    assert "y" not in data


def test_two_classes_in_order(tmp_path: Path) -> None:
    write(tmp_path, 19, "1 1 2\n2 2 3\n? 1 1 3 4 1\n", "1 1 2\n? 1 2 1 1 1\n", labels=4)
    data = load_dataset("babi", root=tmp_path, task=19, num_train=1, num_val=0)
    assert data.output == "sequence"
    assert data.answer.tolist() == [[3, 0], [0, 0]]
    assert data.num_classes == 4


@pytest.mark.parametrize("fold", [1, 2])
@pytest.mark.parametrize(("task", "types", "width"), [(4, 2, 1), (15, 2, 1), (16, 2, 1), (18, 1, 2), (19, 4, 2)])
def test_statistics(data_root: Path, task: int, types: int, width: int, fold: int) -> None:
    data = load_dataset("babi", root=data_root, task=task, fold=fold)
    train, test = data.story[~data.test_graphs].unique(), data.story[data.test_graphs].unique()
    assert (len(train), len(test)) == (1000, 1000)
    assert len(data.story[data.train_graphs].unique()) == 950
    assert Graph.from_data(data).num_edge_types == 2 * types
    assert data.x.shape[1] == width
    assert int(data.x.sum()) == width * (len(data.ptr) - 1)
    assert (data.batch[data.edge_index[0]] == data.batch[data.edge_index[1]]).all()


def test_stories_with_several_questions(data_root: Path) -> None:
    assert len(load_dataset("babi", root=data_root, task=15).ptr) - 1 == 8000
    assert len(load_dataset("babi", root=data_root, task=18).ptr) - 1 == 2559 + 2589


def test_fold_2_of_task_4_tests_what_it_trains(data_root: Path) -> None:
    """The public files are the same: no figure may be quoted from it."""
    train, test = (data_root / "babi" / "fold_2" / part / "4_graphs.txt" for part in ("train", "test"))
    assert train.read_bytes() == test.read_bytes()


def test_fold_1_of_task_4_tests_little_that_it_does_not_train(data_root: Path) -> None:
    """What the notes of the experiment say of the public files."""
    train, test = (
        (data_root / "babi" / "fold_1" / part / "4_graphs.txt").read_text().strip().split("\n\n")
        for part in ("train", "test")
    )
    assert [sum(story in train[:number] for story in test) for number in (50, 100, 250, 950, 1000)] == [
        *(645, 794, 901, 985, 986)
    ]
    assert (len(test), len(set(test))) == (1000, 91)


@pytest.mark.parametrize("task", [4, 15, 16])
def test_a_node_answers_as_the_story_implies(data_root: Path, task: int) -> None:
    data = load_dataset("babi", root=data_root, task=task)
    assert torch.equal(data.batch[data.answer], torch.arange(len(data.answer)))
    asked = data.x[:, 0].nonzero().flatten()
    assert (data.answer != asked).all()
