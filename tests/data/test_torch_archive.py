"""Tensors in files of `torch.save`: those that torch reads, and what shows more than it holds."""

import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gpnn.data.torch_archive import TorchArchive
from tests.oracle.torch_files import write_program

KINDS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip


def read(content: Any, folder: Path) -> Any:
    torch.save(content, folder / "a.pt")
    with TorchArchive(folder / "a.pt", {}) as archive:
        return archive.tensor(archive.content)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 3)], ids=str)
def test_every_type_and_shape(dtype: torch.dtype, shape: tuple[int, ...], tmp_path: Path) -> None:
    values = torch.arange(7).to(dtype)[1:].clone()[: torch.Size(shape).numel()].reshape(shape)
    ours = read(values, tmp_path)
    assert ours.dtype == dtype
    assert ours.tolist() == values.tolist()
    assert ours.shape == values.shape


def test_views_share_their_storage(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    for view in (whole.t(), whole[1:], whole[:, 1:3], whole[1, 2], whole[:1].expand(5, 4)):
        assert read(view, tmp_path).equal(view)
    torch.save([whole[0], whole[1]], tmp_path / "a.pt")
    with TorchArchive(tmp_path / "a.pt", {}) as archive:
        first, second = (archive.tensor(note) for note in archive.content)
    first.fill_(-1)
    assert second.data_ptr() == first.data_ptr() + 16
    assert second.equal(whole[1])


def sparse(layout: str) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return getattr(torch.tensor([[0.0, 2.0], [3.0, 0.0]]), f"to_{layout}")()


@pytest.mark.parametrize("layout", ["sparse", "sparse_csr", "sparse_csc"])
def test_sparse_tensors(layout: str, tmp_path: Path) -> None:
    ours = read(sparse(layout), tmp_path)
    assert ours.layout == sparse(layout).layout
    assert ours.to_dense().tolist() == [[0, 2], [3, 0]]


def test_parameters(tmp_path: Path) -> None:
    assert read(torch.nn.Parameter(torch.ones(2)), tmp_path).tolist() == [1, 1]


def tensor_program(kind: str, offset: int, size: str, stride: str) -> bytes:
    """A tensor over storage 0, as `torch.save` writes it; sizes are opcodes."""
    storage = f"(X\x07\0\0\0storagectorch\n{kind}\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ"
    text = f"ctorch._utils\n_rebuild_tensor_v2\n({storage}K{chr(offset)}{size}{stride}\x89}}tR."
    return text.encode("latin1")


@pytest.mark.parametrize(
    ("offset", "size", "stride", "message"),
    [
        (0, "K\x02\x85", "K\x02\x85", r"must lie within the 2 numbers of its storage\. Got number 2\."),
        (2, "K\x01\x85", "K\x01\x85", r"must lie within the 2 numbers"),
        (0, "J\xff\xff\xff\x7f\x85", "K\x01\x85", r"must lie within the 2 numbers|must unpack to at most"),
        (0, "\x8a\x08\0\0\0\0\0\0\0\x40\x85", "K\0\x85", r"a\.pt must unpack to at most"),
        (0, "J\xff\xff\xff\xff\x85", "K\x01\x85", r"a shape must be a tuple of sizes"),
        (0, "K\x02\x85", "J\xff\xff\xff\xff\x85", r"a shape must be a tuple of sizes"),
        (0, "K\x02\x85", ")", r"a stride for each size"),
    ],
)
def test_a_tensor_that_shows_more_than_there_is(
    offset: int, size: str, stride: str, message: str, tmp_path: Path
) -> None:
    good = write_program(
        tmp_path / "a.pt", tensor_program("FloatStorage", 0, "K\x02\x85", "K\x01\x85"), **{"0": bytes(8)}
    )
    with TorchArchive(good, {}) as archive:
        assert archive.tensor(archive.content).tolist() == [0, 0]
    bad = write_program(tmp_path / "a.pt", tensor_program("FloatStorage", offset, size, stride), **{"0": bytes(8)})
    with pytest.raises(ValueError, match=message), TorchArchive(bad, {}) as archive:
        archive.tensor(archive.content)


def test_the_bytes_of_a_mask_are_made_false_or_true(tmp_path: Path) -> None:
    program = tensor_program("BoolStorage", 0, "K\x02\x85", "K\x01\x85")
    with TorchArchive(write_program(tmp_path / "a.pt", program, **{"0": b"\x02\x00"}), {}) as archive:
        mask = archive.tensor(archive.content)
    assert mask.view(torch.uint8).tolist() == [1, 0]


@pytest.mark.parametrize("indices", [[[0, 5], [0, 1]], [[0, -1], [0, 1]]])
def test_sparse_indices_that_do_not_fit(indices: list[list[int]], tmp_path: Path) -> None:
    wrong = torch.sparse_coo_tensor(torch.tensor(indices), torch.ones(2), (2, 2), check_invariants=False)
    with pytest.raises(ValueError, match="a sparse tensor does not hold together"):
        read(wrong, tmp_path)


def test_archives_that_torch_does_not_write(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"N.")
    with pytest.raises(ValueError, match=r"member data\.pkl must not be compressed"):
        TorchArchive(path, {})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"N.")
        archive.writestr("b/data.pkl", b"N.")
    with pytest.raises(ValueError, match=r"must hold one data\.pkl"):
        TorchArchive(path, {})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"N.")
        archive.writestr("a/byteorder", b"big")
    with pytest.raises(ValueError, match="little-endian"):
        TorchArchive(path, {})
