"""CheckpointRows: one process's range of the rows of a matrix, as torch.distributed.checkpoint stores it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:  # which takes a second to import
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
    from torch.distributed.checkpoint.planner import WriteItem


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
