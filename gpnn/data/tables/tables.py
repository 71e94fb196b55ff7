"""A folder of the user's own tables: `nodes.*`, `edges.*` and, if wanted, `features.*` and `labels.*`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpnn.data.tables.assemble import assemble
from gpnn.data.tables.choices import Choices, split_list
from gpnn.data.tables.files import find_files, read_part
from gpnn.data.tables.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch_geometric.data import Data


def tables(
    folder: str | Path,
    vocabulary: Vocabulary | None = None,
    *,
    nodes: str = "",
    edges: str = "",
    features: str = "",
    labels: str = "",
    label: str = "label",
    categorical: str = "",
    ignore: str = "",
    numbers: str = "standard",
    undirected: bool = False,
    seed: int = 0,
) -> Data:
    """The graph that a folder of tables describes.

    `nodes` (.csv, .tsv, .parquet, .npz) has a column `id` (text or whole numbers, distinct), and may have `label`
    (empty where unknown), `split` (train, val, test or empty) and further columns, which are the features: numbers,
    or categories. `edges` (the same, or a METIS .graph) has `source` and `target`, and may have `type` and `weight`.
    `features` (.npy, dense or sparse .npz, .parquet, .csv, .tsv) holds instead of further columns one row of features
    a node, by a column `id` or in the order of the nodes. Where a node may have several labels, `labels` holds instead
    of `label` zeros and ones, one row a node and one column a label; a row of -1 or NaN is unlabelled.
    Without `split`, 60 % of each class train, 20 % validate.

    The result has `node_name` (the ids), `vocabulary` (what columns, classes and edge types mean), `class_names`,
    `edge_type_names` and `feature_names` where the tables name them, and `remarks`: what was decided on the way.

    Args:
        folder: the folder; relative paths start from it.
        vocabulary: of the tables that a model was trained on: columns, classes and edge types keep its meaning.
        nodes, edges, features, labels: files to read; where `edges` is given, only files given are read.
        label: the column of the nodes that holds the class.
        categorical: columns, separated by commas, that are categories though they look like numbers.
        ignore: columns, separated by commas, that are no features.
        numbers: "standard" gives columns of numbers mean 0 and deviation 1; "raw" leaves them as they are.
        undirected: add the reverse of every edge that lacks it.
        seed: the draw of a split that the tables do not give.

    Raises:
        ValueError: in one sentence that names the file, the line, the column and the value.
    """
    choices = Choices(label, split_list(categorical), split_list(ignore), numbers, undirected, seed, vocabulary)
    files = find_files(Path(folder), {"nodes": nodes, "edges": edges, "features": features, "labels": labels})
    return assemble(
        None if files.nodes is None else read_part(files.nodes, "nodes"),
        read_part(files.edges, "edges"),
        choices,
        features=None if files.features is None else read_part(files.features, "features"),
        labels=None if files.labels is None else read_part(files.labels, "labels"),
    )
