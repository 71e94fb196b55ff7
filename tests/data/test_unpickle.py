"""The restricted unpickler: it reads the Planetoid files as pickle does, and runs nothing."""

import contextlib
import copyreg
import operator
import os
import pickle
import pickletools
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from gpnn.data.pickle_machine import OPCODES
from gpnn.data.unpickle import CONSTRUCTORS, read_pickle, read_pickle_bytes

MATRIX = csr_matrix(np.array([[0, 1.5], [2, 0]], np.float32))

NESTED = b")" + b"q\x00h\x00\x86" * 60  # a pair of a pair of …, each entry the same


class Call:
    """Pickles as a call of a function: what an attacker puts into a file."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.reduced


class TestReading:
    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    @pytest.mark.parametrize(
        "array",
        [
            np.arange(6, dtype=np.int32).reshape(2, 3),
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            np.array([True, False]),
            np.array([1, 2], ">i4"),
            np.zeros((0, 3), np.float32),
        ],
        ids=["int32", "fortran", "bool", "big-endian", "empty"],
    )
    def test_arrays(self, protocol: int, array: np.ndarray) -> None:
        read = read_pickle_bytes(pickle.dumps(array, protocol=protocol))
        assert read.tolist() == array.tolist()
        assert read.shape == array.shape
        assert read.dtype == array.dtype.newbyteorder("=")
        assert read.flags.writeable

    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    def test_matrices(self, protocol: int) -> None:
        read = read_pickle_bytes(pickle.dumps(MATRIX, protocol=protocol))
        assert type(read) is csr_matrix
        assert read.dtype == np.float32
        assert read.toarray().tolist() == MATRIX.toarray().tolist()

    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    def test_dictionaries_of_lists(self, protocol: int) -> None:
        graph = defaultdict(list)
        graph.update({0: [1, 300], 70_000: [], 2**33: [-1]})
        assert read_pickle_bytes(pickle.dumps(graph, protocol=protocol)) == dict(graph)

    def test_real_files_like_pickle_does(self, data_root: Path) -> None:
        import warnings

        for suffix in ("x", "ally", "graph"):
            path = data_root / "planetoid" / f"ind.cora.{suffix}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numpy and scipy moved the modules that the files name
                wanted = pickle.loads(path.read_bytes(), encoding="latin1")
            read = read_pickle(path)
            if suffix == "graph":
                assert read == dict(wanted)
                assert list(read) == list(wanted)
            else:
                assert read.dtype == wanted.dtype
                assert (read != wanted).sum() == 0

    def test_real_files_hold_no_opcode_or_name_beyond_the_tables(self, data_root: Path) -> None:
        for path in sorted((data_root / "planetoid").glob("ind.cora.*")):
            if path.suffix != ".index":
                for code, argument, _ in pickletools.genops(path.read_bytes()):
                    assert ord(code.code) in OPCODES or code.name == "STOP"
                    assert code.name != "GLOBAL" or tuple(str(argument).split()) in CONSTRUCTORS


def payloads(marker: Path) -> dict[str, bytes]:
    """Files that would create `marker` if Python's pickle read them."""
    command = f"touch {marker}"
    code = f"open({str(marker)!r}, 'w').close()"
    gadget = marker.with_suffix(".npy")
    np.save(gadget, np.array([Call(os.system, command)], object), allow_pickle=True)
    hostile = csr_matrix((1, 1), dtype=np.float32)
    hostile.data = Call(os.system, command)
    texts = f"S'{command}'\n".encode()
    return {
        "os.system": pickle.dumps(Call(os.system, command)),
        "eval": pickle.dumps(Call(eval, code)),
        "exec": pickle.dumps(Call(exec, code)),
        "subprocess": pickle.dumps(Call(subprocess.call, ["touch", str(marker)])),
        "nested in a list": pickle.dumps({0: [Call(os.system, command)]}),
        "object array": pickle.dumps(np.array([Call(os.system, command)], object)),
        "object array, protocol 2": pickle.dumps(np.array([Call(os.system, command)], object), protocol=2),
        "numpy.load": pickle.dumps(Call(np.load, str(gadget), None, True)),
        "state of a csr_matrix": pickle.dumps(hostile),
        "old opcodes": b"cos\nsystem\n(" + texts + b"tR.",
        "INST": b"(" + texts + b"ios\nsystem\n.",
        "OBJ": b"(cos\nsystem\n" + texts + b"o.",
        "operator.call": pickle.dumps(Call(operator.call, os.system, command)),
    }


