import pytest

from gpnn.schedule import SCHEDULES

CHAIN = ["chain", "data.num_nodes=12", "data.label_rate=0.5", "-k", "3"]


def test_all_schedules_side_by_side(gpnn):
    result = gpnn("schedule", *CHAIN, "--rounds", 4)
    assert result.exit_code == 0, result.output
    assert all(name in result.stdout for name in SCHEDULES)
    row = next(line for line in result.stdout.splitlines() if "synchronous" in line)
    assert [cell.strip() for cell in row.split("│")[2:6]] == ["4", "4", "88", "48"]


def test_the_configured_schedule_takes_its_options(gpnn):
    plain, doubled = (gpnn("schedule", *CHAIN, "--rounds", 2, *more).stdout for more in ((), ("schedule.intra=2",)))
    row = lambda text: next(line for line in text.splitlines() if "partitioned" in line)  # noqa: E731
    assert row(plain) != row(doubled)


def test_a_drawing(gpnn, tmp_path):
    result = gpnn("schedule", *CHAIN, "--draw", "chain.svg")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "chain.svg").read_text().lstrip().startswith(("<svg", "<?xml"))


def test_a_large_graph_is_not_drawn(gpnn, tmp_path):
    result = gpnn("schedule", "chain", "data.num_nodes=300", "-k", "2", "--draw", "chain.svg")
    assert result.exit_code == 2
    assert "can be drawn for at most 200 nodes. Got 300." in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["schedule.name=random"], ["schedule.name=sequential", "schedule.cut=2"]])
def test_mistakes(gpnn, words):
    assert gpnn("schedule", *CHAIN, *words).exit_code == 2


def test_a_schedule_that_the_graph_does_not_allow_names_the_setting_that_mends_it(gpnn, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    refused = gpnn("schedule", "--edges", "edges.csv", "-k", 1)
    assert refused.exit_code == 0, refused.output
    assert "spanning_trees: Spanning trees need the reverse of every edge" in refused.stderr
    assert "data.undirected=true adds it" in refused.stderr
    mended = gpnn("schedule", "--edges", "edges.csv", "-k", 1, "data.undirected=true")
    assert "spanning_trees" in mended.stdout
    assert "spanning_trees" not in mended.stderr
