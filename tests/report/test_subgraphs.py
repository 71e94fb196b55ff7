from dataclasses import replace

import torch

import gpnn
from gpnn.report import subgraphs as module
from gpnn.report.subgraphs import subgraphs


def test_bars_are_the_quality(record):
    quality = record.partition.quality(record.data)
    chart, table = subgraphs(record).parts
    nodes, halo = chart.views["nodes and halo"]
    assert nodes["y"] == sorted(quality.sizes, reverse=True)
    assert halo["y"] == [quality.halo[int(part)] for part in halo["x"]]
    assert dict(table.rows)["cut edges"] == quality.num_cut_edges


def test_many_subgraphs_show_the_largest(record, monkeypatch):
    monkeypatch.setattr(module, "MAX_BARS", 2)
    part = gpnn.Partition(torch.arange(90).clamp(max=4), num_parts=5)
    section = subgraphs(replace(record, partition=part))
    assert section.parts[0].views["nodes and halo"][0]["y"] == [86, 1]
    assert "Bars show the 2 largest." in section.lead


def test_without_a_partition_there_is_no_section(record):
    assert subgraphs(replace(record, partition=None)) is None
