import json
from copy import copy

import networkx
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

import gpnn
from gpnn import GPNNClassifier
from gpnn.estimator.training import pipeline_of
from gpnn.pipeline import Pipeline
from gpnn.train.notes import NoteWarning
from gpnn.train.task import Classification
from tests.oracle.multi_hot import multi_hot_graph


@pytest.fixture(scope="module")
def data() -> Data:
    return gpnn.load_dataset(
        "planted", num_nodes=120, num_classes=3, num_features=20, label_rate=0.3, feature_noise=0.2
    )


def small(**options) -> GPNNClassifier:
    return GPNNClassifier(**{"hidden_channels": 8, "epochs": 15, "k": 3, "dropout": 0.0, **options})


@pytest.fixture(scope="module")
def fitted(data) -> GPNNClassifier:
    return small().fit(data)


@pytest.fixture(scope="module")
def arrays(data) -> tuple[np.ndarray, np.ndarray, object]:
    y = np.where(data.train_mask | data.val_mask, data.y, -1)
    return data.x.to_dense().numpy(), y, gpnn.Graph.from_data(data).to_scipy()


def test_it_learns_from_data(data, fitted):
    assert fitted.predict(data).shape == (120,)
    assert fitted.predict_proba(data).sum(1) == pytest.approx(np.ones(120), abs=1e-5)
    assert fitted.score(data) == pytest.approx(fitted.metrics_["test_accuracy"])
    assert fitted.score(data) > 0.6
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert (fitted.n_iter_, len(fitted.history_), fitted.n_features_in_) == (15, 15, 20)


def test_scikit_learn_conventions(fitted, data):
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copied.predict(data)
    copied.set_params(epochs=2, model_options={"readout": "mean"})
    assert copied.fit(data) is copied
    assert copied.n_iter_ == 2


def test_the_same_seed_gives_the_same_probabilities(data, fitted):
    assert np.array_equal(small().fit(data).predict_proba(data), fitted.predict_proba(data))
    assert not np.array_equal(small(seed=1).fit(data).predict_proba(data), fitted.predict_proba(data))


def test_arrays_with_unlabelled_nodes(data, arrays):
    x, y, adjacency = arrays
    names = np.array(["red", "green", "blue"])
    labels = np.where(y < 0, "-1", names[y])
    classifier = small().fit(x, labels, adjacency=adjacency)
    assert classifier.classes_.tolist() == ["blue", "green", "red"]
    predicted = classifier.predict(x, adjacency=adjacency)
    truth = names[data.y.numpy()]
    assert classifier.score(x, truth, adjacency=adjacency) == pytest.approx(np.mean(predicted == truth))
    assert np.mean(predicted == truth) > 0.6
    assert "val_accuracy" in classifier.metrics_


def test_unlabelled_nodes_do_not_count_in_the_score(data, arrays):
    x, y, adjacency = arrays
    classifier = small(epochs=2).fit(x, y, adjacency=adjacency)
    known = y >= 0
    wanted = np.mean(classifier.predict(x, adjacency=adjacency)[known] == y[known])
    for unknown in (-1, float("nan"), None):
        labels = np.where(known, y, unknown)
        assert classifier.score(x, labels, adjacency=adjacency) == pytest.approx(wanted)
        assert classifier.score(x, labels.tolist(), adjacency=adjacency) == pytest.approx(wanted)


def test_a_networkx_graph_gives_what_the_same_matrix_gives(arrays):
    """networkx meets the nodes of an edge list in another order than that of the rows."""
    x, y, adjacency = arrays
    ends = np.random.default_rng(0).permutation(np.argwhere(adjacency.toarray()))
    graph = networkx.Graph(ends.tolist())
    graph.add_nodes_from(range(120))
    assert list(graph.nodes) != list(range(120))
    ours, theirs = (small().fit(x, y, adjacency=each).predict_proba(x, adjacency=each) for each in (graph, adjacency))
    assert np.array_equal(ours, theirs)
    named = networkx.relabel_nodes(graph, {node: f"n{node}" for node in graph})
    with pytest.raises(ValueError, match=r"must have the nodes 0 to 119.*Got 'n"):
        small().fit(x, y, adjacency=named)
    rows = gpnn.Graph.from_networkx(named, nodes=[f"n{row}" for row in range(120)])
    assert np.array_equal(small().fit(x, y, adjacency=rows).predict_proba(x, adjacency=rows), theirs)


