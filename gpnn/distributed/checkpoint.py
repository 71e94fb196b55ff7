"""Checkpoints: one file for a whole graph; for shards a folder, each process its own part, read by any number of them.

A checkpoint of shards is a folder `epoch-N` beside the name that one process would write: safetensors files of
torch.distributed.checkpoint, a share of the parameters each and of the embeddings each process's own rows, and
`progress.json`, which holds a digest of each file and of itself: what is damaged is refused. It is written under
another name and renamed when all of it is there. Nothing is unpickled.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gpnn.data.files import sha256_of
from gpnn.distributed.plan import ShardedPlan, own_names
from gpnn.distributed.process_group import ProcessGroup
from gpnn.engine import Plan
from gpnn.run.checkpoint import (
    Progress,
    check_optimizer,
    check_progress,
    load_checkpoint,
    load_newest,
    save_checkpoint,
)
from gpnn.storage.atomic import sync_folder, write_text
from gpnn.storage.read import read_json, seal, shorten, unseal
from gpnn.storage.tensors import SHA256, digest_file

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
    from torch.distributed.checkpoint.planner import WriteItem


FORMAT = 4
DIGESTS = {2: sha256_of, 3: lambda path: digest_file(path, SHA256), 4: digest_file}  # of a file, by format
DIGEST = 32  # bytes of a sha256
SCALAR = "scalar"  # ends the name of a number, which is stored as a vector of one


def save(path: Path, model: nn.Module, optimizer: Optimizer, progress: Progress, plan: Plan) -> None:
    """Write the weights, the best weights, the optimiser and the progress; collective.

    Args:
        path: the file to write for a whole graph; that of shards is a folder of this epoch beside it.
        model: shared parameters equal everywhere, and the process's own rows of embeddings.
        optimizer: over the model's parameters.
        progress: how far the training is.
        plan: of the whole graph, or of this process's shard.
    """
    if isinstance(plan, ShardedPlan):
        _save_shard(path, model, optimizer, progress, plan)
    else:
        save_checkpoint(path, model, optimizer, progress)


def load(path: Path, model: nn.Module, optimizer: Optimizer, plan: Plan) -> Progress | None:
    """Bring the model and its optimiser to the last checkpoint, whoever wrote it; None where there is none; collective.

    Raises:
        ValueError: when it is another model's, or of another order of the nodes.
    """
    if isinstance(plan, ShardedPlan):
        return _load_shard(path, model, optimizer, plan)
    return load_checkpoint(path, model, optimizer) if path.exists() else None


def _save_shard(path: Path, model: nn.Module, optimizer: Optimizer, progress: Progress, plan: ShardedPlan) -> None:
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint import HuggingFaceStorageWriter

    final = path.parent / f"epoch-{progress.epoch:06d}"
    key = order_key(plan)
    state = _pack(model, optimizer, progress.best_weights, plan)
    with plan.group.staging_folder(final) as place:
        partial = place / final.name
        partial.mkdir(exist_ok=True)
        writer = HuggingFaceStorageWriter(str(partial), save_distributed=True)
        try:
            with _alone_without_warning():
                checkpoint.save(state, storage_writer=writer, process_group=plan.group.handle)
        except checkpoint.CheckpointException as error:  # which is no Exception
            for failure, _ in error.failures.values():
                if isinstance(failure, OSError):
                    raise OSError(failure.errno, failure.strerror, str(final)) from None
            raise RuntimeError(str(error)) from error
        files = _digests(partial, plan.group)
        if plan.group.rank == 0:
            # "line" is the key of the node order
            header = {"checkpoint": FORMAT, "line": key, "num_processes": plan.group.size, "files": files}
            write_text(partial / "progress.json", json.dumps(seal(header | progress.numbers())))
            _publish(partial, final)
            for older in find_checkpoints(path)[:-2]:  # one stays to fall back on
                shutil.rmtree(older, ignore_errors=True)
        plan.group.barrier()


def _load_shard(path: Path, model: nn.Module, optimizer: Optimizer, plan: ShardedPlan) -> Progress | None:
    found = find_checkpoints(path)
    if not found:
        return load_checkpoint(path, model, optimizer, _own_rows(model, optimizer, plan)) if path.exists() else None
    folder, header = load_newest(found[::-1], lambda each: _read_whole(each, plan.group))
    if header.pop("line") != order_key(plan) and list(own_names(model)):
        raise ValueError(f"The checkpoint {folder} must be of the same partition. Got another order of the nodes.")
    tensors = _read(folder, model, plan)
    for name, parameter in model.state_dict().items():
        parameter.copy_(tensors[f"model/{name}"])
    best = {name.removeprefix("best/"): tensor for name, tensor in tensors.items() if name.startswith("best/")}
    numbers = {name: number for number, name in enumerate(_names(model, optimizer))}
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer/"):
            _, parameter_name, key = name.split("/", 2)
            if parameter_name not in numbers:
                raise ValueError(f"The checkpoint {folder} must fit the optimiser. Got {shorten(name)}.")
            state.setdefault(numbers[parameter_name], {})[key] = tensor
    check_optimizer(state, optimizer, folder)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return Progress(**header, best_weights=best)


@contextmanager
def _alone_without_warning() -> Iterator[None]:
    """torch warns where it saves or loads in one process that belongs to no group; this is on purpose."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized", UserWarning)
        yield


