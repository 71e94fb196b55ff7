import base64
import gzip
import json
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.extra import install_command
from gpnn.report.embed import can_write, check_extra, plotly_script, script_json


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_no_text_can_leave_its_script(text):
    written = script_json({"label": text})
    assert not set(written) & set("<>&")
    assert json.loads(written) == {"label": text}


def test_numbers_that_json_lacks_are_null():
    assert script_json([float("nan"), float("inf"), 1.5]) == "[null,null,1.5]"


def test_the_library_is_whole():
    pytest.importorskip("plotly")
    code = gzip.decompress(base64.b64decode(plotly_script())).decode()
    assert code.startswith("/**\n* plotly.js")
    assert "MIT" in code[:300]


def test_without_the_extra_there_is_a_way_out(monkeypatch):
    monkeypatch.setattr("gpnn.report.embed.find_spec", lambda name: None if name == "plotly" else sys)
    assert not can_write()
    with pytest.raises(ImportError, match=re.escape(install_command("report"))):
        check_extra()
