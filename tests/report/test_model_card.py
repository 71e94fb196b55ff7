import json

import pytest
from typer.testing import CliRunner

from gpnn.cli import app
from gpnn.report import write_model_card
from gpnn.run.folder import RunFolder

TINY = ["data.num_nodes=120", "data.num_classes=3", "data.num_features=20", "data.label_rate=0.2"]
MODEL = ["model.hidden_channels=8", "train.epochs=3", "partition.k=3", "--quiet"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    path = tmp_path_factory.mktemp("runs") / "run"
    result = CliRunner().invoke(app, ["train", "planted", *TINY, *MODEL, "--out", str(path)])
    assert result.exit_code == 0, result.output
    return RunFolder(path)


def test_it_holds_the_digest_the_figures_and_the_rare_classes(run):
    card = run.model_card.read_text()
    metrics, environment = (json.loads(path.read_text()) for path in (run.metrics, run.environment))
    assert card.startswith("# Model card: planted\n")
    assert environment["data_sha256"] in card
    assert f"| this model | {100 * metrics['val_accuracy']:.1f} % | {100 * metrics['test_accuracy']:.1f} % |" in card
    assert "| majority |" in card
    for title in ("## Data", "## Figures", "## Intended use", "## Limits"):
        assert card.count(f"\n{title}\n") == 1
    assert "Classes with fewer than 10 training labels: " in card
    assert str(run.path) not in card


def test_it_is_written_anew_with_the_report_and_gone_while_a_run_goes_on(run):
    before = run.model_card.read_text()
    run.model_card.unlink()
    assert CliRunner().invoke(app, ["report", str(run.path)]).exit_code == 0
    assert run.model_card.read_text() == before
    metrics = run.metrics.read_text()
    run.reopen()
    assert not run.model_card.exists()
    with pytest.raises(ValueError, match="A finished run must hold"):
        write_model_card(run)
    run.metrics.write_text(metrics)


def test_a_name_cannot_break_its_tables(run):
    environment = json.loads(run.environment.read_text())
    environment["settings"]["data.name"] = "folder/a|b\n# no heading"
    run.environment.write_text(json.dumps(environment))
    write_model_card(run)
    card = run.model_card.read_text()
    assert [line for line in card.splitlines() if line.startswith("# ")] == ["# Model card: a|b # no heading"]
    assert "| graph | a\\|b # no heading |" in card