def find_checkpoints(path: Path) -> list[Path]:
    """The complete checkpoints beside `path`, oldest first."""
    return sorted(each for each in path.parent.glob("epoch-*") if (each / "progress.json").is_file())


def _publish(partial: Path, final: Path) -> None:
    """Give a complete checkpoint its name, unless this epoch has one: a kill after its removal would leave none."""
    if not (final / "progress.json").is_file():
        shutil.rmtree(final, ignore_errors=True)
        partial.replace(final)
    sync_folder(final.parent)


def order_key(plan: ShardedPlan) -> int:
    """A digest of the order of the nodes, the same for any number of processes; collective."""
    shard = plan.shard
    first = int(shard.bounds[plan.group.rank])
    places = torch.arange(first, first + shard.num_own) * 2 + 1
    return int(plan.group.all_reduce((places * ((shard.nodes + 1) * 0x9E3779B1 ^ places)).sum()))


def _pack(model: nn.Module, optimizer: Optimizer, best: dict[str, Tensor], plan: ShardedPlan) -> dict[str, Any]:
    """Everything to be saved, by name; own rows as parts of a whole."""
    own = set(own_names(model))
    state = {f"model/{name}": _part(tensor, name in own, plan) for name, tensor in model.state_dict().items()}
    state |= {f"best/{name}": _part(tensor, name in own, plan) for name, tensor in best.items()}
    names = _names(model, optimizer)
    for number, entries in optimizer.state_dict()["state"].items():
        name = names[number]
        for key, value in entries.items():
            if value is None:
                continue
            stored = torch.as_tensor(value).detach()
            if stored.dim() == 0:
                state[f"optimizer/{name}/{key}/{SCALAR}"] = stored.reshape(1)
            else:
                state[f"optimizer/{name}/{key}"] = _part(stored, name in own, plan)
    return state


def _read(folder: Path, model: nn.Module, plan: ShardedPlan) -> dict[str, Tensor]:
    """What the checkpoint holds of the shared tensors, and of the others this process's rows."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint import HuggingFaceStorageReader

    own, shapes = set(own_names(model)), {name: tensor.shape for name, tensor in model.state_dict().items()}
    saved = _describe(folder)
    if {name.removeprefix("model/") for name in saved if name.startswith("model/")} != set(shapes):
        raise ValueError(f"The checkpoint {folder} must fit the model. Got other parameters.")
    state: dict[str, Any] = {}
    for name, entry in saved.items():
        whole, (_, owner, *_) = list(entry.size), name.split("/", 2)
        scalar = name.endswith(SCALAR)
        mine = owner in own and not scalar
        rows = [len(plan.shard.nodes), *whole[1:]] if mine else whole
        if owner not in shapes or rows != ([1] if scalar else list(shapes[owner])):
            raise ValueError(f"The checkpoint {folder} must fit the model. Got {name} of shape {whole}.")
        buffer = torch.empty(rows, dtype=entry.properties.dtype, device=plan.device)
        state[name] = _part(buffer, mine, plan)
    try:
        reader = HuggingFaceStorageReader(str(folder))
        with _alone_without_warning():
            checkpoint.load(state, storage_reader=reader, process_group=plan.group.handle)
    except checkpoint.CheckpointException as error:  # which is no Exception
        raise RuntimeError(str(error)) from error
    plain = {name: each.local if isinstance(each, CheckpointRows) else each for name, each in state.items()}
    return {
        name.removesuffix(f"/{SCALAR}"): each.reshape(()) if name.endswith(f"/{SCALAR}") else each
        for name, each in plain.items()
    }


def _part(tensor: Tensor, own: bool, plan: ShardedPlan) -> Tensor:
    if not own:
        return tensor.detach()
    return CheckpointRows.of(tensor, int(plan.shard.bounds[plan.group.rank]), plan.shard.totals.num_nodes)


def _own_rows(model: nn.Module, optimizer: Optimizer, plan: ShardedPlan) -> Callable[[str, Tensor], Tensor]:
    """Selects this process's rows of what one process wrote of the whole graph."""
    own, names = set(own_names(model)), _names(model, optimizer)

    def select(key: str, tensor: Tensor) -> Tensor:
        kind, _, name = key.partition("/")
        if kind == "optimizer":
            number = name.partition("/")[0]
            name = names[int(number)] if number.isdigit() and int(number) < len(names) else name
        whole = name in own and tensor.dim() > 0 and len(tensor) == plan.shard.totals.num_nodes
        return tensor[plan.shard.nodes] if whole else tensor

    return select


