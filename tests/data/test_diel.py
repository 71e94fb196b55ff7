"""DIEL from raw files: nine lists and six items, worked out on paper.

    l1 {a, c}   l2 {a, b}   l3 {b, d}   l8 {a}   l9 {b}      name a seed: a is a disease, b a drug
    l4 {c, d}   l5 {d}      l6 {e, c}   l7 {f}               name none: the test lists

Lists are nodes 0…8 and items nodes 9…14, both in the order in which hasItem.cfacts first names them.
"""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from gpnn.data import load_dataset, recall_at_k
from tests.oracle import recall as oracle

FACTS = ["l1 a", "l1 c", "l2 a", "l2 b", "l3 b", "l3 d", "l8 a", "l9 b", "l4 c", "l4 d", "l5 d", "l6 e", "l6 c", "l7 f"]
LISTS = ["l1", "l2", "l3", "l8", "l9", "l4", "l5", "l6", "l7"]
ITEMS = ["a", "c", "b", "d", "e", "f"]
WORDS = "l1 0 2\nl2 2\nl3 5 5\nl4\t1\n\nl7\nunknown 9\n"
SIMILAR = "c c\nc d\ng e\nf x\nq a\n"  # x is in no list, q is not gold
GOLD = "c 1\nd 2\ng 4\nf 3\nh 1\n"  # h is similar to nothing; d is similar to nothing, not even itself
SEEDS = {"disease": "seed 1 a\n", "drug": "seed 2 b\nseed 2 nowhere\n", "ingredient": "", "symptom": ""}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "diel"
    (folder / "3").mkdir(parents=True)
    (folder / "hasItem.cfacts").write_text("".join(f"hasItem\t{fact.replace(' ', chr(9))}\n" for fact in FACTS))
    (folder / "list_features.txt").write_text(WORDS)
    (folder / "sim.dict").write_text(SIMILAR)
    (folder / "3" / "coverage_eva_multiAdded").write_text(GOLD)
    for category, seeds in SEEDS.items():
        (folder / "3" / f"{category}_devel_50p_proppr_seed_forTrainList").write_text(seeds)
    return tmp_path


@pytest.fixture
def data(root: Path) -> Data:
    return load_dataset("diel", root=root, split=3)


class TestReading:
    def test_lists_come_first_then_items(self, data: Data) -> None:
        assert data.num_nodes == 15
        assert data.num_lists == 9
        pairs = [(LISTS.index(one), 9 + ITEMS.index(other)) for one, other in (fact.split() for fact in FACTS)]
        assert data.edge_index.T.tolist() == [*map(list, pairs), *([b, a] for a, b in pairs)]

    def test_lists_have_the_words_and_items_have_none(self, data: Data) -> None:
        x = data.x.to_dense()
        assert tuple(x.shape) == (15, 10)
        words = [x[node].nonzero().flatten().tolist() for node in range(15)]
        assert words == [[0, 2], [2], [5], [], [], [1], [], [], [], [], [], [], [], [], []]

    def test_lists_take_the_first_category_of_a_seed(self, data: Data) -> None:
        assert data.y.tolist() == [0, 0, 1, 0, 1, *[-1] * 10]
        assert data.num_classes == 4

    def test_a_fifth_of_the_labelled_lists_validates_and_does_not_train(self, data: Data) -> None:
        assert (int(data.train_mask.sum()), int(data.val_mask.sum())) == (4, 1)
        assert torch.equal(data.train_mask | data.val_mask, data.y >= 0)
        assert data.test_mask.nonzero().flatten().tolist() == [5, 6, 7, 8]

    def test_the_seed_draws_the_validation(self, root: Path) -> None:
        drawn = {int(load_dataset("diel", root=root, split=3, seed=seed).val_mask.nonzero()) for seed in range(20)}
        assert drawn == {0, 1, 2, 3, 4}

    def test_gold_pairs_know_their_similar_items(self, data: Data) -> None:
        assert data.gold_class.tolist() == [0, 1, 3, 2, 0]
        assert data.similar_ptr.tolist() == [0, 2, 2, 3, 3, 3]
        assert [ITEMS[item - 9] for item in data.similar_item.tolist()] == ["c", "d", "e"]
        assert data.recall_k == 240_000


