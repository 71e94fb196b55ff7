"""The plain settings that every experiment starts from, so that no table moves when the library's defaults do."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, dict[str, Any]] = {
    "data": {"undirected": False, "scale_features": "none"},
    "partition": {"method": "flood_fill", "k": "auto"},
    "schedule": {"name": "partitioned", "rounds": "auto", "normalization": "phase", "self_loops": False},
    "model": {
        "hidden_channels": "auto",
        "cell": "gru",
        "message": "identity",
        "aggregate": "mean",
        "sharing": "shared",
        "input": "auto",
        "embedding_start": "features",
        "encoder": [],
        "predict": "after",
        "activation": "identity",
        "concat": "auto",
        "head": [],
        "readout": "last",
        "input_dropout": 0.0,
        "state_dropout": 0.0,
        "dropout": 0.0,
        "drop_node": 0.0,
        "norm": "none",
        "cell_options": {},
    },
    "train": {
        "epochs": 200,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "learning_rate_schedule": "constant",
        "warmup": 0,
        "weight_decay": 5e-4,
        "decay_on": "all_but_embeddings",
        "clip": 5.0,
        "class_weight": "none",
        "label_smoothing": 0.0,
        "passes": 1,
        "consistency": 0.0,
        "consistency_warmup": 50,
        "consistency_on": "all",
        "consistency_threshold": 0.0,
        "temperature": 0.5,
        "precision": "float32",
        "metric": "auto",
        "check_every": 1,
        "patience": 50,
    },
}