def test_a_grid_search_over_masks(data):
    scores = {}
    for rate in (1e-6, 0.01):
        candidate = clone(small()).set_params(learning_rate=rate).fit(data)
        scores[rate] = candidate.metrics_["val_accuracy"]
    assert scores[0.01] > scores[1e-6]


def test_it_predicts_on_a_new_graph(fitted):
    other = gpnn.load_dataset("planted", num_nodes=40, num_classes=3, num_features=20, label_rate=0.3, seed=5)
    assert fitted.predict(other).shape == (40,)


def test_labels_are_not_needed_to_predict_on_the_graph_learnt_from(data, fitted):
    bare = Data(x=data.x, edge_index=data.edge_index)
    assert np.array_equal(fitted.predict_proba(bare), fitted.predict_proba(data))


def test_nodes_learnt_from_keep_their_subgraphs_when_the_graph_grows(data, fitted, tmp_path):
    """Labels gone, an edge more and two new nodes: the known ones are divided as they were."""
    new = torch.tensor([[120, 0, 121, 5, 7], [0, 120, 5, 121, 90]])
    x = torch.cat([data.x.to_dense(), data.x.to_dense()[:2]]).to_sparse_csr()
    grown = Data(x=x, edge_index=torch.cat([data.edge_index, new], 1))
    part = fitted.known_.partition(fitted_view(fitted, grown))
    labels = fitted.partition_.labels
    assert torch.equal(part.labels[:120], labels)
    assert part.labels[120:].tolist() == labels[[0, 5]].tolist()
    fitted.save(tmp_path)
    assert np.array_equal(GPNNClassifier.load(tmp_path).predict_proba(grown), fitted.predict_proba(grown))


def fitted_view(classifier: GPNNClassifier, data: Data) -> Data:
    """The graph as the classifier sees it, its features scaled."""
    from gpnn.data.features import transform_data

    return transform_data(data, scale_features=classifier.scale_features_)


