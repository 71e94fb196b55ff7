import json

import pytest

from gpnn.train.atomic import replace_file, write_json, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def fail(partial):
        partial.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replace_file(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_holds_no_number_that_is_not_finite(tmp_path):
    write_json(tmp_path / "x.json", {"loss": float("nan"), "rest": [float("inf"), 1.5], "deep": {"a": float("-inf")}})
    assert json.loads((tmp_path / "x.json").read_text()) == {"loss": None, "rest": [None, 1.5], "deep": {"a": None}}