class TestRecall:
    @pytest.fixture
    def probabilities(self, data: Data) -> torch.Tensor:
        """Best pairs: d drug 0.8; c symptom and e symptom 0.7; c disease and d disease 0.6; f disease 0.3."""
        probabilities = torch.full((15, 4), 0.25)
        probabilities[5] = torch.tensor([0.6, 0.2, 0.1, 0.1])  # l4: c, d
        probabilities[6] = torch.tensor([0.1, 0.8, 0.05, 0.05])  # l5: d
        probabilities[7] = torch.tensor([0.1, 0.1, 0.1, 0.7])  # l6: e, c
        probabilities[8] = torch.tensor([0.3, 0.25, 0.25, 0.2])  # l7: f
        probabilities[0] = torch.tensor([1.0, 0.0, 0.0, 0.0])  # l1: no test list, no vote
        return probabilities

    @pytest.mark.parametrize(
        ("k", "found"),
        [
            (1, 0),  # d drug: gold, but similar to nothing
            (2, 0),  # c symptom, before e by its id
            (3, 1),  # e symptom finds g
            (4, 2),  # c disease finds c
            (5, 2),
            (6, 2),
            (240_000, 2),
        ],
    )
    def test_by_hand(self, data: Data, probabilities: torch.Tensor, k: int, found: int) -> None:
        assert recall_at_k(data, probabilities, k) == pytest.approx(found / 5)

    def test_k_is_the_dataset_s_by_default(self, data: Data, probabilities: torch.Tensor) -> None:
        assert recall_at_k(data, probabilities) == pytest.approx(0.4)


class TestRefusing:
    def test_an_unknown_split(self, root: Path) -> None:
        with pytest.raises(ValueError, match=r"`split` must be one of 0 to 9\. Got 10\."):
            load_dataset("diel", root=root, split=10)

    def test_a_missing_file(self, root: Path) -> None:
        with pytest.raises(ValueError, match=r"diel needs .*0/disease_devel.*; unpack http.*diel_data\.tar\.gz\."):
            load_dataset("diel", root=root, split=0)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("hasItem.cfacts", "\n", r"hasItem\.cfacts must hold at least one fact\. Got none\."),
            ("hasItem.cfacts", "hasItem l1\n", r"hasItem\.cfacts, line 1: 3 fields are expected\. Got 2\."),
            ("list_features.txt", "l1 0\nl2 x\n", r"list_features\.txt, line 2: words must be integers\. Got 'x'\."),
            ("list_features.txt", "l1 --5\n", r"list_features\.txt, line 1: words must be integers\. Got '--5'\."),
            ("list_features.txt", "l1 -1\n", r"list_features\.txt, line 1: words must not be negative\. Got -1\."),
            ("list_features.txt", f"l1 {2**31 - 1}\n", r"line 1: words must be at most 2147483646\. Got 2147483647\."),
            ("sim.dict", "c\n", r"sim\.dict, line 1: 2 fields are expected\. Got 1\."),
            ("3/coverage_eva_multiAdded", "c 5\n", r"line 1: the category must be 1 to 4\. Got '5'\."),
            ("3/coverage_eva_multiAdded", "", r"coverage_eva_multiAdded must hold at least one gold pair\. Got none\."),
            ("3/drug_devel_50p_proppr_seed_forTrainList", "b\n", r"line 1: 3 fields are expected\. Got 1\."),
        ],
    )
    def test_names_the_line(self, root: Path, name: str, content: str, message: str) -> None:
        (root / "diel" / name).write_text(content)
        with pytest.raises(ValueError, match=message):
            load_dataset("diel", root=root, split=3)


@pytest.fixture(scope="module")
def generated() -> Data:
    return load_dataset("diel_like", scale=0.001)


@pytest.mark.parametrize("k", [1, 10, 100, 240, 10_000])
def test_is_the_oracle_s(generated: Data, k: int) -> None:
    probabilities = torch.rand(generated.num_nodes, 4, generator=torch.Generator().manual_seed(k)).softmax(dim=1)
    assert recall_at_k(generated, probabilities, k) == pytest.approx(oracle.recall_at_k(generated, probabilities, k))


def test_equal_scores_are_taken_in_order(generated: Data) -> None:
    probabilities = torch.full((generated.num_nodes, 4), 0.25)
    assert recall_at_k(generated, probabilities, 50) == pytest.approx(oracle.recall_at_k(generated, probabilities, 50))


def test_rises_with_k(generated: Data) -> None:
    probabilities = torch.rand(generated.num_nodes, 4, generator=torch.Generator().manual_seed(0))
    found = [recall_at_k(generated, probabilities, k) for k in (1, 50, 500, 5000)]
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("shape", "k", "message"),
    [
        ((4373, 3), None, r"`probabilities` must have shape \[4373, 4\]\. Got \[4373, 3\]\."),
        ((4373, 4), 0, r"`k` must be at least 1\. Got 0\."),
    ],
)
def test_refuses(generated: Data, shape: tuple[int, int], k: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recall_at_k(generated, torch.ones(shape), k)


def test_refuses_data_without_gold() -> None:
    with pytest.raises(ValueError, match=r"`data` must have gold pairs, as diel and diel_like have\. Got none\."):
        recall_at_k(load_dataset("chain"), torch.ones(1000, 2))
