import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import gpnn
from gpnn.cli import app
from gpnn.report import Record, write_model_card
from gpnn.report import setup as module
from gpnn.report.counts import count_phases
from gpnn.report.record import Drawing
from gpnn.report.setup import MAX_PHASES, phases, reproduce, subgraphs
from gpnn.run.folder import RunFolder


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


TINY = ["data.num_nodes=120", "data.num_classes=3", "data.num_features=20", "data.label_rate=0.2"]
MODEL = ["model.hidden_channels=8", "train.epochs=3", "partition.k=3", "--quiet"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> RunFolder:
    path = tmp_path_factory.mktemp("runs") / "run"
    result = CliRunner().invoke(app, ["train", "planted", *TINY, *MODEL, "--out", str(path)])
    assert result.exit_code == 0, result.output
    return RunFolder(path)


def test_it_holds_the_digest_the_figures_and_the_rare_classes(trained):
    card = trained.model_card.read_text()
    metrics, environment = (json.loads(path.read_text()) for path in (trained.metrics, trained.environment))
    assert card.startswith("# Model card: planted\n")
    assert environment["data_sha256"] in card
    assert f"| this model | {100 * metrics['val_accuracy']:.1f} % | {100 * metrics['test_accuracy']:.1f} % |" in card
    assert "| majority |" in card
    for title in ("## Data", "## Figures", "## Intended use", "## Limits"):
        assert card.count(f"\n{title}\n") == 1
    assert "Classes with fewer than 10 training labels: " in card
    assert str(trained.path) not in card


def test_it_is_written_anew_with_the_report_and_gone_while_a_run_goes_on(trained):
    before = trained.model_card.read_text()
    trained.model_card.unlink()
    assert CliRunner().invoke(app, ["report", str(trained.path)]).exit_code == 0
    assert trained.model_card.read_text() == before
    metrics = trained.metrics.read_text()
    trained.reopen()
    assert not trained.model_card.exists()
    with pytest.raises(ValueError, match="A finished run must hold"):
        write_model_card(trained)
    trained.metrics.write_text(metrics)


def test_a_name_cannot_break_its_tables(trained):
    environment = json.loads(trained.environment.read_text())
    environment["settings"]["data.name"] = "folder/a|b\n# no heading"
    trained.environment.write_text(json.dumps(environment))
    write_model_card(trained)
    card = trained.model_card.read_text()
    assert [line for line in card.splitlines() if line.startswith("# ")] == ["# Model card: a|b # no heading"]
    assert "| graph | a\\|b # no heading |" in card
