"""What a race reaches on the validation nodes of a development split, with all recipes or without some.

    python -m benchmarks.race_validation amazon_cs --split 100 [--without gcn]

The split is one of 60/20/20 that no table has; its test nodes are not read. `results/race_validation.md` is the table
of what was printed.
"""

from __future__ import annotations

import argparse
import warnings

from experiments.harness.kinds.baseline import load_data
from gpnn import GPNNClassifier
from gpnn.recipes import RECIPES
from gpnn.train.notes import NoteWarning

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--split", type=int, default=100)
    parser.add_argument("--without", nargs="*", default=[], choices=RECIPES)
    options = parser.parse_args()
    for name in options.without:
        del RECIPES[name]
    data = load_data({"data": {"name": options.graph, "split": "fractions", "seed": options.split}})
    data.test_mask[:] = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoteWarning)
        fitted = GPNNClassifier(seed=options.split).fit(data)
    reached = {name: fitted.race_.last(name)["value"] for name in fitted.race_.costs}
    print(f"{options.graph}, split {options.split}: validation accuracy {100 * fitted.metrics_['val_accuracy']:.1f} %,")
    print(f"loss {fitted.metrics_['val_log_loss']:.4f}; " + ", ".join(f"{k} {100 * v:.1f}" for k, v in reached.items()))
