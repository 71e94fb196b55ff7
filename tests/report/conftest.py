"""One small run, and one whose ids and labels are hostile, for all tests of the report."""

from pathlib import Path
from typing import Any

import pytest

from gpnn.build import build, create_run, load_config, open_run, train_run
from gpnn.build.report import record_run, run_facts
from gpnn.report import Record, gather_record
from gpnn.train import RunFolder
from gpnn.train.evaluate import predict_logits, probabilities

HOSTILE = (
    "<script>window.pwned=1</script>",
    "</script><img src=x onerror='window.pwned=1'>",
    "<b>bold</b> & \"quoted\" 'single' %{x} {{ 7 * 7 }} `tick`",
)
TINY = ["data.name=planted", "data.num_nodes=90", "data.num_classes=3", "data.num_features=12", "data.label_rate=0.3"]
SMALL_MODEL = ["model.hidden_channels=8", "train.epochs=6", "train.check_every=2", "partition.k=3"]


def make_run(path: Path, words: list[str]) -> RunFolder:
    built = build(load_config(overrides=[*words, *SMALL_MODEL]))
    run = create_run(built, path)
    train_run(run, built, report=False)
    return run


def record_of(run: RunFolder) -> Record:
    run, built = open_run(run.path)
    built.model.load_state_dict(run.read_model()[0])
    record = record_run(run, built)
    assert record is not None
    return record


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs") / "first", TINY)


@pytest.fixture(scope="session")
def record(run) -> Record:
    return record_of(run)


class Inputs:
    """The arguments of `gather_record` for a run, of which a test may change some."""

    def __init__(self, run: RunFolder) -> None:
        run, built = open_run(run.path)
        built.model.load_state_dict(run.read_model()[0])
        built.model.eval()
        self.data, self.plan, self.partition = built.data, built.plan, built.partition
        self.predictions = probabilities(predict_logits(built.model, self.data.x, self.plan))
        self.states = built.model.states(self.data.x, self.plan).detach()
        self.run = run_facts(run, built.config)

    def gather(self, **changes: Any) -> Record:
        record = gather_record(**vars(self) | changes)
        assert record is not None
        return record


@pytest.fixture(scope="session")
def inputs(run) -> Inputs:
    return Inputs(run)


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory) -> RunFolder:
    """A folder of tables whose ids and classes are markup, and a run folder named in kind."""
    folder = tmp_path_factory.mktemp("tables") / "a<b>&'graph"
    folder.mkdir()
    nodes = [f'"{number}{HOSTILE[number % 3].replace(chr(34), chr(34) * 2)}"' for number in range(60)]
    labels = ['"' + HOSTILE[number % 3].replace('"', '""') + '"' for number in range(60)]
    rows = [f"{node},{name},{number % 3},1" for number, (node, name) in enumerate(zip(nodes, labels))]
    (folder / "nodes.csv").write_text("id,label,a,b\n" + "\n".join(rows) + "\n")
    pairs = [f"{nodes[a]},{nodes[(a + step) % 60]}" for a in range(60) for step in (1, 3)]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(pairs) + "\n")
    return make_run(folder.parent / "run<i>", [f"data.name={folder}", "data.undirected=true"])
