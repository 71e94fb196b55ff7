"""What a shell offers when TAB is pressed; nothing heavy is imported, since the shell waits."""

from __future__ import annotations

# The names of gpnn.data.DATASETS and gpnn.partition.PARTITIONERS, whose import takes seconds; a test compares them.
DATASETS = (
    "digits", "cora", "citeseer", "pubmed", "nell", "diel", "babi", "planted", "rmat", "grid", "chain", "diel_like",
    "ogbn-arxiv", "ogbn-products", "ogbn-proteins", "ogbn-papers100M",
)  # fmt: skip
PARTITIONERS = (
    "flood_fill", "refined", "clustered", "spectral", "metis", "mtkahypar", "random", "components", "given", "auto",
)  # fmt: skip


def complete_words(incomplete: str) -> list[str]:
    """The datasets that begin so; files are the shell's own business.

    >>> complete_words("co")
    ['cora']
    """
    return [name for name in DATASETS if name.startswith(incomplete)]


def complete_method(incomplete: str) -> list[str]:
    """The partitioners that begin so."""
    return [name for name in PARTITIONERS if name.startswith(incomplete)]