def test_nodes_of_a_folder_are_known_by_their_ids(tmp_path):
    nodes = [f"p{node},{'ab'[node % 2] if node < 10 else ''},{node % 2}\n" for node in range(20)]
    edges = "source,target\n" + "".join(f"p{a},p{a + 2}\np{a + 2},p{a}\n" for a in range(18))
    for name, rows in (("old", nodes), ("turned", nodes[::-1])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nodes.csv").write_text("id,label,side\n" + "".join(rows))
        (tmp_path / name / "edges.csv").write_text(edges)
    old = gpnn.load_dataset(tmp_path / "old")
    turned = gpnn.load_dataset(tmp_path / "turned", vocabulary=old.vocabulary)
    classifier = small(k=2, epochs=2, patience=0).fit(old)
    classifier.save(tmp_path / "saved")
    labels = classifier.partition_.labels.flip(0)
    for each in (classifier, GPNNClassifier.load(tmp_path / "saved")):
        assert torch.equal(each.known_.partition(fitted_view(each, turned)).labels, labels)


def test_a_classifier_of_an_older_version_is_loaded(data, fitted, tmp_path):
    """It kept its partition as safetensors, and knew its graph by the edges."""
    fitted.save(tmp_path)
    saved = json.loads((tmp_path / "classifier.json").read_text())
    del saved["nodes_sha256"], saved["rows_"]
    saved["graph_"] = fitted.known_.digests.edges
    (tmp_path / "classifier.json").write_text(json.dumps(saved))
    (tmp_path / "nodes.parquet").unlink()
    fitted.partition_.save(tmp_path / "partition.safetensors")
    loaded = GPNNClassifier.load(tmp_path)
    bare = Data(x=data.x, edge_index=data.edge_index)
    assert np.array_equal(loaded.predict_proba(bare), fitted.predict_proba(data))


def test_save_and_load(data, fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    loaded = GPNNClassifier.load(tmp_path / "saved")
    bare = Data(x=data.x, edge_index=data.edge_index)
    assert np.array_equal(loaded.predict_proba(bare), fitted.predict_proba(data))
    assert loaded.get_params() == fitted.get_params()
    assert (loaded.sizes_, loaded.metrics_) == (fitted.sizes_, fitted.metrics_)
    assert not any(path.suffix in (".pkl", ".pt", ".pickle") for path in (tmp_path / "saved").iterdir())


def test_a_folder_without_a_classifier_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must hold a saved classifier"):
        GPNNClassifier.load(tmp_path)
    (tmp_path / "classifier.json").write_text(json.dumps({"parameters": {"magic": 1}}))
    with pytest.raises(ValueError, match="must hold a saved classifier"):
        GPNNClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes_": [0, 1]}, r"Got: classes of shape \[2\] for 3 outputs\."),
        ({"classes_": [[0], [1], [2]]}, r"Got: classes of shape \[3, 1\] for 3 outputs\."),
        ({"classes_": [{}, {}, {}]}, r"Got: classes of shape \[3\] for 3 outputs\."),
        ({"multilabel_": True}, r"Got: the task classification\."),
        (
            {"classes_": [0, 1], "task_": Classification(2).to_mapping()},
            r"Got a model with other outputs\.",
        ),
    ],
)
def test_a_classifier_with_other_classes_is_refused(fitted, tmp_path, changes, message):
    fitted.save(tmp_path)
    saved = json.loads((tmp_path / "classifier.json").read_text())
    (tmp_path / "classifier.json").write_text(json.dumps(saved | changes))
    with pytest.raises(ValueError, match=f"must hold a saved classifier. {message}$"):
        GPNNClassifier.load(tmp_path)


def test_verbose_prints_the_sizes_chosen(data, capsys):
    GPNNClassifier(epochs=10, verbose=True).fit(data)
    shown = capsys.readouterr()
    assert str(Pipeline().resolve(data).sizes) in shown.out
    assert shown.err.count("training: epoch ") == 10
    assert "  best " in shown.err


def test_other_schedules_cells_and_recipes(data):
    classifier = small(
        schedule="synchronous",
        cell="linear",
        normalization="symmetric",
        self_loops=True,
        drop_node=0.5,
        train_options={"passes": 2, "consistency": 1.0, "metric": "loss"},
    ).fit(data)
    assert classifier.partition_ is None
    assert classifier.predict(data).shape == (120,)


def test_without_features_nodes_get_embeddings(arrays):
    _, y, adjacency = arrays
    classifier = small(epochs=2).fit(None, y, adjacency=adjacency)
    assert classifier.predict(None, adjacency=adjacency).shape == (120,)
    with pytest.raises(ValueError, match="Embeddings belong to one graph of 120 nodes"):
        classifier.predict(None, adjacency=np.eye(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "diagonal"}, "`schedule` must be one of synchronous"),
        ({"partition": "magic"}, "`method` must be one of flood_fill"),
        ({"cell": "rnn"}, "`cell` must be one of gru"),
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"device": "gpu"}, "`device` must be auto"),
        ({"seed": -1}, r"`seed` must be an integer from 0 to 2\*\*63 - 1. Got -1."),
        ({"seed": None}, r"`seed` must be an integer. Got None."),
        (
            {"k": 2.0, "dropout": "a"},
            r"`dropout` must be a number or nothing. Got .a.. `k` must be an integer or .auto. or nothing. Got 2.0.",
        ),
        ({"validation_fraction": 2}, "`validation_fraction` must be at least 0 and below 1. Got 2."),
        (
            {"model_options": {"cel": "gru"}},
            r"An option of the model 'gpnn' must be one of cell, .* Got cel \(.* cell\)",
        ),
        ({"train_options": {"clp": 1.0}}, r"An option of `train_options` must be one of epochs, .* Got clp"),
        ({"class_weight": [-1, 1, 1]}, "`class_weight` must hold numbers from 0"),
    ],
)
def test_mistakes_name_the_choices(data, options, message):
    with pytest.raises(ValueError, match=message):
        small(**options).fit(data)


