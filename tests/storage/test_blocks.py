"""Digests of blocks are those of the standard library, whatever threads copy and compute."""

import hashlib

import pytest
import torch

from gpnn.storage.blocks import BLOCK, PIECE, digest_blocks, digest_bytes, digest_file


def expected(content: bytes) -> list[str]:
    pieces = [content[start : start + BLOCK] for start in range(0, max(1, len(content)), BLOCK)]
    return [hashlib.sha256(piece).hexdigest() for piece in pieces]


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE + 1, BLOCK, 2 * BLOCK + PIECE + 7])
def test_copies_hold_what_was_digested(size: int) -> None:
    content = torch.randint(256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    copy = torch.empty_like(content)
    assert digest_bytes([content], [copy]) == digest_bytes([content]) == [expected(content.numpy().tobytes())]
    assert copy.equal(content)


def test_a_file_is_digested_by_blocks(tmp_path) -> None:
    content, path = bytes(range(256)) * (BLOCK // 128), tmp_path / "content"
    path.write_bytes(content)
    assert digest_blocks(path) == expected(content)
    assert digest_file(path) == hashlib.sha256("".join(expected(content)).encode()).hexdigest()
