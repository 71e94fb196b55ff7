"""Files made to hurt: each is read in the place of every valid file of every reader."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from typing import Any

import numpy as np


class _Call:
    """Pickles as a call: what an attacker puts into a file."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.reduced


def _payload() -> bytes:
    import os

    return pickle.dumps(_Call(os.system, "touch gpnn-was-here"))


def _archive(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _npy(header: dict[str, Any], content: bytes = b"") -> bytes:
    text = repr(header).encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def _npz_of_objects() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, np.array([_Call(print, "loaded")], object))
    return stream.getvalue()


def _sparse(indices: list[int], shape: tuple[int, int]) -> bytes:
    """A scipy matrix whose parts do not fit each other."""
    stream = io.BytesIO()
    parts = {"indices": np.array(indices), "indptr": np.array([0, len(indices)]), "data": np.ones(len(indices))}
    np.savez(stream, format=np.bytes_(b"csr"), shape=np.array(shape), **parts)
    return stream.getvalue()


def _safetensors(header: dict[str, Any], content: bytes = b"", length: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + content


def _one_tensor(**changes: Any) -> dict[str, Any]:
    return {
        "labels": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8], **changes},
        "__metadata__": {"num_parts": "2"},
    }


def _npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _parquet(**columns: Any) -> bytes:
    import pyarrow
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


def _xml(entities: str, text: str) -> bytes:
    """A GraphML whose only node is named by an entity."""
    return (
        f'<?xml version="1.0"?><!DOCTYPE g [{entities}]><graphml><graph><node id="{text}"/></graph></graphml>'.encode()
    )