def test_labels_are_needed_to_learn():
    with pytest.raises(ValueError, match="`y` must give labels to learn from"):
        small().fit(Data(x=torch.eye(3), edge_index=torch.tensor([[0], [1]])))


def gated(**options) -> GPNNClassifier:
    calm = {"drop_node": 0.0, "weight_decay": 0.0, "model_options": {"input_dropout": 0.0}, "learning_rate": 0.01}
    return small(cell="gru", normalization="phase", self_loops=False, **calm, **options)


def test_several_labels_a_node(tmp_path):
    data = multi_hot_graph()
    classifier = gated(epochs=60).fit(data)
    predicted, probability = classifier.predict(data), classifier.predict_proba(data)
    assert classifier.metrics_["test_roc_auc"] > 0.85
    assert (predicted.shape, np.unique(predicted).tolist()) == ((120, 4), [0, 1])
    assert np.array_equal(predicted, probability > 0.5)
    test = data.test_mask.numpy()
    assert classifier.score(data) == np.mean((predicted == data.y.numpy()).all(1)[test]) > 0.3
    classifier.save(tmp_path / "saved")
    assert np.array_equal(GPNNClassifier.load(tmp_path / "saved").predict_proba(data), probability)


def test_arrays_of_several_labels_a_node():
    data = multi_hot_graph()
    x, adjacency = data.x.numpy(), gpnn.Graph.from_data(data).to_scipy()
    y = np.where(data.test_mask[:, None], -1, data.y)
    classifier = gated(epochs=40).fit(x, y, adjacency=adjacency)
    assert classifier.metrics_["val_roc_auc"] > 0.8
    predicted, known = classifier.predict(x, adjacency=adjacency), (y >= 0).all(1)
    assert classifier.score(x, y, adjacency=adjacency) == np.mean((predicted == y).all(1)[known])


def test_the_engine_is_chosen_by_memory(data, tmp_path, capsys):
    fused = small(verbose=True).fit(data)
    assert "engine fused; estimated memory" in capsys.readouterr().out
    mapped = small(engine="mapped", disk=str(tmp_path)).fit(data)
    np.testing.assert_allclose(fused.predict_proba(data), mapped.predict_proba(data), atol=1e-3)
    with pytest.raises(ValueError, match=r"Training must fit in 0\.0 GB of memory"):
        small(memory=0.001).fit(data)


