"""A real graph of another kind: the packages of a Debian release, as a folder of tables.

    python -m benchmarks.debian OUT [--packages FILE] [--train 0.1] [--text] [--seed 0]

Some sixty thousand packages are the nodes, and what they declare of others (`Depends`, `Suggests`, `Conflicts`, …) the
edges, directed and of nine types; the words of the one-line descriptions are sparse columns, and the class is the
section of the archive. FILE is a `Packages` index, plain or compressed by lz4; without it the index that apt has is
read (`apt-get update` fetches it). With `--text` the descriptions are a column of `nodes.csv` instead of a matrix.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
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


def main() -> None:
    """Read the arguments and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--train", type=float, default=0.1)
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    packages = read_packages(given.packages or apt_index())
    write_tables(given.out, packages, train=given.train, text=given.text, seed=given.seed)


if __name__ == "__main__":
    main()
