"""scikit-learn's tools over nodes of a graph: folds hide labels, and keep the graph whole."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch_geometric.data import Data

import gpnn
from gpnn import GPNNClassifier, GPNNRegressor
from gpnn.model_selection import StratifiedNodeKFold, SubgraphKFold
from gpnn.train.notes import NoteWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{NoteWarning.__module__}.{NoteWarning.__qualname__}")


@pytest.fixture(scope="module")
def data() -> Data:
    return gpnn.load_dataset("planted", num_nodes=120, num_classes=3, num_features=20, feature_noise=0.2)


@pytest.fixture(scope="module")
def nodes(data) -> np.ndarray:
    return np.arange(data.num_nodes)


def small(**options) -> GPNNClassifier:
    return GPNNClassifier(**{"hidden_channels": 8, "epochs": 15, "k": 3, "dropout": 0.0, **options})


@pytest.mark.parametrize("wrong", [False, True])
def test_labels_held_out_are_not_seen(data, nodes, wrong):
    """Other labels of the nodes held out, in the graph itself too, change no prediction."""
    train, test = next(StratifiedNodeKFold(3).split(nodes, data.y))
    graph = data.clone()
    if wrong:
        graph.y[test] = (graph.y[test] + 1) % 3
        graph.val_mask = torch.zeros(120, dtype=torch.bool).index_fill(0, torch.from_numpy(test), True)
        graph.train_mask, graph.test_mask = ~graph.val_mask, torch.zeros(120, dtype=torch.bool)
    proba = small().fit(train, data.y[train], graph=graph).predict_proba(test)
    bare = Data(x=data.x, edge_index=data.edge_index)
    assert np.array_equal(proba, small().fit(train, data.y[train], graph=bare).predict_proba(test, graph=data))
    assert proba.shape == (len(test), 3)


def test_nodes_with_labels_are_what_unlabelled_arrays_are(data, nodes):
    train = nodes[::3]
    y = np.where(np.isin(nodes, train), data.y, -1)
    arrays = small().fit(data.x.to_dense().numpy(), y, adjacency=gpnn.Graph.from_data(data))
    some = small().fit(train[:, None], data.y[train], graph=Data(x=data.x.to_dense(), edge_index=data.edge_index))
    dense = Data(x=data.x.to_dense(), edge_index=data.edge_index)  # a CSR product may sum in another order
    assert np.array_equal(some.predict_proba(nodes), arrays.predict_proba(dense))
    assert np.allclose(some.predict_proba(nodes), arrays.predict_proba(data), atol=1e-6)
    assert some.score(train, data.y[train]) == np.mean(some.predict(train) == data.y[train].numpy())


@pytest.mark.thorough
def test_cross_validation_and_searches(data, nodes):
    y, params = data.y.numpy(), {"graph": data}
    scores = cross_val_score(small(), nodes, y, cv=StratifiedNodeKFold(3), params=params)
    assert scores.shape == (3,)
    assert scores.mean() > 0.6
    assert cross_val_predict(small(epochs=2), nodes, y, cv=3, params=params, method="predict_proba").shape == (120, 3)
    search = GridSearchCV(small(), {"learning_rate": [1e-6, 0.01]}, cv=StratifiedKFold(2)).fit(nodes, y, graph=data)
    assert search.best_params_ == {"learning_rate": 0.01}
    assert np.array_equal(search.predict(nodes[:5]), search.best_estimator_.predict(nodes)[:5])
    drawn = RandomizedSearchCV(
        small(epochs=2), {"hidden_channels": [4, 8]}, n_iter=1, cv=SubgraphKFold(data, 2), scoring="f1_macro"
    )
    assert 0 <= drawn.fit(nodes, y, graph=data).best_score_ <= 1


def test_numbers_of_nodes(data, nodes):
    numbers = data.x.to_dense().mean(1).numpy()
    regressor = GPNNRegressor(hidden_channels=8, epochs=2, k=3)
    for cv in (StratifiedNodeKFold(2), SubgraphKFold(data, 2)):
        assert cross_val_score(regressor, nodes, numbers, cv=cv, params={"graph": data}).shape == (2,)


def test_nodes_are_named_by_the_users_ids():
    pyarrow = pytest.importorskip("pyarrow")
    names = [f"n{row}" for row in range(20)]
    table = pyarrow.table({"id": names, "side": [float(row % 2) for row in range(20)]})
    edges = pyarrow.table({"source": names[:-2], "target": names[2:]})
    graph = gpnn.from_frames(table, edges, undirected=True)
    classifier = small(k=2).fit(names[:10], ["even", "odd"] * 5, graph=graph)
    assert classifier.predict(["n19", "n0"]).shape == (2,)
    frame = classifier.predict_frame(["n19", "n0"])
    assert frame["node"].to_pylist() == ["n19", "n0"]
    assert set(frame["prediction"].to_pylist()) <= {"even", "odd"}
    with pytest.raises(ValueError, match=r"must be the id of a node of the graph. Got 'x'"):
        classifier.predict(["n1", "x"])


def test_columns_are_transformed_inside(data, nodes):
    """Fitted to the rows of the training nodes, and searched as a step of a pipeline is."""
    x = data.x.to_dense()
    graph, train = Data(x=x, edge_index=data.edge_index), nodes[:60]
    columns = make_pipeline(StandardScaler(), PCA(5, random_state=0))
    fitted = small(columns=columns).fit(train, data.y[train], graph=graph)
    by_hand = Data(x=torch.from_numpy(columns.fit(x[:60].numpy()).transform(x.numpy())), edge_index=data.edge_index)
    alone = small().fit(train, data.y[train], graph=by_hand)
    assert np.allclose(fitted.predict_proba(nodes), alone.predict_proba(nodes), atol=1e-6)
    assert (fitted.n_features_in_, fitted.columns_[1].n_components_) == (20, 5)
    search = GridSearchCV(small(columns=columns, epochs=2), {"columns__pca__n_components": [2, 3]}, cv=2)
    assert search.fit(nodes, data.y.numpy(), graph=graph).best_params_["columns__pca__n_components"] in (2, 3)
    with pytest.raises(ValueError, match="pickles nothing"):
        fitted.save("nowhere")


def test_a_pipeline_of_columns(data):
    adjacency = gpnn.Graph.from_data(data).to_scipy()
    table = {"a": data.x.to_dense()[:, 0].numpy(), "b": data.x.to_dense()[:, 1].numpy(), "c": ["u", "v", "w"] * 40}
    frame = pytest.importorskip("pandas").DataFrame(table)
    from sklearn.preprocessing import OneHotEncoder

    columns = ColumnTransformer([("n", StandardScaler(), ["a", "b"]), ("c", OneHotEncoder(), ["c"])])
    y = np.where(data.train_mask, data.y, -1)
    pipeline = make_pipeline(columns, small()).fit(frame, y, gpnnclassifier__adjacency=adjacency)
    assert pipeline.predict(frame, adjacency=adjacency).shape == (120,)
    assert clone(pipeline).get_params()["gpnnclassifier__epochs"] == 15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"X": [0, 1, 120]}, "must be the id of a node of the graph. Got 120"),
        ({"X": [0, 1, 1]}, "`X` must name a node once where it comes with a label. Got row 1 twice"),
        ({"y": [0, 1]}, "one label for each of the 3 nodes of `X`. Got 2"),
        ({"graph": np.eye(3)}, "`graph` must be a PyG Data.*Got ndarray"),
        ({"sample_weight": [1, 2]}, r"`sample_weight` must have shape \[3\]. Got \[2\]"),
        ({"sample_weight": [1, -2, 1]}, "`sample_weight` must hold finite numbers from 0. Got -2"),
        ({"sample_weight": [0, 0, 0]}, "Got zeros alone"),
    ],
)
def test_mistakes(data, options, message):
    with pytest.raises(ValueError, match=message):
        small().fit(**{"X": [0, 1, 2], "y": [0, 1, 0], "graph": data, **options})


def test_nodes_need_their_graph(data, tmp_path):
    fitted = small(epochs=1).fit([0, 1, 2, 3], [0, 1, 0, 1], graph=data)
    fitted.save(tmp_path)
    with pytest.raises(ValueError, match="`adjacency`, the graph that joins their rows, or be nodes of a `graph`"):
        GPNNClassifier.load(tmp_path).predict(np.array([[0.0]]))
    loaded = GPNNClassifier.load(tmp_path).predict_proba([0, 1], graph=data)
    assert np.array_equal(loaded, fitted.predict_proba([0, 1]))


def test_subgraphs_are_held_out_whole(data, nodes):
    part = gpnn.partition_graph(data, 8, method="clustered")
    folds = list(SubgraphKFold(data, n_splits=4, partition=part).split(nodes, data.y))
    labels = part.labels.numpy()
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == nodes.tolist()
    for train, test in folds:
        assert not set(labels[train]) & set(labels[test])
        assert len(train) + len(test) == 120


def test_the_two_splitters_ask_different_questions(data, nodes):
    """Nodes held out at random have neighbours with labels; those of whole subgraphs have few."""
    graph = gpnn.Graph.from_data(data)

    def known_neighbours(splitter) -> float:
        shares = []
        for train, test in splitter.split(nodes, data.y):
            into = np.isin(graph.dst.numpy(), test)
            shares.append(np.isin(graph.src.numpy()[into], train).mean())
        return float(np.mean(shares))

    assert known_neighbours(StratifiedNodeKFold(4)) > 0.6 > known_neighbours(SubgraphKFold(data, 4, k=4))


def test_unlabelled_nodes_are_in_no_fold(data, nodes):
    y = np.where(nodes % 4 == 0, -1, data.y.numpy())
    for splitter in (StratifiedNodeKFold(3), SubgraphKFold(data, 3)):
        assert splitter.get_n_splits() == 3
        tested = np.concatenate([test for _, test in splitter.split(nodes, y)])
        assert sorted(tested.tolist()) == nodes[nodes % 4 != 0].tolist()
    with pytest.raises(ValueError, match=r"`n_splits` must be an integer of at least 2. Got 1"):
        next(StratifiedNodeKFold(1).split(nodes, y))
