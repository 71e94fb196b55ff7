"""Digests of blocks are those of the libraries, whatever threads copy and compute."""

import hashlib

import pytest
import torch
import xxhash

from gpnn.storage.blocks import BLOCK, PIECE, SHA256, XXH3, digest_blocks, digest_bytes, digest_file

NEW = {XXH3: xxhash.xxh3_128, SHA256: hashlib.sha256}


def expected(content: bytes, algorithm: str) -> list[str]:
    pieces = [content[start : start + BLOCK] for start in range(0, max(1, len(content)), BLOCK)]
    return [NEW[algorithm](piece).hexdigest() for piece in pieces]


@pytest.mark.parametrize("algorithm", NEW)
@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE + 1, BLOCK, 2 * BLOCK + PIECE + 7])
def test_copies_hold_what_was_digested(size: int, algorithm: str) -> None:
    content = torch.randint(256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    copy = torch.empty_like(content)
    digests = [expected(content.numpy().tobytes(), algorithm)]
    assert digest_bytes([content], [copy], algorithm) == digest_bytes([content], None, algorithm) == digests
    assert copy.equal(content)


@pytest.mark.parametrize("algorithm", NEW)
def test_a_file_is_digested_by_blocks(tmp_path, algorithm: str) -> None:
    content, path = bytes(range(256)) * (BLOCK // 128), tmp_path / "content"
    path.write_bytes(content)
    digests = expected(content, algorithm)
    assert digest_blocks(path, algorithm) == digests
    assert digest_file(path, algorithm) == hashlib.sha256("".join(digests).encode()).hexdigest()
