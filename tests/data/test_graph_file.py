"""Graphs in METIS, GraphML, GEXF and PyG files, and graphs of networkx: what is read, and what is refused."""

from pathlib import Path

import networkx
import pytest

from gpnn.data import load_dataset


def people() -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_node("anna", label="red", age=30, city="Oslo")
    graph.add_node("bert", label="blue", age=40, city="Rome")
    graph.add_node("cleo", age=50, city="Oslo")
    graph.add_edge("anna", "bert", weight=2.0, type="likes")
    graph.add_edge("bert", "cleo", type="knows")
    return graph


def test_graphml(tmp_path: Path) -> None:
    networkx.write_graphml(people(), tmp_path / "people.graphml")
    data = load_dataset(tmp_path / "people.graphml", numbers="raw")
    assert data.node_name.tolist() == ["anna", "bert", "cleo"]
    assert data.class_names == ["blue", "red"]
    assert data.y.tolist() == [1, 0, -1]
    assert data.feature_names == ["age", "city=Oslo", "city=Rome"]
    assert data.x.tolist() == [[30, 1, 0], [40, 0, 1], [50, 1, 0]]
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert data.edge_weight.tolist() == [2, 1, 2, 1]
    assert [data.edge_type_names[number] for number in data.edge_type] == ["likes", "knows", "likes", "knows"]


def test_a_directed_graph_keeps_its_directions(tmp_path: Path) -> None:
    networkx.write_graphml(networkx.DiGraph([(1, 2), (2, 3)]), tmp_path / "chain.graphml")
    data = load_dataset(tmp_path / "chain.graphml")
    assert data.edge_index.tolist() == [[0, 1], [1, 2]]
    assert data.node_name.tolist() == [1, 2, 3]


def test_gexf_labels_are_names_and_class_is_the_class(tmp_path: Path) -> None:
    graph = networkx.Graph()
    graph.add_node("a", label="Anna", **{"class": "red"})
    graph.add_node("b", label="Bert", **{"class": "blue"})
    graph.add_edge("a", "b", weight=0.5)
    networkx.write_gexf(graph, tmp_path / "people.gexf")
    data = load_dataset(tmp_path / "people.gexf")
    assert data.class_names == ["blue", "red"]
    assert data.get("x") is None
    assert data.edge_weight.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", ["graph.graphml", "graph.gexf"])
@pytest.mark.parametrize("content", [b"", b"words", b"<a><b></a>", b"<?xml version='1.0'?><x/>", b"\xff\xfe\x00<"])
def test_what_is_no_graph(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"^graph\.(graphml|gexf) must"):
        load_dataset(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
def test_entities_are_refused(tmp_path: Path, encoding: str) -> None:
    laughs = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><graphml>&b;</graphml>'
    (tmp_path / "laughs.graphml").write_bytes(laughs.encode(encoding))
    with pytest.raises(ValueError, match=r"laughs\.graphml must not define entities\. Got <!ENTITY\."):
        load_dataset(tmp_path / "laughs.graphml")


def test_a_wrong_weight_names_the_edge(tmp_path: Path) -> None:
    graph = networkx.Graph()
    graph.add_edge("a", "b", weight="heavy")
    networkx.write_graphml(graph, tmp_path / "graph.graphml")
    with pytest.raises(ValueError, match=r"edge a to b, column weight: must be a finite number\. Got 'heavy'\."):
        load_dataset(tmp_path / "graph.graphml")


def test_an_unknown_way_with_numbers_lists_the_choices(tmp_path: Path) -> None:
    networkx.write_graphml(people(), tmp_path / "people.graphml")
    with pytest.raises(ValueError, match=r"`numbers` must be one of auto, standard, normal, raw\. Got 'odd'\."):
        load_dataset(tmp_path / "people.graphml", numbers="odd")


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
    with pytest.raises(ValueError, match=r"An option of a networkx graph must be one of type, .* Got labels"):
        load_dataset(people(), labels="city")


def test_other_attributes_of_edges_are_used_or_refused(tmp_path):
    graph = people()
    graph.edges["anna", "bert"]["since"] = 1999
    with pytest.raises(ValueError, match=r"may have the columns .* \(ignore='since' leaves it out\)\. Got since\."):
        load_dataset(graph)
    assert load_dataset(graph, ignore="since").edge_index.equal(load_dataset(people()).edge_index)
    assert load_dataset(graph, edge_features="since").edge_attr.shape == (graph.number_of_edges() * 2, 2)
    assert load_dataset(graph, ignore="weight", weight="since").edge_weight.tolist().count(1999.0) == 2
    networkx.write_graphml(graph, tmp_path / "people.graphml")
    networkx.write_gexf(graph, tmp_path / "people.gexf")
    for file in ("people.graphml", "people.gexf"):
        with pytest.raises(ValueError, match=r"\(data\.ignore=since leaves it out.*\)\. Got since\."):
            load_dataset(tmp_path / file)
        assert load_dataset(tmp_path / file, ignore="since").num_edges == 2 * graph.number_of_edges()


def test_what_is_wrong_names_the_node():
    graph = people()
    graph.nodes["bert"]["split"] = "later"
    with pytest.raises(ValueError, match=r"^The graph, node bert, column split: must be train, val, test or empty"):
        load_dataset(graph)
