"""Coverage-guided fuzzing of the readers with atheris, where it installs.

    python -m tests.trust.guided -max_total_time=300 [CORPUS]

The first byte of an input picks a reader and one of its files; the rest is that file. What is not a sound answer or one
clear sentence is a crash, whose input atheris writes to a file.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gpnn"]):
    from tests.trust.fuzz import unclear
    from tests.trust.readers import READERS, Reader

QUICK = ("pickle", "planetoid", "partition", "config", "results", "metis", "babi", "diel", "tables")  # a blink a case


class Target:
    """Folders of valid files, one a reader, whose files are replaced one at a time."""

    def __init__(self, root: Path) -> None:
        self.places: list[tuple[Reader, Path, Path, bytes]] = []
        for name in QUICK:
            folder = root / name
            folder.mkdir()
            READERS[name].write(folder)
            READERS[name].read(folder)  # what is imported late is imported now
            for path in READERS[name].files(folder):
                self.places.append((READERS[name], folder, path, path.read_bytes()))

    def seeds(self, corpus: Path) -> None:
        """Write the valid files as inputs to start from."""
        corpus.mkdir(exist_ok=True)
        for number, (_, _, _, content) in enumerate(self.places[:256]):
            (corpus / f"valid-{number}").write_bytes(bytes([number]) + content)

    def __call__(self, content: bytes) -> None:
        if not content:
            return
        reader, folder, path, valid = self.places[content[0] % len(self.places)]
        path.write_bytes(content[1:])
        try:
            reader.sound(reader.read(folder))
        except ValueError as error:
            if problem := unclear(error):
                raise RuntimeError(problem) from error
        finally:
            path.write_bytes(valid)


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as root:
        target = Target(Path(root))
        target.seeds(Path(root) / "corpus")
        atheris.Setup([*sys.argv, str(Path(root) / "corpus")], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
