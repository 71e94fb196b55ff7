from dataclasses import replace

import torch

import gpnn
from gpnn.report import Record
from gpnn.report import setup as module
from gpnn.report.counts import count_phases
from gpnn.report.record import Drawing
from gpnn.report.setup import MAX_PHASES, phases, reproduce, subgraphs


def test_the_command_starts_as_many_processes(record):
    assert reproduce(record).parts[0].text.startswith("gpnn train --config")
    shared = reproduce(replace(record, shares=[{"nodes": 45}, {"nodes": 45}]))
    assert shared.parts[0].text.startswith("torchrun --nproc-per-node 2 -m gpnn train --config")


def test_bars_are_the_quality(record, inputs):
    quality = inputs.partition.quality(inputs.data)
    chart, table = subgraphs(record).parts
    nodes, halo = chart.views["nodes and halo"]
    assert nodes["y"] == sorted(quality.sizes, reverse=True)
    assert halo["y"] == [quality.halo[int(part)] for part in halo["x"]]
    assert dict(table.rows)["cut edges"] == quality.num_cut_edges


def test_many_subgraphs_show_the_largest(inputs, monkeypatch):
    monkeypatch.setattr(module, "MAX_BARS", 2)
    part = gpnn.Partition(torch.arange(90).clamp(max=4), num_parts=5)
    section = subgraphs(inputs.gather(partition=part))
    assert section.parts[0].views["nodes and halo"][0]["y"] == [86, 1]
    assert "Bars show the 2 largest." in section.lead


def test_without_a_partition_there_is_no_section(inputs):
    assert subgraphs(inputs.gather(partition=None)) is None


def scheduled(record: Record, schedule: gpnn.schedule.Schedule) -> Record:
    """The record of a run under another schedule, of another graph."""
    small = replace(record.small, graph=schedule.graph, schedule=schedule, partition=None)
    return replace(record, phases=count_phases(schedule), small=small)


def test_the_table_is_the_schedule(record):
    section = phases(record)
    chart, table, picture = section.parts
    assert [row[0] for row in table.rows] == ["inside", "cut"]
    schedule = record.small.schedule
    assert schedule.num_rounds * sum(row[3] for row in table.rows) == schedule.num_messages
    assert sum(chart.views["counts"][1]["y"]) == sum(row[4] for row in table.rows)
    assert isinstance(picture, Drawing)


def test_rounds_that_differ_are_all_shown(record):
    chain = gpnn.Graph([0, 1, 2], [1, 2, 3], num_nodes=4).to_undirected()
    section = phases(scheduled(record, gpnn.schedule.random_edges(chain, 3, 0)))
    assert section.parts[1].title == "All rounds"
    assert len(section.parts[1].rows) == 3


def test_long_schedules_are_cut_and_say_so(record):
    chain = gpnn.load_dataset("chain", num_nodes=250, label_rate=0.2)
    section = phases(scheduled(record, gpnn.schedule.sequential(chain, 1)))
    assert len(section.parts[1].rows) == MAX_PHASES
    assert f"The first {MAX_PHASES} of" in section.lead
    assert not any(isinstance(part, Drawing) for part in section.parts)