def test_the_size_of_measurements_is_learnt_and_later_graphs_are_scaled_alike(tmp_path):
    """Two classes inside and outside a circle: rows scaled to sum one would tell the direction only."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=generator)
    y = (x.norm(dim=1) > 1.18).long()
    order = y.argsort()
    edge_index = torch.stack([order[:-1], order[1:]])  # neighbours are alike
    known = torch.rand(200, generator=generator) < 0.6
    circle = Data(x=x, edge_index=edge_index, y=y, train_mask=known, test_mask=~known)
    with pytest.warns(NoteWarning, match=r"199 edges have no reverse.*ToUndirected\(\) adds it"):
        learnt = small(epochs=60, learning_rate=0.05).fit(circle)
    assert learnt.score(circle) > 0.8
    learnt.save(tmp_path)
    inside = Data(x=x.abs(), edge_index=edge_index)  # no negative value, and yet not scaled
    loaded = GPNNClassifier.load(tmp_path)
    assert loaded.scale_features_ == "none"
    assert np.array_equal(loaded.predict_proba(inside), learnt.predict_proba(inside))


@pytest.mark.parametrize("cell", ["linear", "gru"])
def test_columns_of_different_units_are_learnt_like_those_in_standard_ones(tmp_path, cell):
    """A year, and a sum of money: as they are a network learns nothing from them."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(300, 2, generator=random)
    y = (x[:, 0] + x[:, 1] > 0).long()
    order = y.argsort()
    known = torch.rand(300, generator=random) < 0.6
    given = {"edge_index": torch.stack([order[:-1], order[1:]]), "y": y, "train_mask": known, "test_mask": ~known}
    raw = Data(x=x * torch.tensor([8.0, 1e5]) + torch.tensor([2000.0, 3e5]), **given)
    with pytest.warns(NoteWarning):
        learnt = small(cell=cell, epochs=40, learning_rate=0.05).fit(raw)
    assert learnt.score(raw) > 0.9
    with pytest.warns(NoteWarning):
        as_they_are = small(cell=cell, epochs=40, learning_rate=0.05, model_options={"standardize": False}).fit(raw)
    assert as_they_are.score(raw) < 0.8
    learnt.save(tmp_path)
    part = Data(x=raw.x[:150], edge_index=torch.stack([torch.arange(149), torch.arange(1, 150)]))
    assert np.array_equal(GPNNClassifier.load(tmp_path).predict_proba(part), learnt.predict_proba(part))
    with pytest.raises(ValueError, match=r"`standardize` takes dense features\. Got sparse ones"):
        small(model_options={"standardize": True}).fit(Data(**given | {"x": x.to_sparse_csr()}))


def test_what_is_not_used_is_warned_of(data):
    """Edge types and a validation set that came out empty; each with the argument that mends it."""
    two = torch.zeros(120, dtype=torch.bool)
    two[[int((data.y == label).nonzero()[0]) for label in range(3)]] = True
    types = torch.arange(data.num_edges) % 2
    odd = Data(
        x=data.x,
        y=data.y,
        train_mask=two,
        edge_index=data.edge_index,
        edge_type=types,
    )
    with pytest.warns(NoteWarning) as caught:
        small(epochs=1).fit(odd)
    notes = [each for each in caught if each.category is NoteWarning]  # torch has warnings of its own
    assert [str(each.message).split(";")[0][:24] for each in notes] == [
        "2 edge types count as on",
        "no node validates: the w",
    ]
    assert notes[0].filename == __file__
    assert 'model_options={"message": "linear"}' in str(notes[0].message)
    del odd.edge_type
    small(epochs=1, validation_fraction=0).fit(odd)  # none were wanted


@pytest.mark.parametrize("attributes", [torch.ones(2), torch.tensor([0, 1])])
def test_edge_attributes_are_used_or_refused(data, attributes):
    odd = copy(data)
    odd.edge_attr = attributes.expand(data.num_edges, 2)
    with pytest.raises(ValueError, match=r"`edge_attr` must be a weight, .*`del data\.edge_attr` leaves it out.* Got"):
        small(epochs=1).fit(odd)


def test_a_training_that_diverged_is_refused(data):
    classifier = small(epochs=3, scale_features="none")
    with pytest.raises(ValueError, match=r"not finite in epoch 1, .* diverged has no predictions; try a smaller"):
        classifier.fit(Data(**data.to_dict() | {"x": data.x.to_dense() * 3e38}))
    with pytest.raises(NotFittedError):
        classifier.predict(data)


def test_an_absurd_loss_is_warned_of(data):
    with pytest.warns(NoteWarning, match=r"more than 10 times that of guessing .* a smaller learning_rate"):
        small(epochs=6, learning_rate=1e6, train_options={"clip": 0.0}).fit(data)


def test_a_prediction_that_is_not_a_number_is_refused(data, fitted):
    large = Data(**data.to_dict() | {"x": data.x.to_dense() * 3e38})
    raw = clone(fitted).set_params(scale_features="none").fit(data)
    with pytest.raises(ValueError, match=r"Predictions must be numbers\. Got nan at node \d+"):
        raw.predict(large)


