"""The page of what fuzzing found: metrics of several calls together, and what libFuzzer prints."""

import json
from pathlib import Path

from tests.trust import fuzz_page, guided

TALLY = {
    "cases": 10_049,
    "read": 49,
    "refused": 10_000,
    "failures": [],
    "seconds": 12.3,
    "slowest": 0.5,
    "memory": 1 << 21,
}
LOG = """#2	INITED cov: 100 ft: 100 corp: 1/1b exec/s: 0 rss: 400Mb
#5000	DONE   cov: 144 ft: 605 corp: 71/9Kb lim: 4096 exec/s: 90 rss: 500Mb
stat::number_of_executed_units: 5000
"""


def test_results_of_two_calls_stand_in_one_table(tmp_path: Path) -> None:
    file = tmp_path / "fuzz.json"
    for name in ("tables", "pickle"):
        fuzz_page.note(file, "damaged", "make fuzz", {name: TALLY})
    found = guided.read_log(LOG) | {"failures": 0, "seconds": 60.4}
    fuzz_page.note(file, "guided", "make fuzz-guided", {"pickle": found})
    page = (tmp_path / "fuzz.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| pickle") or line.startswith("| tables")]
    assert rows[0] == "| pickle | 10,049 | 49 | 10,000 | 0 | 12 | 0.50 | 2 |"
    assert rows[1].startswith("| tables | 10,049 |")
    assert rows[2] == "| pickle | 5,000 | 0 | 60 | 144 | 605 | 71 |"
    assert f"\nMachine: {fuzz_page.machine()}.\n\n" in page
    noted = json.loads(file.read_text())
    noted["damaged"]["readers"]["tables"]["machine"] = "another"
    assert f"\nMachine: {fuzz_page.machine()}.\nMachine of tables: another.\n\n" in fuzz_page.page(noted)
    assert list(json.loads(file.read_text())["damaged"]["readers"]) == ["pickle", "tables"]


def test_cases_go_on_where_they_were_ended(tmp_path: Path) -> None:
    file = tmp_path / "fuzz.json"
    assert fuzz_page.unfinished(file, "tables", 3000) == {}
    fuzz_page.note(file, "damaged", "make fuzz", {"tables": TALLY | {"next": 1000}})
    found = fuzz_page.unfinished(file, "tables", 3000)
    both = fuzz_page.join(found, TALLY | {"slowest": 0.25, "memory": 1 << 22})
    assert (both["cases"], both["refused"], both["slowest"], both["memory"]) == (20_098, 20_000, 0.5, 1 << 22)
    assert fuzz_page.join({}, TALLY) == TALLY | {"sentences": 0}
    for ended in ({"next": 3000}, {"next": 1000, "failures": [{}]}, {}):
        fuzz_page.note(file, "damaged", "make fuzz", {"tables": TALLY | ended})
        assert fuzz_page.unfinished(file, "tables", 3000) == {}


def test_what_numba_compiles_is_left_alone() -> None:
    assert {"gpnn.csr_kernel", "gpnn.kernels.cpu"} <= set(guided.compiled())
    assert "gpnn.data.unpickle" not in guided.compiled()
