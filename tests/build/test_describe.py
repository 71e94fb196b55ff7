import pytest
import torch
from torch_geometric.data import Data

from gpnn.build import (
    build_data,
    build_partitions,
    build_schedules,
    describe_data,
    load_config,
    resolve_structure,
)
from gpnn.config import Config
from gpnn.data import load_dataset
from gpnn.partition import PARTITIONERS
from gpnn.schedule import SCHEDULES

TINY = ["data.name=planted", "data.num_nodes=60", "data.num_classes=3", "data.num_features=8", "data.label_rate=0.3"]


def test_figures_by_hand():
    data = Data(
        x=torch.tensor([[1.0, 0.0]] * 4),
        edge_index=torch.tensor([[0, 1, 1], [1, 0, 1]]),
        y=torch.tensor([0, 1, -1, 1]),
        train_mask=torch.tensor([True, True, False, False]),
        num_classes=2,
        class_names=["cat", "dog"],
    )
    facts = describe_data(Config(), data)
    expected = {
        "nodes": 4,
        "edges": 3,
        "self-loops": 1,
        "isolated nodes": 2,
        "components": 3,
        "largest component": 2,
        "features": 2,
        "share of non-zeros": 0.5,
        "labelled nodes": 3,
        "nodes by class": {"cat": 1, "dog": 2},
        "edges without a reverse": 0,
        "train nodes": 2,
        "val nodes": 0,
        "homophily (edges within a class)": 0.0,
    }
    assert {name: facts[name] for name in expected} == expected
    assert facts["GPNN would choose"]["subgraphs"] == 2
    assert facts["GPNN would choose"]["model input"] == "features"


def test_a_graph_without_labels_or_features():
    facts = describe_data(Config(), Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2))
    assert facts["features"] == 0
    assert "classes" not in facts
    assert facts["edges without a reverse"] == 1
    assert facts["GPNN would choose"] == {
        "partition": "auto",
        "subgraphs": 2,
        "schedule": "partitioned",
        "rounds": 2,
    }


def test_edges_by_type_and_columns(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,age,city\na,1,Oslo\nb,2,Rome\n")
    (tmp_path / "edges.csv").write_text("source,target,type\na,b,likes\nb,a,likes\na,b,knows\n")
    facts = describe_data(Config(), load_dataset(tmp_path))
    assert facts["edges by type"] == {"knows": 1, "likes": 2}
    assert facts["columns"] == {"age": "number", "city": "2 categories"}
    assert facts["features"] == 3


def test_many_classes_are_summed_up():
    y = torch.arange(25).repeat(2)
    facts = describe_data(
        Config(), Data(edge_index=torch.zeros(2, 0, dtype=torch.int64), y=y, num_nodes=50, num_classes=25)
    )
    assert facts["nodes by class"]["the other 5"] == 10


def test_a_graph_without_a_single_label(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,label\na,\nb,nan\nc,-1\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    facts = describe_data(Config(), load_dataset(tmp_path))
    assert facts["labelled nodes"] == 0
    assert "hidden channels" not in facts["GPNN would choose"]


def test_several_labels_a_node_by_hand():
    data = Data(
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 0, 0]]),
        y=torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [-1.0, -1.0]]),
        num_nodes=4,
        num_classes=2,
    )
    facts = describe_data(Config(), data)
    expected = {"labelled nodes": 3, "nodes by class": {"0": 1, "1": 2}}
    assert {name: facts[name] for name in expected} == expected
    assert facts["homophily (edges within a class)"] == pytest.approx(
        1 / 3
    )  # of 0→1, 1→2 and 2→0; node 3 is unlabelled


def resolved(*settings):
    config = load_config(overrides=[*TINY, *settings])
    data = build_data(config)
    return resolve_structure(config, data), data


def test_every_schedule_has_its_own_options():
    config, data = resolved("schedule.intra=3", "partition.k=4", "schedule.rounds=2")
    schedules, refused, part = build_schedules(config, data)
    assert set(schedules) | set(refused) == set(SCHEDULES)
    assert part.num_parts == 4
    assert schedules["partitioned"].rounds[0][0].repeat == 3
    assert {schedule.num_rounds for schedule in schedules.values()} == {2}


def test_the_configured_schedule_must_suit_the_graph_and_the_others_are_left_out():
    one_way = ["data.name=chain", "data.num_nodes=6", "data.label_rate=0.5", "partition.k=2"]
    config = load_config(overrides=one_way)
    data = build_data(config)
    data.edge_index = data.edge_index[:, : data.num_edges // 2]
    schedules, refused, _ = build_schedules(resolve_structure(config, data), data)
    assert "spanning_trees" in refused
    assert "spanning_trees" not in schedules
    config = load_config(overrides=[*one_way, "schedule.name=spanning_trees"])
    with pytest.raises(ValueError, match="reverse"):
        build_schedules(resolve_structure(config, data), data)


def test_the_configured_partitioner_comes_first_with_its_options():
    config, data = resolved("partition.method=refined", "partition.imbalance=0.5", "partition.k=3")
    rows = build_partitions(config, data)
    assert rows[0].method == "refined"
    assert rows[0].quality.num_parts == 3
    assert {row.method for row in rows} == set(PARTITIONERS) - {"given", "auto"}


def test_a_partition_that_is_trained_is_left_out_of_the_comparison():
    config, data = resolved("partition.method=learned", "partition.k=3")
    rows = build_partitions(config, data)
    assert (rows[0].method, rows[0].left_out) == ("learned", "it is trained; run it by itself")
    assert {row.method for row in rows[1:]} == set(PARTITIONERS) - {"given", "auto"}