def test_two_classifiers_in_one_folder_are_none(data, fitted, tmp_path):
    """What a kill in the midst of saving over another leaves."""
    small(hidden_channels=4, epochs=1).fit(data).save(tmp_path)
    old = (tmp_path / "classifier.json").read_text()
    fitted.save(tmp_path)
    GPNNClassifier.load(tmp_path)
    new = (tmp_path / "classifier.json").read_text()
    (tmp_path / "classifier.json").write_text(old)
    with pytest.raises(ValueError, match=r"must hold a saved classifier\. Got: the model of another\."):
        GPNNClassifier.load(tmp_path)
    (tmp_path / "classifier.json").write_text(new)
    (tmp_path / "nodes.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"must hold a saved classifier\. Got: the nodes of another\."):
        GPNNClassifier.load(tmp_path)


def test_class_weights_by_name_list_and_balance(arrays):
    """A class that counts a thousand times is predicted almost everywhere; what is missing counts once."""
    x, y, adjacency = arrays
    names = np.where(y < 0, "", np.array(["red", "green", "blue"])[y])
    options = {"validation_fraction": 0.0, "epochs": 30}
    by_name = small(class_weight={"red": 1e3}, **options).fit(x, names, adjacency=adjacency)
    assert by_name.class_weight_ == (1.0, 1.0, 1e3)  # blue, green, red
    assert np.mean(by_name.predict(x, adjacency=adjacency) == "red") > 0.9
    listed = small(class_weight=[1, 1, 1e3], **options).fit(x, names, adjacency=adjacency)
    assert np.array_equal(*(each.predict_proba(x, adjacency=adjacency) for each in (by_name, listed)))
    assert small(class_weight="balanced", epochs=1).fit(x, names, adjacency=adjacency).class_weight_ == "balanced"
    with pytest.raises(ValueError, match=r"`class_weight` must name classes among .*blue.*Got 'pink'"):
        small(class_weight={"pink": 2.0}).fit(x, names, adjacency=adjacency)
    with pytest.raises(ValueError, match="`class_weight` must be 'none' in a regression"):
        gpnn.GPNNRegressor(epochs=1, class_weight="balanced").fit(x, np.arange(120.0), adjacency=adjacency)


@pytest.mark.parametrize("recipe", ["spread", "columns"])
def test_nodes_of_no_weight_are_not_learnt_from(arrays, data, recipe):
    """Their labels may be any, and leave no trace; weights of the others count."""
    x, y, adjacency = arrays
    wrong = (np.arange(120) % 3 == 0) & (y >= 0)
    other = np.where(wrong, (y + 1) % 3, y)
    model = {"recipe": recipe, "epochs": 8, "validation_fraction": 0.0}
    weight = np.where(wrong, 0.0, 1.0)
    fits = [
        GPNNClassifier(**model).fit(x, labels, adjacency=adjacency, sample_weight=each)
        for labels, each in ((y, weight), (other, weight), (np.where(wrong, -1, y), None), (other, 1 + 9 * weight))
    ]
    proba = [each.predict_proba(x, adjacency=adjacency) for each in fits]
    assert np.array_equal(proba[0], proba[1])
    assert np.allclose(proba[1], proba[2], atol=1e-5)
    assert not np.allclose(proba[1], proba[3], atol=1e-3)
    score = fits[0].score(x, y, adjacency=adjacency, sample_weight=np.where(wrong, 0.0, 2.0))
    assert score == pytest.approx(fits[0].score(x, np.where(wrong, -1, y), adjacency=adjacency))


def test_another_schedule_does_not_take_the_options_of_the_recipes_own():
    assert pipeline_of(GPNNClassifier(recipe="large", schedule="synchronous"), "large").schedule_options == {}
    assert pipeline_of(GPNNClassifier(recipe="large"), "large").schedule_options == {"intra": 3}
