"""Large .npy files: what is appended numpy reads, an unfinished file goes on, and a map never changes its file."""

import numpy as np
import pytest

from gpnn.data.npy_file import NpyWriter, map_array, read_header, read_rows


@pytest.mark.parametrize(("dtype", "row_shape"), [("int64", ()), ("float16", (3,)), ("bool", ())])
def test_numpy_reads_what_was_appended(tmp_path, dtype, row_shape):
    values = np.arange(10 * int(np.prod(row_shape))).reshape(10, *row_shape).astype(dtype)
    with NpyWriter(path := tmp_path / "a.npy", dtype, row_shape) as file:
        file.append(values[:4])
        file.append(values[4:])
    assert np.array_equal(np.load(path), values)
    assert np.array_equal(read_rows(path, read_header(path), 3, 7), values[3:7])
    mapped = map_array(path)
    assert np.array_equal(mapped, values)
    mapped[:] = 0
    assert np.array_equal(np.load(path), values)


def test_an_unfinished_file_goes_on(tmp_path):
    path = tmp_path / "a.npy"
    unfinished = NpyWriter(path, np.int32)
    unfinished.append(np.arange(5))
    unfinished.__exit__(KeyboardInterrupt)
    with pytest.raises(ValueError, match=r"a.npy must be an array as numpy saves it"):
        read_header(path)
    with NpyWriter(path, np.int32, kept=3) as file:
        file.append(np.array([7]))
    assert np.load(path).tolist() == [0, 1, 2, 7]


def test_a_header_is_parsed_again_where_threads_failed_each_other(tmp_path, monkeypatch):
    np.save(path := tmp_path / "a.npy", np.arange(3))
    parse, errors = np.lib.format.read_array_header_1_0, [SystemError("AST constructor recursion depth mismatch")] * 2

    def failing(file):
        found = parse(file)
        if errors:
            raise errors.pop()
        return found

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", failing)
    assert read_header(path).shape == (3,)
    assert not errors
    assert read_rows(path, read_header(path), 1, 3).tolist() == [1, 2]


def test_files_that_are_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray(np.ones((2, 3))))
    with pytest.raises(ValueError, match=r"must hold numbers in C order. Got float64 in Fortran order"):
        read_header(path)
    np.save(path, np.array(["a"]))
    with pytest.raises(ValueError, match=r"must hold numbers in C order. Got <U1"):
        read_header(path)
    np.save(path, np.ones(4))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"must have the 160 bytes of its header. Got 159"):
        read_header(path)


def test_an_empty_array_is_mapped(tmp_path):
    with NpyWriter(path := tmp_path / "a.npy", np.int32):
        pass
    assert map_array(path).shape == (0,)
