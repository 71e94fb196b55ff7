"""A networkx graph is the same in memory and in a file."""

import networkx
import pytest

from gpnn import load_dataset
from tests.data.formats.test_graph_file import people


def test_attributes_are_columns_as_in_a_file(tmp_path):
    networkx.write_graphml(people(), tmp_path / "people.graphml")
    expected = load_dataset(tmp_path / "people.graphml")
    data = load_dataset(people())
    for name in ("x", "y", "edge_index", "edge_type", "edge_weight", "train_mask"):
        assert data[name].equal(expected[name]), name
    assert data.node_name.tolist() == expected.node_name.tolist()
    assert data.vocabulary == expected.vocabulary


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_a_label_that_is_missing_is_unlabelled(missing):
    graph = people()
    graph.nodes["cleo"]["label"] = missing
    assert load_dataset(graph).y.tolist() == [1, 0, -1]


def test_options_and_vocabulary():
    first = load_dataset(people(), label="city", ignore="label,age")
    assert first.class_names == ["Oslo", "Rome"]
    graph = people()
    graph.add_node("dan", label="red", age=60, city="Lima")
    later = load_dataset(graph, vocabulary=load_dataset(people()).vocabulary)
    assert later.x.shape == (4, 3)
    with pytest.raises(ValueError, match=r"An option of a networkx graph must be one of label, .* Got labels"):
        load_dataset(people(), labels="city")


def test_other_attributes_of_edges_are_noted():
    graph = people()
    graph.edges["anna", "bert"]["since"] = 1999
    assert "attributes of edges other than type and weight are not used: since" in load_dataset(graph).notes


def test_what_is_wrong_names_the_node():
    graph = people()
    graph.nodes["bert"]["split"] = "later"
    with pytest.raises(ValueError, match=r"^The graph, node bert, column split: must be train, val, test or empty"):
        load_dataset(graph)
