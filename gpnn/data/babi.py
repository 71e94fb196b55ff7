"""bAbI tasks as small typed graphs with a question each (Li et al., 2015)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.csr import pointers
from gpnn.data.files import HOMES, require
from gpnn.data.splits import MASKS
from gpnn.storage.read import read_text, shorten

if TYPE_CHECKING:
    from torch_geometric.data import Data

# Task -> the question's arguments, the answer's length, and the kind of the answer.
TASKS = {4: (1, 1, "node"), 15: (1, 1, "node"), 16: (1, 1, "node"), 18: (2, 1, "class"), 19: (2, 2, "sequence")}
FOLDS = tuple(int(home[len("babi/fold_") : -1]) for home in HOMES if home.startswith("babi/"))
_ID = re.compile(r"[1-9][0-9]{0,8}")
DICTIONARIES = ("edge_types", "node_ids", "question_types", "labels")


def babi(
    root: Path, *, task: int = 4, fold: int = 1, num_train: int = 950, num_val: int = 50, reverse: bool = True
) -> Data:
    """bAbI reasoning tasks 4, 15, 16, 18 and 19: 1,000 stories to train on and 1,000 to test, as small graphs.

    All graphs are one disjoint union: a graph is one question of one story, with the nodes that the story names,
    so that a story with four questions is there four times. `x` marks the question's arguments, one column each.

    | attribute | shape | |
    |---|---|---|
    | `ptr`, `batch` | `[G + 1]`, `[N]` | where each graph's nodes begin; the graph of each node |
    | `edge_type` | `[E]` | relation; with `reverse`, relation r of R also runs backwards as r + R |
    | `node_id` | `[N]` | which symbol of the dictionary a node is |
    | `question_type`, `story` | `[G]` | the question's kind; the number of its story |
    | `answer` | `[G]` or `[G, 2]` | a node (tasks 4, 15, 16), a class (18), two classes (19): see `output` |
    | `output` | | "node", "class" or "sequence" |
    | `train_graphs`, `val_graphs`, `test_graphs` | `[G]` | which graphs train, validate, test |

    Where the answer is a node, `y` is 1 there and 0 elsewhere, with node masks, so that the task is also one of
    node classification.

    Args:
        task: 4, 15, 16, 18 or 19.
        fold: which of the folds, drawn with other stories and other symbols.
        num_train: training stories, the first of the file.
        num_val: validation stories, the last of the training file.
        reverse: add every edge's reverse under a type of its own, as gated graph networks do.
    """
    check_choice("task", task, TASKS)
    folder = f"babi/fold_{fold}"
    if fold not in FOLDS and not (root / folder).is_dir():
        raise ValueError(f"`fold` must be one of {', '.join(map(str, FOLDS))}. Got {fold!r}.")
    paths = [f"{folder}/train/{task}_{name}.txt" for name in ("graphs", *DICTIONARIES)]
    paths.append(f"{folder}/test/{task}_graphs.txt")
    if fold in FOLDS:
        require(paths, root)
    words = {name: _dictionary(root / folder / "train" / f"{task}_{name}.txt") for name in DICTIONARIES}
    union = _Union(task, words)
    train = _read_stories(root / paths[0], union)
    _read_stories(root / paths[-1], union)
    if num_train < 1 or num_val < 0 or num_train + num_val > train:
        raise ValueError(f"`num_train` and `num_val` must be at most {train} stories. Got {num_train} and {num_val}.")
    return union.to_data(train, num_train, num_val, reverse=reverse)


def select_graphs(data: Data, graphs: Tensor) -> Data:
    """The disjoint union of some graphs of `data`, in its order: a batch of examples.

    Args:
        data: a union as :func:`babi` makes it.
        graphs: graph ids, or a mask over the graphs, `[G]`.
    """
    from torch_geometric.data import Data

    keep = torch.zeros(len(data.ptr) - 1, dtype=torch.bool)
    keep[graphs] = True
    nodes, edges = keep[data.batch], keep[data.batch[data.edge_index[0]]]
    position = nodes.cumsum(0) - 1
    sizes = data.ptr.diff()[keep]
    selected = Data(output=data.output, num_classes=data.num_classes)
    for names, chosen in ((_NODE, nodes), (_EDGE, edges), (_GRAPH, keep)):
        for name in names:
            if data.get(name) is not None:
                selected[name] = data[name][chosen]
    selected.edge_index = position[data.edge_index[:, edges]]
    selected.ptr = pointers(sizes)
    selected.batch = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    if data.output == "node":
        selected.answer = position[selected.answer]
    return selected


_NODE = ("x", "y", "node_id", *MASKS)
_EDGE = ("edge_type",)
_GRAPH = ("question_type", "story", "answer", "train_graphs", "val_graphs", "test_graphs")


@dataclass
class _Union:
    """The graphs read so far, each appended to the flat lists of one disjoint union."""

    task: int
    words: dict[str, int]  # how many words each dictionary has
    num_stories: int = 0
    story: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    node_id: list[int] = field(default_factory=list)
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    question_type: list[int] = field(default_factory=list)
    arguments: list[tuple[int, int]] = field(default_factory=list)  # (node, column)
    answer: list[list[int]] = field(default_factory=list)

    def add(self, edges: list[list[int]], question: list[int]) -> None:
        """One more graph: the story's edges (source, type, target) and a question (type, arguments, answer)."""
        num_arguments, _, output = TASKS[self.task]
        kind, arguments, answer = question[0], question[1 : 1 + num_arguments], question[1 + num_arguments :]
        named = [node for source, _, target in edges for node in (source, target)] + arguments
        start = len(self.node_id)
        place = {node: start + number for number, node in enumerate(dict.fromkeys(named))}
        if output == "node" and answer[0] not in place:
            raise ValueError(f"the answer must be a node of the story. Got {answer[0]}.")
        self._check("edge_types", [relation for _, relation, _ in edges])
        self._check("question_types", [kind])
        self._check("labels", [] if output == "node" else answer)
        self.story.append(self.num_stories)
        self.size.append(len(place))
        self.node_id.extend(node - 1 for node in place)
        self.edges.extend((place[source], relation - 1, place[target]) for source, relation, target in edges)
        self.question_type.append(kind - 1)
        self.arguments.extend((place[node], column) for column, node in enumerate(arguments))
        self.answer.append([place[answer[0]]] if output == "node" else [label - 1 for label in answer])

    def _check(self, name: str, ids: list[int]) -> None:
        if ids and max(ids) > self.words[name]:
            raise ValueError(f"ids must be among the {self.words[name]} of {name}. Got {max(ids)}.")

    def to_data(self, train_stories: int, num_train: int, num_val: int, *, reverse: bool) -> Data:
        from torch_geometric.data import Data

        num_arguments, num_answers, output = TASKS[self.task]
        size, story, edges = torch.tensor(self.size), torch.tensor(self.story), torch.tensor(self.edges)
        x = torch.zeros(len(self.node_id), num_arguments)
        x[tuple(torch.tensor(self.arguments).T)] = 1
        answer = torch.tensor(self.answer)
        data = Data(
            x=x,
            edge_index=edges[:, [0, 2]].T.contiguous(),
            edge_type=edges[:, 1].contiguous(),
            node_id=torch.tensor(self.node_id),
            ptr=pointers(size),
            batch=torch.repeat_interleave(torch.arange(len(size)), size),
            question_type=torch.tensor(self.question_type),
            story=story,
            answer=answer[:, 0] if num_answers == 1 else answer,
            output=output,
            num_classes=2 if output == "node" else self.words["labels"],
            train_graphs=story < num_train,
            val_graphs=(story >= train_stories - num_val) & (story < train_stories),
            test_graphs=story >= train_stories,
        )
        if reverse:
            data.edge_index = torch.cat([data.edge_index, data.edge_index.flip(0)], dim=1)
            data.edge_type = torch.cat([data.edge_type, data.edge_type + self.words["edge_types"]])
        return _as_node_labels(data) if output == "node" else data


