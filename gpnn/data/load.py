"""load_dataset: a graph with features, labels and masks, as PyG `Data`, from any source; and the known datasets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnn.check import check_options, check_seed
from gpnn.data.arrays import PACKAGES, kind_of_frame
from gpnn.data.babi import babi
from gpnn.data.check import check_data
from gpnn.data.database import ENDINGS, database
from gpnn.data.diel import ARCHIVE, diel, diel_files
from gpnn.data.diel_like import diel_like
from gpnn.data.files import Progress, data_folder, dataset_files, fetch_files, file_state
from gpnn.data.generators import chain, digits, grid, people, planted, rmat
from gpnn.data.graph_file import GRAPH_READERS, graph_file, is_networkx, networkx_graph
from gpnn.data.kinds import KIND_READERS, KINDS, missing_kind
from gpnn.data.long_range import diameter, eccentricity, mesh_eccentricity, ring_transfer, shortest_path, tree_match
from gpnn.data.ogb import OGB, raw_file
from gpnn.data.planetoid import PLANETOID, nell
from gpnn.data.splits import split_nodes
from gpnn.data.stored import is_stored, load_stored
from gpnn.data.tables import NODE_READERS, tables
from gpnn.data.tables.dialect import ending
from gpnn.data.tables.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch_geometric.data import Data


# A loader's keyword arguments are the dataset's options; one that reads files has the data folder as its first.
DATASETS: dict[str, Callable[..., Data]] = {
    "digits": digits,
    **PLANETOID,
    "nell": nell,
    "diel": diel,
    "babi": babi,
    "planted": planted,
    "people": people,
    "rmat": rmat,
    "grid": grid,
    "chain": chain,
    "diel_like": diel_like,
    "eccentricity": eccentricity,
    "shortest_path": shortest_path,
    "diameter": diameter,
    "ring_transfer": ring_transfer,
    "tree_match": tree_match,
    "mesh_eccentricity": mesh_eccentricity,
    **KIND_READERS,
    **OGB,
}
UNVERIFIED = ("diel", *OGB)  # datasets whose files have no known sha256 and no copy to fetch


def load_dataset(
    source: Any, /, root: str | Path | None = None, *, vocabulary: Vocabulary | None = None, **options: Any
) -> Data:
    """The graph, features, labels and masks of a dataset, checked.

    Args:
        source: a name of `DATASETS`, the path of a folder of tables (:func:`gpnn.data.tables.tables`), of a folder that
            `gpnn data convert` wrote (:func:`gpnn.data.stored.load_stored`) or of a graph file
            (:func:`gpnn.data.graph_file.graph_file`), of a database file
            (:func:`gpnn.data.database.database`), a networkx graph
            (:func:`gpnn.data.graph_file.networkx_graph`), a PyG `Data` or `HeteroData`
            (:func:`gpnn.data.check.data_from_hetero`), or a PyG dataset object of one graph.
        root: the data folder; else `GPNN_DATA`, else the user's cache. Files that are missing there are fetched.
        vocabulary: of tables read before, so that columns, classes and edge types keep their meaning.
        options: keyword arguments of the dataset's loader, such as `split="random", seed=1`.

    Returns:
        `Data` with `edge_index` `[2, E]`, `x` `[N, F]` dense or sparse CSR, `y` `[N]` (-1 where unknown),
        `train_mask`, `val_mask`, `test_mask` `[N]` and `num_classes`. A converted graph has `graph`, a
        :class:`gpnn.Graph` over mapped rows, instead of `edge_index`.

    Raises:
        ValueError: for an unknown name or option, or data that does not hold together.

    >>> load_dataset("chain", num_nodes=4, num_classes=1).edge_index.tolist()
    [[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]]
    """
    if isinstance(source, str) and source in DATASETS:
        return check_data(_load(DATASETS[source], source, root, options))
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        loader = own_loader(path)
        if loader is None:
            raise ValueError(unknown_source("`source`", str(source)))
        _check_options(loader, str(source), options)
        data = loader(path, vocabulary, **options)
        return data if loader is load_stored else check_data(data)  # files that were checked as they were written
    if is_networkx(source):
        _check_options(networkx_graph, "a networkx graph", options)
        return check_data(networkx_graph(source, vocabulary, **options))
    if options:
        raise ValueError(f"A {type(source).__name__} accepts no options. Got {', '.join(options)}.")
    return check_data(_from_object(source))


def own_loader(path: Path) -> Callable[..., Data] | None:
    """The reader of a user's own graph, a converted one, a folder of tables or a file by its ending; None: none."""
    if path.is_dir():
        return load_stored if is_stored(path) else tables
    if not path.is_file():
        return None
    return database if path.suffix.lower() in ENDINGS else graph_file if path.suffix.lower() in GRAPH_READERS else None


