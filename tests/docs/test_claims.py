"""Every number that README.md and docs/ measure is what the committed results give."""

import pytest

from docs.claims import CLAIMS, PAGES, ROOT, Claim, correct, find_measured, find_problems, read_claims, write_like
from docs.sources import SOURCES

ALL = read_claims(CLAIMS.read_text(encoding="utf-8"))
ROW = '| default | {spread("ours", "default recipe", "Cora")} |'


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_the_results_say(page):
    claims = [claim for claim in ALL if claim.page == page]
    found = list(find_problems(page, (ROOT / page).read_text(encoding="utf-8"), claims))
    assert not found, "\n".join([*found, "`python -m docs.claims --write` puts the right numbers in."])


def test_every_claim_is_of_a_page():
    assert {claim.page for claim in ALL} <= set(PAGES)


def right(text: str) -> str:
    return correct(text, [Claim("page", ROW)])


def test_a_number_that_drifted_is_found_and_mended():
    mended = right("| default | 11.1 ± 2.2 |")
    assert mended != "| default | 11.1 ± 2.2 |"
    assert list(find_problems("page", mended, [Claim("page", ROW)])) == []
    mean, _, deviation = mended.removeprefix("| default | ").removesuffix(" |").partition(" ± ")
    drifted = mended.replace(mean, "11.1")
    assert list(find_problems("page", drifted, [Claim("page", ROW)])) == [f"page:1: 11.1 is {mean}."]
    assert right(f"| default |\n  11 ± {deviation} |") == f"| default |\n  {float(mean):.0f} ± {deviation} |"


def test_a_number_without_a_source_is_found():
    text = "Ours has 84.9 there,\nin 7 s and half a point ahead."
    assert [problem.partition(" has no")[0] for problem in find_problems("page", text, [])] == [
        "page:1: '84.9'",
        "page:2: '7 s'",
        "page:2: 'half a point'",
    ]
    assert list(find_problems("page", text, [Claim("page", text, is_free=True)])) == []


def test_what_a_claim_does_not_compute_is_not_covered_by_its_words():
    claim = Claim("page", "Of 84.9 it takes {1 + 1} s")
    found = list(find_problems("page", "Of 84.9 it takes 2 s.", [claim]))
    assert found == ["page:1: '84.9' has no source in docs/claims.txt."]


@pytest.mark.parametrize("text", ["dropout 0.5", "α = 0.1", "`0.3 s`", "K = 10", "[a](b-0.5.md)", "Python 3.11"])
def test_settings_and_code_are_not_measured(text):
    assert find_measured(text) == []


@pytest.mark.parametrize("text", ["p = 0.04", "46 s", "5 and 8 times", "12.5", "9 %", "1.83 GiB", "twenty points"])
def test_what_is_measured(text):
    assert len(find_measured(text)) == 1


def test_words_that_do_not_hold_and_results_that_are_missing_are_reported():
    texts = {
        '{phrase("half a point", 1 > 2)}': "'half a point' does not hold any more.",
        '{mean("ours", "no such row", "Cora")}': "ours has no finished run of 'no such row' in 'Cora'",
        '{cell("gpu", "no such row", column="ms")}': "gpu has no row ('no such row',) with 'ms'",
        "{no_such_source()}": "'no_such_source()' cannot be computed: name 'no_such_source' is not defined.",
        "absent {1}": "No such text.",
    }
    for text, says in texts.items():
        assert says in next(find_problems("page", "It is 1.", [Claim("page", text)]))


def test_numbers_are_written_as_the_page_writes_them():
    assert [write_like(*each) for each in (("81.7", 81.84), ("1,024", 999.6), ("−0.3", -0.44), ("+0.1", 0.26))] == [
        "81.8",
        "1,000",
        "−0.4",
        "+0.3",
    ]
    assert [write_like("2", 2.5), write_like("3", 2.5)] == ["2", "3"]  # either way is right
    assert write_like("4e-7", 5.6e-7) == "6e-7"


def test_every_source_is_used():
    text = CLAIMS.read_text(encoding="utf-8")
    assert [source.__name__ for source in SOURCES if f"{source.__name__}(" not in text] == []
