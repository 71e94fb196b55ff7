from benchmarks.typed_words import CLASSES, TYPES, WORDS, make_tables
from gpnn import load_dataset


def test_the_folder_is_a_dataset_and_follows_the_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_tables(tmp_path / name, 1000, seed)
    for file in ("nodes.csv", "edges.csv", "features.npz"):
        one, same, other = ((tmp_path / name / file).read_bytes() for name in "abc")
        assert one == same != other
    data = load_dataset(tmp_path / "a")
    assert (data.num_nodes, data.num_edges, data.x.shape[1]) == (1000, 5000, WORDS)
    assert int(data.edge_type.max()) + 1 == len(TYPES)
    assert 0.9 * CLASSES <= len(data.class_names) <= CLASSES  # rare ones may have no labelled node
    assert 0.2 < float((data.y >= 0).float().mean()) < 0.4
