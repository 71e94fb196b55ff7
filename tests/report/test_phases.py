from dataclasses import replace

import gpnn
from gpnn.report.content import Drawing
from gpnn.report.phases import MAX_PHASES, phases


def test_the_table_is_the_schedule(record):
    section = phases(record)
    chart, table, picture = section.parts
    assert [row[0] for row in table.rows] == ["inside", "cut"]
    rounds = record.schedule.num_rounds
    assert rounds * sum(row[3] for row in table.rows) == record.schedule.num_messages
    assert sum(chart.views["counts"][1]["y"]) == sum(row[4] for row in table.rows)
    assert isinstance(picture, Drawing)


def test_rounds_that_differ_are_all_shown(record):
    chain = gpnn.Graph([0, 1, 2], [1, 2, 3], num_nodes=4).to_undirected()
    section = phases(replace(record, schedule=gpnn.schedule.random_edges(chain, 3, 0), partition=None))
    assert section.parts[1].title == "All rounds"
    assert len(section.parts[1].rows) == 3


def test_long_schedules_are_cut_and_say_so(record):
    chain = gpnn.load_dataset("chain", num_nodes=250, label_rate=0.2)
    section = phases(replace(record, schedule=gpnn.schedule.sequential(chain, 1), partition=None))
    assert len(section.parts[1].rows) == MAX_PHASES
    assert f"The first {MAX_PHASES} of" in section.lead
    assert not any(isinstance(part, Drawing) for part in section.parts)
