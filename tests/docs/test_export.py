"""The trackers of docs/export.md, tried with stand-ins."""

import sys
from types import SimpleNamespace

import gpnn
from gpnn import GPNNClassifier
from tests.docs.test_pages import blocks


def trackers() -> dict:
    names: dict = {}
    (code,) = [text for _, text in blocks("export.md", "python") if "class MLflow" in text]
    exec(code, names)
    return names


def test_each_epoch_is_logged_once(monkeypatch):
    logged: list[tuple] = []
    steps: list[int] = []
    run = SimpleNamespace(log=lambda values, step: steps.append(step) or logged.append(("wandb", *values)))
    mlflow = SimpleNamespace(log_metric=lambda name, value, step: logged.append((name, value, step)))
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=None, init=lambda project: run))
    data = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)
    callbacks = [trackers()["MLflow"](), trackers()["WeightsAndBiases"]()]
    fitted = GPNNClassifier(epochs=3, hidden_channels=8).fit(data, callbacks=callbacks)
    losses = [(value, step) for name, value, step in (each for each in logged if each[0] == "loss")]
    assert losses == [(record["loss"], record["epoch"]) for record in fitted.history_]
    assert steps == [1, 2, 3]


def test_a_callback_ends_a_training():
    data = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)
    after_two = SimpleNamespace(start=lambda history: None, epoch=lambda record: record["epoch"] == 2)
    fitted = GPNNClassifier(epochs=9, hidden_channels=8).fit(data, callbacks=[after_two])
    assert (fitted.n_iter_, fitted.metrics_["stopped"]) == (2, "interrupted")
    assert fitted.predict(data).shape == (60,)