def _as_node_labels(data: Data) -> Data:
    data.y = torch.zeros(len(data.batch), dtype=torch.int64)
    data.y[data.answer] = 1
    for part in ("train", "val", "test"):
        data[f"{part}_mask"] = data[f"{part}_graphs"][data.batch]
    return data


def _read_stories(path: Path, union: _Union) -> int:
    """Append a file's questions to the union; the number of its stories."""
    num_arguments, num_answers, _ = TASKS[union.task]
    before, open_story = union.num_stories, False
    edges: list[list[int]] = []
    for line, fields in _lines(path):
        if not fields:
            union.num_stories += open_story
            edges, open_story = [], False
            continue
        open_story = True
        try:
            if fields[0] == "?":
                union.add(edges, _numbers(fields[1:], 1 + num_arguments + num_answers))
            else:
                edges.append(_numbers(fields, 3))
        except ValueError as error:
            raise ValueError(f"{path.name}, line {line}: {error}") from None
    union.num_stories += open_story
    return union.num_stories - before


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_text(path).splitlines(), 1):
        yield number, line.split()


def _numbers(fields: list[str], count: int) -> list[int]:
    if len(fields) != count or not all(_ID.fullmatch(field) for field in fields):
        raise ValueError(f"{count} ids from 1 are expected. Got {shorten(' '.join(fields))}.")
    return [int(field) for field in fields]


def _dictionary(path: Path) -> int:
    """How many words the dictionary `word=id` has."""
    return sum(1 for _, fields in _lines(path) if fields)
