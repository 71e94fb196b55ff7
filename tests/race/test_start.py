from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from gpnn.graph import as_graph
from gpnn.memory.engine import DoesNotFit
from gpnn.pipeline import Assembly, Pipeline
from gpnn.race import Start, Variants
from gpnn.recipes import RECIPES
from gpnn.train import Recipe

PIPELINE = Pipeline(rounds=1, hidden_channels=4, k="auto")
RECIPE = Recipe(epochs=9, weight_decay=0.0)


def test_what_was_chosen_the_first_time_is_kept(planted):
    asked = []

    def build(recipe: Recipe) -> Assembly:
        asked.append(recipe)
        return replace(PIPELINE.assemble(planted, recipe), recipe=replace(recipe, clip=0.5))

    start = Start(build, RECIPE)
    first, short, again = start(), start(epochs=3), start()
    assert asked == [RECIPE]  # then the assembly is done again, with what it chose
    assert [each.recipe for each in (short, again)] == [replace(first.recipe, epochs=3), first.recipe]
    assert again.pipeline == first.pipeline
    assert again.pipeline.k != "auto"
    assert all(torch.equal(*pair) for pair in zip(first.model.parameters(), again.model.parameters()))


def one_way() -> Data:
    x = torch.tensor([[1.0, 3.0], [2.0, 2.0], [0.0, 5.0]])
    return Data(x=x, edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)


def test_a_variant_is_made_once_and_shares_what_it_does_not_change():
    data = one_way()
    variants = Variants(data)
    assert variants.settings(RECIPES["spread"]) == {"undirected": True}
    assert variants.settings(RECIPES["columns"]) == {}
    both = variants.get(undirected=True, scale_features="none")
    assert (both.num_edges, both.x is data.x) == (4, True)
    scaled = variants.get(undirected=True, scale_features="rows")
    assert scaled is variants.get(undirected=True, scale_features="rows")
    assert scaled.x.sum(1).tolist() == [1.0, 1.0, 1.0]
    assert scaled.x is variants.get(undirected=False, scale_features="rows").x
    assert variants.get(undirected=False, scale_features="none") is data


def test_another_scale_than_the_given_is_read_again():
    read = []

    def rescale(scale: str) -> Data:
        read.append(scale)
        return one_way()

    given = one_way()
    variants = Variants(given, True, "rows", rescale)
    assert variants.settings(RECIPES["spread"]) == {"undirected": True}  # it had edges without a reverse
    assert variants.get(undirected=True, scale_features="rows") is given
    raw = variants.get(undirected="typed", scale_features="none")
    assert raw.num_edges == 4
    assert variants.get(undirected="typed", scale_features="none") is raw
    assert read == ["none"]


@pytest.mark.parametrize(("num_types", "reverses"), [(1, "typed"), (4, "typed"), (5, "directions")])
def test_a_map_per_type_and_direction_unless_these_are_many(num_types, reverses):
    data = one_way()
    data.edge_type = torch.tensor([num_types - 1, 0])
    variants = Variants(data)
    assert variants.settings(RECIPES["residual"])["undirected"] == reverses
    assert variants.settings(RECIPES["deep"])["undirected"] == "directions"
    assert as_graph(variants.get(undirected="directions", scale_features="none")).num_edge_types == 2


def test_reverses_that_do_not_fit_in_memory_are_not_made():
    variants = Variants(one_way(), memory=1e6)
    with pytest.raises(DoesNotFit, match=r"Reverses of 2 edges must fit in 0\.0 GB of memory\. Got about "):
        variants.get(undirected=True, scale_features="none")
    assert variants.get(undirected=False, scale_features="none") is variants.data
