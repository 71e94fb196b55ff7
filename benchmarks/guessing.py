"""What guessing finds of the gold pairs: recall of probabilities drawn at random, on the sets of the DIEL tables.

    python benchmarks/guessing.py --out benchmarks/results/guessing.md

The floor of `experiments/results/table3.md` and `paper_diel.md`: a hundred draws a set, on the sets that those
experiments train on; the mean of each set, and mean and deviation over the sets.
"""

import argparse
import sys
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

DRAWS = 100


def recall_of_guesses(settings: dict) -> float:
    """The mean recall over all draws, in percent."""
    import torch

    from experiments.harness.kinds.baseline import load_data
    from gpnn.data import recall_at_k

    data, random = load_data(settings), torch.Generator().manual_seed(0)
    return 100 * mean(
        recall_at_k(data, torch.rand(data.num_nodes, data.num_classes, generator=random)) for _ in range(DRAWS)
    )


def main() -> None:
    from experiments.harness import read_experiment
    from experiments.harness.settings import fill_in

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = ["| table | column | recall by set, % | over the sets |", "|---|---|---|---|"]
    folder = ROOT / "experiments/paper"
    for name in ("table3", "paper_diel"):
        cells = list(read_experiment(folder / f"{name}.toml").cells())
        for column in dict.fromkeys(cell.column for cell in cells):
            sets = {cell.seed: fill_in(cell.settings, cell.seed, folder) for cell in cells if cell.column == column}
            found = [recall_of_guesses(settings) for settings in sets.values()]
            each = ", ".join(f"{value:.1f}" for value in found)
            lines.append(f"| {name} | {column} | {each} | {mean(found):.1f} ± {stdev(found):.1f} |")
            print(lines[-1], flush=True)
    if options.out:
        options.out.write_text(f"# {__doc__}\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