class TestRefusing:
    @pytest.mark.parametrize(
        "name",
        [
            "os.system",
            "eval",
            "exec",
            "subprocess",
            "nested in a list",
            "object array",
            "object array, protocol 2",
            "numpy.load",
            "state of a csr_matrix",
            "old opcodes",
            "INST",
            "OBJ",
            "operator.call",
        ],
    )
    def test_a_payload_does_not_run(self, name: str, tmp_path: Path) -> None:
        marker = tmp_path / "ran"
        content = payloads(marker)[name]
        with pytest.raises(ValueError, match=r"not admitted|must hold numbers|not an admitted|plain number"):
            read_pickle_bytes(content)
        assert not marker.exists()
        pickle.loads(content)
        assert marker.exists(), "the payload is live: pickle runs it"

    @pytest.mark.parametrize(
        "name",
        ["os system", "numpy load", "numpy.core.multiarray scalar", "copyreg _reconstructor", "builtins getattr"],
    )
    def test_a_name_outside_the_table(self, name: str) -> None:
        module, function = name.split()
        with pytest.raises(ValueError, match=rf"the name {module}\.{function} is not admitted"):
            read_pickle_bytes(f"c{module}\n{function}\n.".encode())
        with pytest.raises(ValueError, match="is not admitted"):
            read_pickle_bytes(pickle.dumps(module)[:-1] + pickle.dumps(function)[2:-1] + b"\x93.")

    def test_a_registered_extension(self, monkeypatch: pytest.MonkeyPatch) -> None:
        copyreg.add_extension("os", "system", 240)
        try:
            with pytest.raises(ValueError, match=r"opcode b'\\x82' at byte 2 is not admitted"):
                read_pickle_bytes(b"\x80\x02\x82\xf0.")
        finally:
            copyreg.remove_extension("os", "system", 240)

    @pytest.mark.parametrize("content", [b"Pname\n.", b"Nq\x00Q.", b"\x97."], ids=["PERSID", "BINPERSID", "BUFFER"])
    def test_what_comes_from_outside_the_file(self, content: bytes) -> None:
        with pytest.raises(ValueError, match="is not admitted"):
            read_pickle_bytes(content)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"cnumpy\nndarray\n)R.", "may only be named"),
            (b"cscipy.sparse.csr\ncsr_matrix\n)R.", "may only be named"),
            (b"cnumpy\nndarray\n)\x81.", "not an empty one of an admitted class"),
            (b"cscipy.sparse.csr\ncsr_matrix\nK\x01\x85\x81.", "not an empty one of an admitted class"),
            (b"cnumpy\ndtype\n}b.", "sets the state of a Name"),
            (b"}}b.", "sets the state of a dict"),
            (b"cnumpy\ndtype\n.", "bare name or type"),
            (b"ccollections\ndefaultdict\ncnumpy\ndtype\n\x85R.", "must make lists"),
            (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nNN\x87R.", "only a numpy.ndarray"),
            (b"}]K\x01s.", "keys must be numbers or text"),
            (b"}K\x01a.", "items are put into a dict, not a list"),
            (b"(K\x01K\x02.", "does not end with one value"),
            (b"K\x01K\x02.", "does not end with one value"),
            (b"\x85.", "pops from an empty stack"),
            (NESTED + b"K\x01\x93.", "a name must be text"),  # 2^60 entries to hash or print
            (b"}" + NESTED + b"K\x01s.", "keys must be numbers or text"),
        ],
    )
    def test_a_constructor_misused(self, content: bytes, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            read_pickle_bytes(content)

    @pytest.mark.parametrize(
        ("part", "value", "message"),
        [
            ("indices", np.array([0, 9], np.int32), "columns of a csr_matrix must lie from 0 to 1"),
            ("indices", np.array([0, -1], np.int32), "columns of a csr_matrix must lie from 0 to 1"),
            ("indices", np.array([0.0, 1.0]), "`indices` of a csr_matrix must be an array of one dimension"),
            ("indptr", np.array([0, 2, 1], np.int32), "row pointers of a csr_matrix must rise"),
            ("indptr", np.array([0, 1, 9], np.int32), "row pointers of a csr_matrix must rise"),
            ("data", np.ones(3, np.float32), "parts of a csr_matrix must fit each other"),
            ("data", "text", "`data` of a csr_matrix must be an array"),
            ("_shape", (2, -2), "a shape must be a tuple of sizes"),
            ("_shape", (10**12, 2), "parts of a csr_matrix must fit each other"),
        ],
    )
    def test_a_matrix_whose_parts_do_not_fit(self, part: str, value: Any, message: str) -> None:
        hostile = MATRIX.copy()
        hostile.__dict__[part] = value
        with pytest.raises(ValueError, match=message):
            read_pickle_bytes(pickle.dumps(hostile))

    def test_a_matrix_with_the_state_of_something_else(self) -> None:
        with pytest.raises(ValueError, match=r"must be a dictionary\. Got tuple"):
            read_pickle_bytes(b"cscipy.sparse.csr\ncsr_matrix\n)\x81)b.")

    @pytest.mark.parametrize("code", [b"O8", b"V8", b"S3", b"U3", b"M8", b"c8", b"i4,O8"])
    def test_an_array_of_something_else_than_numbers(self, code: bytes) -> None:
        content = b"cnumpy\ndtype\nU" + bytes([len(code)]) + code + b"\x85R."
        with pytest.raises(ValueError, match="an array must hold numbers"):
            read_pickle_bytes(content)

    def test_an_array_with_fewer_bytes_than_its_shape_asks_for(self) -> None:
        content = pickle.dumps(np.zeros(4, np.int8), protocol=2)
        with pytest.raises(ValueError, match=r"an array of shape \(5,\) must hold 5 bytes. Got 4"):
            read_pickle_bytes(content.replace(b"K\x04", b"K\x05"))

    @pytest.mark.parametrize(
        "content", [b"B\xff\xff\xff\x7f.", b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f.", b"T\xff\xff\xff\xff."]
    )
    def test_lengths_beyond_the_file(self, content: bytes) -> None:
        with pytest.raises(ValueError, match="it ends early"):
            read_pickle_bytes(content)

    def test_a_memo_place_of_four_billion_costs_nothing(self) -> None:
        assert read_pickle_bytes(b"K\x07r\xff\xff\xff\xff.") == 7

    def test_a_large_file(self, tmp_path: Path) -> None:
        path = tmp_path / "ind.cora.x"
        path.write_bytes(b"N" * 20)
        with pytest.raises(ValueError, match=r"ind\.cora\.x must have at most 10 bytes\. Got 20\."):
            read_pickle(path, max_bytes=10)

    def test_says_which_file(self, tmp_path: Path) -> None:
        path = tmp_path / "ind.cora.x"
        path.write_bytes(b"cos\nsystem\n.")
        with pytest.raises(ValueError, match=r"^ind\.cora\.x was refused: the name os\.system is not admitted\.$"):
            read_pickle(path)

    @given(st.data())
    @settings(max_examples=200, deadline=None)
    @pytest.mark.thorough
    def test_damaged_files_are_refused_or_read_never_crash(self, data: st.DataObject) -> None:
        whole = pickle.dumps(data.draw(st.sampled_from([MATRIX, {0: [1, 2]}])), protocol=2)
        content = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
        for _ in range(data.draw(st.integers(0, 3))):
            if content:
                content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        with contextlib.suppress(ValueError):
            read_pickle_bytes(bytes(content))
