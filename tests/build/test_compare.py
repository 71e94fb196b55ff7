"""Schedules and partitioners side by side, each with the settings that are its own."""

import pytest

from gpnn.build import build_data, build_partitions, build_schedules, load_config, resolve_structure
from gpnn.partition import PARTITIONERS
from gpnn.schedule import SCHEDULES

TINY = ["data.name=planted", "data.num_nodes=60", "data.num_classes=3", "data.num_features=8", "data.label_rate=0.3"]


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
