from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from gpnn import Graph, Partition
from gpnn.schedule import Phase, Schedule, draw_schedule, partitioned, sequential, spanning_trees, synchronous
from gpnn.schedule.draw import CUT, DASHES, PALETTE
from gpnn.schedule.sheet import lay_out
from tests.oracle.small_graphs import chain, ring

SVG = "{http://www.w3.org/2000/svg}"
TWO_PARTS = partitioned(chain(6), [0, 0, 0, 1, 1, 1], rounds=2, intra=2)


def panels(picture):
    """The groups of a picture that have a frame and a heading."""
    return [
        group for group in ElementTree.fromstring(picture).findall(f"{SVG}g") if group.find(f"{SVG}text") is not None
    ]


def heading(panel):
    return panel.find(f"{SVG}text").text


def arrow_heads(panel, color):
    return [path for path in panel.iter(f"{SVG}path") if path.get("fill") == color]


def emphasised(panel):
    """Names of the nodes with a dark rim."""
    marks = list(panel.find(f"{SVG}g"))
    return [
        after.text
        for mark, after in pairwise(marks)
        if mark.tag in (f"{SVG}circle", f"{SVG}rect") and float(mark.get("stroke-width")) > 2
    ]


def test_one_panel_a_phase_with_its_messages_and_updates():
    inside, cut = panels(draw_schedule(TWO_PARTS))
    assert (heading(inside), heading(cut)) == ("1 · inside × 2", "2 · cut")
    assert (len(arrow_heads(inside, "#1f2933")), len(arrow_heads(inside, CUT))) == (8, 0)
    assert (len(arrow_heads(cut, "#1f2933")), len(arrow_heads(cut, CUT))) == (0, 2)
    assert emphasised(inside) == ["0", "1", "2", "3", "4", "5"]
    assert emphasised(cut) == ["2", "3"]


def test_nodes_are_coloured_by_subgraph():
    inside, _ = panels(draw_schedule(TWO_PARTS))
    assert [circle.get("fill") for circle in inside.iter(f"{SVG}circle")] == [PALETTE[0]] * 3 + [PALETTE[1]] * 3


def test_a_partition_given_colours_any_schedule():
    (panel,) = panels(draw_schedule(synchronous(chain(4), 1), partition=Partition(torch.tensor([0, 1, 1, 0]), 2)))
    assert [c.get("fill") for c in panel.iter(f"{SVG}circle")] == [PALETTE[k] for k in (0, 1, 1, 0)]
    assert len(arrow_heads(panel, CUT)) == 4


def test_edge_types_are_told_apart_by_their_lines():
    typed = Graph([0, 1, 1, 2], [1, 0, 2, 1], 3, edge_type=[0, 0, 1, 1])
    (panel,) = panels(draw_schedule(synchronous(typed, 1)))
    dashes = [path.get("stroke-dasharray") for path in panel.iter(f"{SVG}path") if path.get("fill") == "none"]
    assert dashes == [None, None, DASHES[1], DASHES[1]]
    assert "edge type 1" in draw_schedule(synchronous(typed, 1))
    assert "edge type" not in draw_schedule(TWO_PARTS)


def test_rounds_that_differ_are_drawn_one_by_one():
    names = [heading(panel) for panel in panels(draw_schedule(spanning_trees(chain(3), 2)))]
    assert names == ["round 1 · 1 · depth", "round 1 · 2 · depth", "round 2 · 1 · depth", "round 2 · 2 · depth"]


def test_says_how_many_phases_it_leaves_out():
    picture = draw_schedule(sequential(chain(8), 1), max_panels=3)
    assert len(panels(picture)) == 3
    assert "… and 11 more phases" in picture


def test_virtual_nodes_are_squares_that_members_write_to_and_read_from():
    schedule = partitioned(chain(4), [0, 0, 1, 1], rounds=1, virtual="subgraph")
    *_, gather, scatter = panels(draw_schedule(schedule))
    assert emphasised(gather) == ["v0", "v1"]
    assert emphasised(scatter) == ["0", "1", "2", "3"]
    assert len(arrow_heads(gather, "#1f2933")) == len(arrow_heads(scatter, "#1f2933")) == 4


def test_text_is_escaped():
    phase = Phase(torch.tensor([0]), torch.tensor([1]), kind='<b> & "quotes"')
    picture = draw_schedule(Schedule(chain(2), ((phase,),)), title="a < b & </text><script>")
    root = ElementTree.fromstring(picture)
    assert root.find(f"{SVG}text").text == "a < b & </text><script>"
    assert heading(panels(picture)[0]) == '<b> & "quotes"'
    assert "<script>" not in picture


def test_writes_the_file_whole(tmp_path):
    path = tmp_path / "schedule.svg"
    picture = draw_schedule(TWO_PARTS, path)
    assert path.read_text(encoding="utf-8") == picture
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "graph",
    [
        Graph([], [], num_nodes=1),
        Graph([], [], num_nodes=4),
        Graph([0, 0, 0, 0, 1], [0, 0, 1, 1, 0], num_nodes=2),
        Graph(np.repeat(np.arange(12), 12), np.tile(np.arange(12), 12), num_nodes=12),
        ring(60),
        chain(200),
    ],
    ids=["one", "isolated", "loops and parallels", "complete", "ring", "longest chain"],
)
def test_nodes_lie_inside_the_panel_and_do_not_touch(graph):
    sheet = lay_out(synchronous(graph, 1), None, seed=0)
    assert (sheet.positions - sheet.radius >= 0).all()
    assert (sheet.positions + sheet.radius <= [sheet.width, sheet.height]).all()
    apart = np.linalg.norm(sheet.positions[:, None] - sheet.positions[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    assert apart.min() > 2 * sheet.radius
    ElementTree.fromstring(draw_schedule(synchronous(graph, 1)))


def test_an_empty_schedule_still_has_a_picture():
    nothing = Schedule(chain(2), ((), ()))
    assert panels(draw_schedule(nothing)) == []


def test_the_same_seed_gives_the_same_picture():
    assert draw_schedule(TWO_PARTS, seed=1) == draw_schedule(TWO_PARTS, seed=1)


def test_refuses_a_graph_too_large_to_draw():
    with pytest.raises(ValueError, match=r"drawn for at most 200 nodes\. Got 201"):
        draw_schedule(synchronous(chain(201), 1))


def test_refuses_another_graphs_partition():
    with pytest.raises(ValueError, match=r"`partition` must label each of the 6 nodes\. Got 2 labels"):
        draw_schedule(TWO_PARTS, partition=Partition(torch.tensor([0, 1]), 2))


def test_refuses_no_panels():
    with pytest.raises(ValueError, match="`max_panels` must be an integer of at least 1"):
        draw_schedule(TWO_PARTS, max_panels=0)
