"""A real graph of another kind: the packages of a Debian release, as a folder of tables.

    python -m benchmarks.debian OUT [--packages FILE] [--train 0.1] [--text] [--seed 0]
    python -m benchmarks.debian OUT --peers [gcn,residual_sage]

Some sixty thousand packages are the nodes, and what they declare of others (`Depends`, `Suggests`, `Conflicts`, …) the
edges, directed and of nine types; the words of the one-line descriptions are sparse columns, and the class is the
section of the archive. FILE is a `Packages` index, plain or compressed by lz4; without it the index that apt has is
read (`apt-get update` fetches it). With `--text` the descriptions are a column of `nodes.csv` instead of a matrix.
`--peers` reads the folder again and prints what scikit-learn's logistic regression has of it, and perhaps the networks
of the experiment `kinds`, the best of their trials on validation.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from scipy import sparse

TYPES = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Conflicts", "Breaks", "Replaces", "Enhances", "Provides")
LEAST_OF_CLASS, LEAST_OF_WORD = 198, 5  # packages of a section that is a class, and with a word that is a column
VALIDATED = 0.1

Fields = dict[str, str]


def read_packages(file: Path) -> dict[str, Fields]:
    """The fields of each package of an index, those of small sections left out."""
    text = _decompress(file) if file.suffix == ".lz4" else file.read_text()
    packages = {fields["Package"]: fields for fields in map(_fields, text.split("\n\n")) if "Package" in fields}
    sections = Counter(fields["Section"] for fields in packages.values())
    return {name: packages[name] for name in sorted(packages) if sections[packages[name]["Section"]] >= LEAST_OF_CLASS}


def apt_index() -> Path:
    """The largest index of packages that apt has fetched."""
    found = sorted(Path("/var/lib/apt/lists").glob("*_Packages*"), key=lambda file: file.stat().st_size)
    if not found:
        raise SystemExit("apt has no index of packages: `apt-get update` fetches it, or name one with --packages.")
    return found[-1]


def _decompress(file: Path) -> str:
    return subprocess.run(["lz4", "-dc", str(file)], capture_output=True, check=True).stdout.decode()


def _fields(block: str) -> Fields:
    pairs = (line.partition(": ") for line in block.splitlines() if not line.startswith(" "))
    return {name: value for name, _, value in pairs}


def draw_edges(packages: dict[str, Fields]) -> Iterator[tuple[str, str, str]]:
    """Source, target and type of every relation between two of the packages, each once."""
    for name, fields in packages.items():
        for kind in TYPES:
            targets = (part.split()[0].split(":")[0] for part in re.split("[,|]", fields.get(kind, "")) if part.strip())
            for target in sorted({each for each in targets if each in packages and each != name}):
                yield name, target, kind.lower()


def count_words(packages: dict[str, Fields]) -> sparse.csr_matrix:
    """Which words each description has, of those that are not rare."""
    words = [set(re.findall("[a-z]+", fields["Description"].lower())) for fields in packages.values()]
    frequency = Counter(word for each in words for word in each)
    column = {word: number for number, word in enumerate(sorted(w for w in frequency if frequency[w] >= LEAST_OF_WORD))}
    found = [sorted(column[word] for word in each & column.keys()) for each in words]
    ptr, indices = np.cumsum([0, *map(len, found)]), np.concatenate([np.array(each, int) for each in found])
    return sparse.csr_matrix((np.ones(len(indices), np.float32), indices, ptr), shape=(len(found), len(column)))


def write_tables(out: Path, packages: dict[str, Fields], *, train: float, text: bool, seed: int) -> None:
    """Write `nodes.csv`, `edges.csv` and, without `text`, `features.npz`; `out` must not exist."""
    out.mkdir(parents=True)
    place = np.random.default_rng(seed).permutation(len(packages)) / len(packages)
    splits = np.select([place < train, place < train + VALIDATED], ["train", "val"], "test").tolist()
    with (out / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "split", *["description"] * text])
        for (name, fields), split in zip(packages.items(), splits):
            writer.writerow([name, fields["Section"], split, *[fields["Description"]] * text])
    with (out / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("source", "target", "type"), *draw_edges(packages)])
    if not text:
        sparse.save_npz(out / "features.npz", count_words(packages))


def run_logistic(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Name, validation and test accuracy of a logistic regression on a node's words, and on these and the neighbours'.

    C is chosen on validation. Edges go both ways and have no types.
    """
    from sklearn.linear_model import LogisticRegression

    import gpnn
    from gpnn.nn.column_model import to_scipy
    from gpnn.nn.layers import feature_operator

    data = gpnn.load_dataset(str(folder))
    words, (src, dst) = to_scipy(feature_operator(data.x)), data.edge_index.numpy()
    both = (np.concatenate([src, dst]), np.concatenate([dst, src]))
    near = sparse.csr_array((np.ones(len(both[0])), both), shape=(data.num_nodes, data.num_nodes))
    near = sparse.diags_array(1 / np.maximum(1, near.sum(1))) @ near
    train, val, test = (data[f"{split}_mask"].numpy() for split in ("train", "val", "test"))
    for name, columns in {
        "words": words,
        "words and neighbours'": sparse.hstack([words, near @ words]).tocsr(),
    }.items():
        models = [LogisticRegression(C=c, max_iter=300).fit(columns[train], data.y.numpy()[train]) for c in (0.3, 1, 3)]
        best = max(models, key=lambda model: model.score(columns[val], data.y.numpy()[val]))
        yield name, *(best.score(columns[split], data.y.numpy()[split]) for split in (val, test))


def run_networks(folder: Path, names: list[str]) -> Iterator[tuple[str, float, float]]:
    """The same of networks of the experiment `kinds`."""
    import gpnn
    from experiments.peers.peer import run_peer

    for name in names:
        found = run_peer(name, gpnn.load_dataset(str(folder)), 0, epochs=150, patience=30)
        yield name, found["val_accuracy"], found["test_accuracy"]


def main() -> None:
    """Read the arguments and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--train", type=float, default=0.1)
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", nargs="?", const="")
    given = parser.parse_args()
    if given.peers is not None:
        networks = [name for name in given.peers.split(",") if name]
        for name, val, test in chain(run_logistic(given.out), run_networks(given.out, networks)):
            print(f"{name}: {100 * val:.1f} % of the validation and {100 * test:.1f} % of the test nodes", flush=True)
        return
    packages = read_packages(given.packages or apt_index())
    write_tables(given.out, packages, train=given.train, text=given.text, seed=given.seed)


if __name__ == "__main__":
    main()
