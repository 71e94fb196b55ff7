import gc
import hashlib
import json
import sys

import pytest
import torch
import xxhash

from gpnn import pages
from gpnn.storage import tensors
from gpnn.storage.read import digest_json
from gpnn.storage.tensors import (
    BLOCK,
    PIECE,
    SHA256,
    XXH3,
    digest_blocks,
    digest_bytes,
    digest_file,
    read_tensors,
    save_tensors,
    write_tensors,
)

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


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.arange(3), "none": torch.empty(0, 2)}, {"epoch": 4})
    read, description = read_tensors(path, "a model")
    assert read["x"].tolist() == [0, 1, 2]
    assert read["none"].shape == (0, 2)
    assert description == {"epoch": 4}


def test_a_file_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.zeros(2)}, {})
    whole = tensors._read

    def replaced_in_between(path, kind):
        monkeypatch.setattr(tensors, "_read", whole)
        write_tensors(path, {"x": torch.ones(2)}, {})
        raise ValueError("The header of one and the numbers of the other.")

    monkeypatch.setattr(tensors, "_read", replaced_in_between)
    assert read_tensors(path, "a model")[0]["x"].tolist() == [1, 1]


def test_a_flipped_bit_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.zeros(2)}, {})
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="as it was written"):
        read_tensors(path, "a model")


@pytest.mark.parametrize("place", [100, 5 << 20, -1])
def test_a_flipped_bit_in_any_block_is_refused(tmp_path, place):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.zeros(3 << 20), "y": torch.ones(2)}, {"epoch": 4})
    content = bytearray(path.read_bytes())
    start = len(content) - (12 << 20) - 8
    content[start + place if place > 0 else place] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="as it was written"):
        read_tensors(path, "a model")


def test_files_of_older_versions_are_read_by_their_digest(tmp_path):
    """They have one digest over all bytes."""
    path, values = tmp_path / "a.safetensors", {"x": torch.arange(3)}
    content = b'{"epoch": 4}' + b'["x", "torch.int64", [3]]' + values["x"].numpy().tobytes()
    digest = hashlib.sha256(content).hexdigest()
    save_tensors(path, values, {"gpnn": json.dumps({"epoch": 4, "sha256": digest})})
    assert read_tensors(path, "a model")[1] == {"epoch": 4}
    save_tensors(path, {"x": torch.arange(1, 4)}, {"gpnn": json.dumps({"epoch": 4, "sha256": digest})})
    with pytest.raises(ValueError, match="as it was written"):
        read_tensors(path, "a model")


@pytest.mark.parametrize(("name", "algorithm"), [("xxh3_of_blocks", "xxh3_128"), ("sha256_of_blocks", "sha256")])
def test_a_file_names_the_hash_of_its_blocks(tmp_path, name, algorithm):
    """New files have xxh3_128, older ones sha256."""
    path, x = tmp_path / "a.safetensors", torch.arange(3)
    block = (xxhash.xxh3_128 if algorithm == "xxh3_128" else hashlib.sha256)(x.numpy().tobytes()).hexdigest()
    digest = digest_json({"description": {"epoch": 4}, "tensors": [["x", "torch.int64", [3], [block]]]})
    save_tensors(path, {"x": x}, {"gpnn": json.dumps({"epoch": 4, name: digest}, sort_keys=True)})
    tensors, description = read_tensors(path, "a model")
    assert tensors["x"].equal(x)
    assert description == {"epoch": 4}
    if algorithm == "xxh3_128":
        write_tensors(tmp_path / "b.safetensors", {"x": x}, {"epoch": 4})
        assert (tmp_path / "b.safetensors").read_bytes() == path.read_bytes()
    save_tensors(path, {"x": x + 1}, {"gpnn": json.dumps({"epoch": 4, name: digest})})
    with pytest.raises(ValueError, match="as it was written"):
        read_tensors(path, "a model")


def test_large_tensors_are_read_to_large_pages(tmp_path, monkeypatch):
    advised = []
    monkeypatch.setattr(pages, "LARGE", 14)
    monkeypatch.setattr(pages, "_advise", lambda tensor, advice: advised.append((tensor.numel(), advice)))
    path, x = tmp_path / "a.safetensors", torch.arange(3 << 20)
    write_tensors(path, {"x": x}, {})
    assert read_tensors(path, "a model")[0]["x"].equal(x)
    assert advised == [(3 << 20, 14)]


def test_reading_again_and_again_keeps_nothing(tmp_path):
    """As a process does that trains or predicts for weeks; `get_tensor` of safetensors kept two objects per tensor."""
    path = tmp_path / "some.safetensors"
    write_tensors(path, {f"t{number}": torch.ones(300 + number) for number in range(50)}, {})
    read_tensors(path, "a model")
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(20):
        read_tensors(path, "a model")
    gc.collect()
    assert sys.getallocatedblocks() - before < 500


def test_tensors_of_every_kind_of_odd_length(tmp_path):
    """Bytes that do not begin at a multiple of their size."""
    kinds = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8)
    kinds += (torch.int8, torch.int16, torch.int32, torch.int64)
    tensors = {str(kind): torch.arange(7).reshape(7, 1).to(kind) for kind in kinds} | {"none": torch.zeros(0, 3)}
    write_tensors(tmp_path / "some.safetensors", tensors, {"a": 1})
    read, description = read_tensors(tmp_path / "some.safetensors", "a model")
    assert description == {"a": 1}
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)


def test_tensors_of_a_kind_that_is_not_written(tmp_path):
    save_tensors(tmp_path / "other.safetensors", {"a": torch.zeros(2, dtype=torch.complex64)}, {"gpnn": "{}"})
    with pytest.raises(ValueError, match=r"must be a model that gpnn wrote\. Got numbers of type C64\."):
        read_tensors(tmp_path / "other.safetensors", "a model")
