"""A run goes on with the data and the subgraphs that it began with."""

from __future__ import annotations

from collections.abc import Mapping

from gpnn.config import Config
from gpnn.storage.read import read_json
from gpnn.train.run_folder import RunFolder


def check_unchanged(run: RunFolder, digests: Mapping[str, str], config: Config) -> None:
    """Raise ValueError where a digest is not the one that the run began with; runs of older versions tell none."""
    began = read_json(run.environment) if run.environment.is_file() else {}
    for name, digest in digests.items():
        if began.get(name, digest) != digest:
            file = config.partition.file if name == "partition_sha256" else None
            what = file or config.data.name
            raise ValueError(f"A run must go on with what it began with. {what!r} has changed since; train anew.")