def _load(loader: Callable[..., Data], name: str, root: str | Path | None, options: dict[str, Any]) -> Data:
    _check_options(loader, name, options)
    first = next(iter(inspect.signature(loader).parameters.values()))
    if first.kind is inspect.Parameter.KEYWORD_ONLY:
        return loader(**options)
    return loader(data_folder(root), **options)


def _check_options(loader: Callable[..., Data], name: str, options: Mapping[str, Any]) -> None:
    check_options(name, options, loader_options(loader))
    check_seed("seed", options.get("seed", 0))


def loader_options(loader: Callable[..., Data]) -> dict[str, Any]:
    """The options of a dataset with their defaults."""
    parameters = inspect.signature(loader).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def _from_object(source: Any) -> Data:
    """A `Data` itself, or the one graph of a dataset object, with the classes and the split of the dataset."""
    from torch_geometric.data import Data, HeteroData

    if isinstance(source, Data | HeteroData):
        return source
    frame = hasattr(source, "__arrow_c_stream__") or kind_of_frame(source) in PACKAGES
    if frame or not (hasattr(source, "__getitem__") and hasattr(source, "__len__")):
        raise ValueError(
            "`source` must be a dataset's name, a folder, a networkx graph, a PyG Data or a PyG dataset "
            f"(frames: `gpnn.from_frames(nodes, edges)`). Got {type(source).__name__}."
        )
    if len(source) != 1:
        raise ValueError(f"A dataset object must hold one graph; pass one of its graphs. Got {len(source)} graphs.")
    return source[0] if isinstance(source[0], HeteroData) else _complete(source[0], source)


def _complete(data: Data, dataset: Any) -> Data:
    data = copy(data)
    if data.get("num_classes") is None and data.get("y") is not None:
        data.num_classes = int(dataset.num_classes)
    if hasattr(dataset, "get_idx_split") and data.get("train_mask") is None:  # Open Graph Benchmark
        parts = dataset.get_idx_split()
        nodes = (parts[part] for part in ("train", "valid", "test"))
        for name, mask in split_nodes(data.num_nodes, *nodes)._asdict().items():
            data[name] = mask
    return data


def check_name(name: str) -> None:
    """Raise ValueError for a name that is not in `DATASETS`."""
    if name not in DATASETS:
        near = _nearest(name, DATASETS)
        raise ValueError(f"A dataset must be one of those that `gpnn data list` has. Got {name!r}{near}.")


def unknown_source(what: str, name: str) -> str:
    """The error for a name that is not a dataset, folder or file: where the choices are, and the nearest of them.

    Args:
        what: the subject of the sentence: an argument or a setting.
        name: the unknown name.
    """
    path = Path(name).expanduser()
    if path.is_file() and ending(path) in NODE_READERS:
        return (
            f"{what} must be the folder that holds nodes.* and edges.* (or name the files with --nodes and --edges). "
            f"Got one table, {str(name)!r}."
        )
    beside = [each.name for each in path.parent.iterdir() if own_loader(each)] if path.parent.is_dir() else []
    files = f"a folder of tables, or a file that ends in {', '.join((*GRAPH_READERS, *ENDINGS))}"
    if path.suffix or any(mark in str(name) for mark in "/\\"):
        there = "is of another kind" if path.exists() else f"does not exist{_nearest(path.name, beside)}"
        return f"{what} must be a dataset, {files}. {str(name)!r} {there}."
    near = _nearest(name, DATASETS) or _nearest(path.name, beside)
    return f"{what} must be a dataset (`gpnn data list` has them), {files}. Got {name!r}{near}."


