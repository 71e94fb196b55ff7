#!/usr/bin/env bash
# The front door on a device: tables of a planted graph, converted, trained by `gpnn train`. gpu_door.sh FOLDER [DEVICE] [NODES]
set -euo pipefail
folder=$1 device=${2:-cuda} nodes=${3:-200000}
mkdir -p "$folder"
${PYTHON:-python3} - "$folder" "$nodes" <<'PY'
import sys

import numpy as np

folder, nodes = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
label = rng.integers(0, 8, nodes)
order = np.argsort(label, kind="stable")
start = np.concatenate([[0], np.bincount(label).cumsum()])
src = rng.integers(0, nodes, 5 * nodes)
near = order[start[label[src]] + (rng.random(len(src)) * np.diff(start)[label[src]]).astype(np.int64)]
dst = np.where(rng.random(len(src)) < 0.2, rng.integers(0, nodes, len(src)), near)
np.save(f"{folder}/edges.npy", np.stack([src, dst]))
centre = rng.normal(size=(8, 32))
np.save(f"{folder}/x.npy", (centre[label] + 4 * rng.normal(size=(nodes, 32))).astype(np.float32))
np.save(f"{folder}/y.npy", label)
PY
${PYTHON:-python3} -m gpnn data convert "$folder/edges.npy" "$folder/graph" --features "$folder/x.npy" --labels "$folder/y.npy" --undirected
for engine in fused streamed streamed_features streamed_host; do
  ${PYTHON:-python3} -m gpnn train "$folder/graph" device="$device" engine=$engine train.precision=bf16_states partition.method=clustered \
    partition.k=16 partition.device="$device" schedule.name=held_cut schedule.rounds=2 schedule.intra=2 model.cell=gru \
    model.hidden_channels=64 train.epochs=6 --out "$folder/run-$engine" --no-report
done