LAUGHS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
NONE = [float("nan"), float("inf"), 1.0]
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "zeros": bytes(4096),
    "a pickle that calls": _payload(),
    "a pickle of its own list": b"\x80\x02]q\x00h\x00a.",
    "a pickle of a dictionary of one list": b"\x80\x02}q\x00]q\x01(K\x00K\x01K\x02K\x03K\x04e0"
    + b"("
    + b"".join(b"K" + bytes([n]) + b"h\x01" for n in range(200))
    + b"u.",
    "a pickle of doubled tuples": b"\x80\x02K\x01" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(60)) + b".",
    "a pickle nested deep": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "a pickle of a huge array": pickle.dumps(np.zeros(4, np.int8), protocol=2).replace(b"K\x04", b"J\xff\xff\xff\x7f"),
    "a pickle of a long integer": b"\x80\x02\x8a\xff" + b"\x7f" * 255 + b".",
    "an archive of zeros": _archive(
        {"arr_0.npy": _npy({"descr": "<f4", "fortran_order": False, "shape": (1 << 27, 4)}) + bytes(1 << 27)}
    ),
    "an array of an exabyte": _archive(
        {"arr_0.npy": _npy({"descr": "<f4", "fortran_order": False, "shape": (1 << 30, 1 << 28)})}
    ),
    "an array of negative size": _archive(
        {"arr_0.npy": _npy({"descr": "<f4", "fortran_order": False, "shape": (-1, 2)})}
    ),
    "an array whose header calls": _archive(
        {"arr_0.npy": _npy({"descr": "<f4", "fortran_order": False, "shape": (1,)}).replace(b"(1,)", b"f()!")}
    ),
    "an array of objects": _npz_of_objects(),
    "an archive that climbs": _archive(
        {"../../escape.npy": _npy({"descr": "<f4", "fortran_order": False, "shape": (0,)})}
    ),
    "an archive of nothing": _archive({}),
    "a matrix with a column too far": _sparse([7, 0], (1, 2)),
    "a matrix with a negative column": _sparse([-5, 0], (1, 2)),
    "a matrix of a huge shape": _sparse([0], (1 << 60, 1 << 60)),
    "a header of 2⁶³ bytes": _safetensors({}, length=1 << 63),
    "a header of 90 MB": _safetensors({}, length=90_000_000),
    "a tensor past its file": _safetensors(_one_tensor(data_offsets=[0, 1 << 40], shape=[1 << 38])),
    "a tensor of overflowing shape": _safetensors(_one_tensor(shape=[1 << 62, 1 << 62, 0]), b"\0" * 8),
    "a tensor of two dimensions": _safetensors(_one_tensor(shape=[1, 2]), b"\0" * 8),
    "a tensor of floats": _safetensors(_one_tensor(dtype="F32"), struct.pack("<2f", float("nan"), 1)),
    "a trillion parts": _safetensors({**_one_tensor(), "__metadata__": {"num_parts": "1000000000000"}}, b"\0" * 8),
    "parts of 5,000 digits": _safetensors({**_one_tensor(), "__metadata__": {"num_parts": "9" * 5000}}, b"\0" * 8),
    "another model": _safetensors(
        {**_one_tensor(), "__metadata__": {"gpnn": '{"model": {"hidden_channels": 1000000000}}'}}, b"\0" * 8
    ),
    "a model of a list": _safetensors({**_one_tensor(), "__metadata__": {"gpnn": "[]"}}, b"\0" * 8),
    "text of nested lists": b"[" * 100_000,
    "settings of nested lists": b"seed = " + b"[" * 50_000,
    "settings of nested tables": b"seed = " + b"{a=" * 50_000,
    "a section as a value": b"train = 3\n[model]\ncell = [1]\n",
    "settings of every wrong kind": b"seed = nan\ndevice = [1]\nthreads = -1\n[train]\nepochs = 1e400\nclip = nan\n",
    "a long line": b"a" * 3_000_000,
    "twenty thousand columns": b",".join(b"c%d" % n for n in range(20_000)) + b"\n",
    "quotes that do not close": b'id,label\n"0,a\n1,b\n',
    "ids past 2⁶³": b"id,label\n18446744073709551617,a\n-18446744073709551617,b\n",
    "the same id twice": b"id,label\n0,a\n0,b\n",
    "numbers that are none": b"source,target,weight\nn0,n1,nan\nn1,n0,1e999\n",
    "text in UTF-16": "id,label\n0,a\n".encode("utf-16"),
    "lines of zeros": b"\x00\n" * 1000,
    "a list of JSON": b"[1, 2, 3]\n",
    "a number of JSON": b"1e999\n",
    "a deep JSON": b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"\n",
    "markup": b"<script>alert(1)</script>\n",
    "a header alone": b"id,label\n",
    "edges that are none": b"source,target\n",
    "edges in a circle": b"source,target\nn0,n1\nn1,n2\nn2,n0\nn0,n0\nn0,n1\n",
    "a graph of no nodes": b"0 0\n",
    "a graph of 2⁶² nodes": b"4611686018427387904 1\n2\n1\n",
    "a graph of a thousand million nodes and two lines": b"1000000000 1\n2\n1\n",
    "a GraphML of nothing": b"<graphml><graph/></graphml>",
    "an XML of a thousand million laughs": _xml(f'<!ENTITY e0 "ha">{LAUGHS}', "&e9;"),
    "an XML that reads a file": _xml('<!ENTITY e SYSTEM "file:///etc/passwd">', "&e;"),
    "an archive of NaN and infinity": _npz(arr_0=np.array([NONE] * 12)),
    "an archive of ids past 2⁶³": _npz(id=np.array([2**64 - 1, 1], np.uint64), label=np.array([0, 1])),
    "a Parquet of NaN and infinity": _parquet(id=[0, 1, 2], label=["a", "b", "a"], size=NONE),
    "a Parquet of the same id": _parquet(id=[0, 0, 1], label=["a", "b", "a"]),
    "a Parquet of nothing": _parquet(),
    "a Parquet that unpacks to 128 MB": _parquet(id=np.zeros(1 << 24, np.int64)),
}
