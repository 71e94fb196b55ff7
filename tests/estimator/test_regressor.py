"""GPNNRegressor: numbers from `Data` and arrays, in the user's unit, with intervals; saved and loaded."""

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_regressor
from sklearn.metrics import r2_score
from torch_geometric.data import Data

import gpnn
from gpnn import GPNNClassifier, GPNNRegressor
from tests.oracle.number_graph import number_graph


def small(**options) -> GPNNRegressor:
    return GPNNRegressor(**{"hidden_channels": 8, "epochs": 40, "k": 3, "rounds": 2, "drop_node": 0.0, **options})


@pytest.fixture(scope="module")
def data() -> Data:
    return number_graph(unit=50.0)


@pytest.fixture(scope="module")
def fitted(data) -> GPNNRegressor:
    return small().fit(data)


def test_it_learns_from_data(data, fitted):
    predicted = fitted.predict(data)
    assert is_regressor(fitted)
    assert predicted.shape == (300,)
    test = data.test_mask.numpy()
    assert fitted.score(data) == pytest.approx(r2_score(data.y.numpy()[test], predicted[test]))
    assert fitted.score(data) == pytest.approx(fitted.metrics_["test_r2"])
    assert fitted.score(data) > 0.6
    assert clone(fitted).get_params() == fitted.get_params()


def test_predictions_have_intervals(data, fitted):
    number, low, high = fitted.predict(data, interval=0.8)
    assert np.array_equal(number, fitted.predict(data))
    assert (low < number).all()
    assert (number < high).all()
    wider = fitted.predict(data, interval=0.99)
    assert (wider[2] - wider[1] >= high - low).all()


def test_arrays_with_unknown_numbers(data):
    x, adjacency = data.x.numpy(), gpnn.Graph.from_data(data).to_scipy()
    y = np.where(data.train_mask | data.val_mask, data.y, np.nan)
    one = small().fit(x, y, adjacency=adjacency)
    other = small().fit(x, [None if np.isnan(number) else number for number in y], adjacency=adjacency)
    assert np.array_equal(one.predict(x, adjacency=adjacency), other.predict(x, adjacency=adjacency))
    assert one.score(x, data.y.numpy(), adjacency=adjacency) > 0.5
    assert "val_r2" in one.metrics_  # a share of the training nodes validates
    with pytest.raises(ValueError, match=r"`y` of a regression must hold numbers, NaN where unknown\. Got 'red'"):
        small().fit(x, ["red"] * 300, adjacency=adjacency)


def test_whole_numbers_are_numbers_here_and_classes_there(data):
    counts = Data(**data.to_dict() | {"y": data.y.round().long()})
    assert small(epochs=2).fit(counts).predict(counts).dtype == np.float64
    few = Data(**data.to_dict() | {"y": (data.y > 0).long()})
    assert GPNNClassifier(epochs=2, k=3).fit(few).classes_.tolist() == [0, 1]


def test_save_and_load(data, fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    loaded = GPNNRegressor.load(tmp_path / "saved")
    bare = Data(x=data.x, edge_index=data.edge_index)
    for level in (None, 0.9):
        assert np.array_equal(loaded.predict(bare, interval=level), fitted.predict(data, interval=level))
    with pytest.raises(ValueError, match="must hold a saved classifier"):
        GPNNClassifier.load(tmp_path / "saved")
    GPNNClassifier(epochs=1, k=3).fit(Data(**data.to_dict() | {"y": data.y.sign().long() + 1})).save(tmp_path / "saved")
    with pytest.raises(ValueError, match=r"must hold a saved regressor\. Got: the model of another"):
        GPNNRegressor.load(tmp_path / "saved")
    (tmp_path / "saved" / "regressor.json").write_text("{}")
    with pytest.raises(ValueError, match="must hold a saved regressor"):
        GPNNRegressor.load(tmp_path / "saved")


@pytest.mark.thorough
def test_a_skewed_number_is_learnt_by_its_logarithm(tmp_path):
    data = number_graph(skewed=True)
    fitted = small(epochs=30, train_options={"target_scale": "auto"}).fit(data)
    assert fitted.task_.scale == "log"
    assert (fitted.predict(data) > 0).all()
    assert small(epochs=2, train_options={"target_scale": "linear"}).fit(data).task_.scale == "linear"


def test_numbers_that_do_not_train_are_not_learnt_from(data):
    """Shuffled test numbers change no weight; validation ones only choose among the same steps."""
    nodes = data.test_mask.nonzero().flatten()
    shuffled = data.clone()
    shuffled.y[nodes] = data.y[nodes.flip(0)]
    one, other = (small(epochs=5).fit(each) for each in (data, shuffled))
    weights = one.model_.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in other.model_.state_dict().items())
