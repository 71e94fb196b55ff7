import json

import numpy as np
import pyarrow.parquet
import pytest
import torch


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # torch's own, of its exporter
def test_a_run_as_a_program(gpnn, tiny):
    assert gpnn("train", *tiny, "--out", "run", "--quiet", "--no-report").exit_code == 0
    result = gpnn("export", "run", "model.pt2", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["x"] == [120, 20]
    import gpnn as library

    x = library.load_dataset("planted", num_nodes=120, num_classes=3, num_features=20, label_rate=0.2).x.to_dense()
    table = pyarrow.parquet.read_table("run/predictions.parquet")
    wanted = np.stack([table[f"p_{name}"].to_numpy() for name in range(3)], 1)
    assert np.allclose(torch.export.load("model.pt2").module()(x).numpy(), wanted, atol=1e-6)


def test_mistakes_are_one_sentence(gpnn, tiny):
    assert gpnn("export", "nowhere", "model.pt2").exit_code == 2
    assert gpnn("train", *tiny, "--out", "run", "--quiet", "--no-report", "train.epochs=1").exit_code == 0
    result = gpnn("export", "run", "model.onnx")
    assert result.exit_code == 2
    assert "must be a file that ends in .pt2. Got 'model.onnx'." in result.stderr
