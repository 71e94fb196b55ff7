"""Rows that claim the paper's recipe take what its released configurations ran."""

from pathlib import Path

import pytest

from experiments.harness import find_file, read_experiment
from experiments.harness.spec import Cell

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
ON_CORA = ("paper", "table2", "table5", "table6", "figure2ab", "figure2c")
RELEASED = {"method": "spectral", "points": "released", "k": 5}


def first_cells(name: str) -> list[Cell]:
    """A cell of each row and column, baselines aside."""
    cells = read_experiment(find_file(EXPERIMENTS, name)).select(seeds=1)
    return [cell for cell in cells if cell.kind in ("training", "states")]


@pytest.mark.parametrize("name", [*ON_CORA, "paper_diel", "table4", "table7"])
def test_the_gate_and_the_embeddings_are_the_released_ones(name):
    cells = first_cells(name)
    assert cells
    for cell in cells:
        model = cell.settings["model"]
        assert model["cell_options"] == {"reset": "before"}
        assert model.get("embedding_scale") == ("none" if model.get("input") == "embedding" else None)


@pytest.mark.parametrize("name", ON_CORA)
def test_cora_is_partitioned_as_released_and_by_flood_fill_in_a_row_of_its_own(name):
    partitions = {
        cell.row: cell.settings["partition"]
        for cell in first_cells(name)
        if cell.settings["data"]["name"] == "cora" and "name" not in cell.settings["schedule"]
    }
    assert all(
        partition == (RELEASED if "flood fill" not in row else {"k": 5})
        for row, partition in partitions.items()
        if "components" not in row
    )
    assert RELEASED in partitions.values()
    assert {"k": 5} in partitions.values()


def test_table_4_shares_its_cells_of_ten_subgraphs_with_the_recipe():
    recipe = read_experiment(find_file(EXPERIMENTS, "paper")).select(rows=["GPNN, as run"], columns=["NELL 0.001"])
    table = read_experiment(find_file(EXPERIMENTS, "table4")).select(rows=["Flood fill"], columns=["K = 10"])
    assert [cell.key for cell in table] == [cell.key for cell in recipe][: len(table)]


def test_babi_reads_the_first_fold():
    assert {cell.settings["babi"]["fold"] for cell in read_experiment(find_file(EXPERIMENTS, "babi")).cells()} == {1}