def _names(model: nn.Module, optimizer: Optimizer) -> list[str]:
    """The name of each parameter, as the optimiser numbers them."""
    known = {id(parameter): name for name, parameter in model.named_parameters()}
    return [known[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]


def _describe(folder: Path) -> dict[str, Any]:
    """Size and type of each tensor of a checkpoint, by name."""
    from safetensors import SafetensorError
    from torch.distributed.checkpoint import HuggingFaceStorageReader

    try:
        saved = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    except (SafetensorError, LookupError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{folder} must be a checkpoint. Got a damaged file ({shorten(error, 200)}).") from None
    for name in saved:
        if name.count("/") < (2 if name.startswith("optimizer/") else 1):
            raise ValueError(f"{folder} must be a checkpoint. Got a tensor {shorten(name)}.")
    return dict(saved)


def _read_whole(folder: Path, group: ProcessGroup) -> tuple[Path, dict[str, Any]]:
    """The folder and the progress of a checkpoint whose files are as they were written; collective."""
    header = _read_header(folder)
    _check_files(folder, header.pop("files"), DIGESTS[header.pop("checkpoint")], group)
    return folder, header


def _read_header(folder: Path) -> dict[str, Any]:
    """The progress of a checkpoint, its `line` and its `files`."""
    header = read_json(folder / "progress.json")
    found = header.get("checkpoint")
    if type(found) is not int or found not in DIGESTS:
        raise ValueError(f"{folder} must be a checkpoint of format {FORMAT}. Got {shorten(found)}.")
    header = unseal(header, folder / "progress.json")
    kept = {name: value for name, value in header.items() if name != "num_processes"}
    check_progress({name: value for name, value in kept.items() if name not in ("checkpoint", "line", "files")}, folder)
    if not isinstance(kept.get("files"), dict) or not isinstance(kept.get("line"), int):
        raise ValueError(f"{folder} must name its files and its order of the nodes. Got neither or one.")
    return kept


def _digests(folder: Path, group: ProcessGroup) -> dict[str, str]:
    """In every process the digests of all files, by name; collective."""
    mine = []
    for file in sorted(folder.glob(f"shard-{group.rank + 1:05d}-*.safetensors")):  # others' may not be seen here yet
        mine.append([*bytes.fromhex(digest_file(file)), *file.name.encode().ljust(64, b"\0")])
    rows = torch.tensor(mine, dtype=torch.uint8).reshape(len(mine), DIGEST + 64)
    every = [bytes(row) for rows in group.all_gather(rows) for row in rows.tolist()]
    return {row[DIGEST:].rstrip(b"\0").decode(): row[:DIGEST].hex() for row in every}


def _check_files(folder: Path, digests: dict[str, str], digest: Callable[[Path], str], group: ProcessGroup) -> None:
    """Raise ValueError in every process where a file is not as it was written; each reads its share; collective."""
    files = sorted(folder.glob("*.safetensors"))
    wrong = [file.name for file in files[group.rank :: group.size] if digest(file) != digests.get(file.name)]
    number = int(group.all_reduce(torch.tensor(len(wrong))))
    if number or {file.name for file in files} != set(digests):
        which = ", ".join(wrong[:3]) or "the files"
        raise ValueError(f"{folder} must be a checkpoint as it was written. Got others, or damaged ones: {which}.")


class CheckpointRows(Tensor):
    """Rows `first` to `first + n` of a matrix of `num_rows` rows, over the memory of the tensor it is made of.

    It implements the protocol by which tensors describe to torch.distributed.checkpoint what part of a whole they are;
    `DTensor` implements it too, but has only ranges of equal length.
    """

    first: int
    num_rows: int

    @staticmethod
    def of(local: Tensor, first: int, num_rows: int) -> CheckpointRows:
        """`local`, `[n, …]`, as rows of the whole."""
        rows = local.detach().as_subclass(CheckpointRows)
        rows.first, rows.num_rows = first, num_rows
        return rows

    @property
    def local(self) -> Tensor:
        return self.as_subclass(Tensor)

    def size(self, dim: int | None = None) -> Any:
        """The size of the whole, which is compared with the saved one."""
        whole = torch.Size([self.num_rows, *self.local.shape[1:]])
        return whole if dim is None else whole[dim]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

        return [ChunkStorageMetadata(self._offsets(), self.local.shape)]

    def __create_write_items__(self, fqn: str, object: Any) -> list[WriteItem]:
        from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
        from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

        data = TensorWriteData(
            chunk=self.__create_chunk_list__()[0],
            properties=TensorProperties.create_from_tensor(self.local),
            size=self.size(),
        )
        return [WriteItem(MetadataIndex(fqn, self._offsets()), WriteItemType.SHARD, tensor_data=data)]

    def __get_tensor_shard__(self, index: Any) -> Tensor:
        return self.local

    def _offsets(self) -> torch.Size:
        return torch.Size([self.first, *[0] * (self.local.dim() - 1)])