def _nearest(name: str, choices: Iterable[str]) -> str:
    near = get_close_matches(name, list(choices), 1)
    return f" (the nearest is {near[0]})" if near else ""


@dataclass(frozen=True)
class DatasetInfo:
    """A line of `gpnn data list`.

    Attributes:
        name: the dataset's name.
        description: one line.
        options: its options with their defaults.
        present: whether it can be loaded without fetching anything.
    """

    name: str
    description: str
    options: dict[str, Any]
    present: bool


def list_datasets(root: str | Path | None = None) -> list[DatasetInfo]:
    """Every dataset by name, with its description, its options, and whether its files are there."""
    infos = []
    for name, loader in DATASETS.items():
        description = (inspect.getdoc(loader) or "").partition("\n")[0]
        present = "missing" not in _presence(name, data_folder(root))
        infos.append(DatasetInfo(name, description, loader_options(loader), present))
    return infos


def fetch_dataset(name: str, root: str | Path | None = None, progress: Progress | None = None) -> list[Path]:
    """Fetch the files of a dataset that are not in the data folder yet; the paths of all it can fetch.

    Args:
        name: a name of `DATASETS`; one without files to fetch gives an empty list.
        root: the data folder; else `GPNN_DATA`, else the user's cache.
        progress: called with (file, bytes so far, bytes in all) after each chunk; None draws a bar on the terminal.

    Raises:
        ValueError: for an unknown name, bytes with another sha256, or a dataset without a public copy.
        ConnectionError: when a file cannot be reached; what came is kept, to continue from.
    """
    check_name(name)
    folder = data_folder(root)
    if name in UNVERIFIED and "missing" in _presence(name, folder):
        archive, place = (
            (ARCHIVE, folder / "diel") if name == "diel" else ("its archive", (folder / raw_file(name)).parents[1])
        )
        raise ValueError(f"{name} has no copy that can be verified: unpack {archive} so that its files are in {place}.")
    if name in KINDS and "missing" in _presence(name, folder):
        raise ValueError(missing_kind(name, folder))
    return fetch_files(dataset_files(name), folder, progress)


def verify_files(name: str, root: str | Path | None = None) -> dict[str, str]:
    """The state of each of a dataset's files.

    Args:
        name: a name of `DATASETS`; one without files gives an empty mapping.
        root: the data folder; else `GPNN_DATA`, else the user's cache.

    Returns:
        Path under the data folder -> "ok" (the sha256 is right), "corrupt" (it is not), "missing", "optional"
        (missing, but the dataset loads without it) or "unverified" (present, its sha256 is not known).
    """
    check_name(name)
    folder = data_folder(root)
    if name in UNVERIFIED:
        return _unverified(name, folder)
    return {file.path: file_state(file, folder) for file in dataset_files(name)}


def _presence(name: str, folder: Path) -> list[str]:
    if name in UNVERIFIED:
        return list(_unverified(name, folder).values())
    files = [file for file in dataset_files(name) if not file.optional]
    return ["ok" if (folder / file.path).is_file() else "missing" for file in files]


def _unverified(name: str, folder: Path) -> dict[str, str]:
    """The state of files whose sha256 is not known."""
    paths = (
        [f"diel/{path}" for split in range(10) for path in diel_files(split)] if name == "diel" else [raw_file(name)]
    )
    return {path: "unverified" if (folder / path).is_file() else "missing" for path in paths}
