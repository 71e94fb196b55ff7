"""Exported models: torch's own operations alone, equal to the model, loaded where there is no gpnn."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import gpnn
from gpnn import GPNNClassifier, GPNNRegressor
from gpnn.train.notes import NoteWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{NoteWarning.__module__}.{NoteWarning.__qualname__}")

KINDS = {
    "linear": {"cell": "linear"},
    "gated": {"cell": "gru", "k": 4},
    "before": {"cell": "gru", "model_options": {"cell_options": {"reset": "before"}}},
    "max": {"cell": "mlp", "model_options": {"aggregate": "max"}},
    "long": {"cell": "lstm", "schedule": "synchronous"},
    "residual": {"cell": "gcnii", "normalization": "symmetric"},
    "held": {"schedule": "held_cut", "rounds": 2, "schedule_options": {"intra": 2}, "normalization": "split"},
    "units": {"cell": "gru", "model_options": {"standardize": True}},
    "columns": {"recipe": "columns", "epochs": 2},
    "trees": {"recipe": "columns", "epochs": 8, "model_options": {"method": "trees"}},
}


@pytest.fixture(scope="module")
def data() -> Data:
    found = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)
    found.x = found.x.to_dense() + 0.01  # so that rows are scaled
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_is_what_it_predicts(data, kind):
    """On its features and on others, which a constant that crept into the trace would not follow."""
    classifier = GPNNClassifier(**{"hidden_channels": 8, "epochs": 2, **KINDS[kind]}).fit(data)
    module = classifier.export(data)
    assert isinstance(module, nn.Module)
    other = data.clone()
    other.x = torch.rand(60, 8, generator=torch.Generator().manual_seed(0))
    for graph in (data, other):
        assert np.allclose(module(graph.x).numpy(), classifier.predict_proba(graph), atol=1e-6)
    used = {node.target for node in module.graph.nodes if node.op == "call_function"}
    assert all(target.namespace == "aten" for target in used if hasattr(target, "namespace"))


def test_numbers_and_embeddings(data):
    numbers = Data(x=data.x, edge_index=data.edge_index, y=data.x.sum(1))
    regressor = GPNNRegressor(hidden_channels=8, epochs=2).fit(numbers)
    wanted = np.stack(regressor.predict(numbers, interval=0.9), 1)
    assert np.allclose(regressor.export(numbers)(data.x).numpy(), wanted, rtol=1e-5)
    y, adjacency = np.where(data.train_mask, data.y, -1), gpnn.Graph.from_data(data)
    alone = GPNNClassifier(hidden_channels=8, epochs=2).fit(None, y, adjacency=adjacency)
    assert np.allclose(
        alone.export(None, adjacency=adjacency)().numpy(), alone.predict_proba(None, adjacency=adjacency), atol=1e-6
    )


@pytest.mark.thorough
def test_a_blend_is_one_module(data):
    """Of models that scale rows and that do not."""
    first = GPNNClassifier(hidden_channels=8, epochs=2).fit(data)
    second = GPNNClassifier(hidden_channels=8, epochs=2, cell="gru", scale_features="none").fit(data)
    alone = first.predict_proba(data)
    first.weight_, first.members_ = 0.6, {"gated": (0.4, second)}
    blended = first.predict_proba(data)
    assert not np.allclose(blended, alone, atol=1e-4)
    assert np.allclose(first.export(data)(data.x).numpy(), blended, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # torch's own, of its exporter
def test_a_program_runs_without_gpnn(data, tmp_path):
    classifier = GPNNClassifier(hidden_channels=8, epochs=2, k=3).fit(data)
    classifier.export(data, tmp_path / "model.pt2")
    torch.save(data.x, tmp_path / "x.pt")
    code = """if True:
        import json, sys, torch
        sys.modules["gpnn"] = None  # an import of it fails
        facts = {"gpnn.json": ""}
        module = torch.export.load("model.pt2", extra_files=facts).module()
        print(json.dumps([module(torch.load("x.pt")).tolist(), json.loads(facts["gpnn.json"])]))
    """
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    predicted, facts = json.loads(shown.splitlines()[-1])
    assert np.allclose(predicted, classifier.predict_proba(data), atol=1e-6)
    assert facts["classes"] == [0, 1, 2]


def test_mistakes(data, tmp_path, monkeypatch):
    classifier = GPNNClassifier(hidden_channels=8, epochs=1).fit(data)
    with pytest.raises(ValueError, match=r"must be a file that ends in \.pt2. Got 'model.pt'"):
        classifier.export(data, tmp_path / "model.pt")
    monkeypatch.setattr("gpnn.export.MOST_BYTES", 1e3)
    with pytest.raises(ValueError, match=r"at most 1e-06 GB. Got 60 rows of 8 columns"):
        classifier.export(data, tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())
