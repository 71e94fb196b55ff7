"""Check the numbers of README.md and docs/ against committed results, or write them anew.

    python -m docs.claims            # what differs, and numbers without a source
    python -m docs.claims --write    # puts the right numbers into the pages first

docs/claims.txt says where each number comes from; its head explains how.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs.sources import NUMBER, SOURCES, parse_number
from gpnn.storage.atomic import write_text

ROOT = Path(__file__).parents[1]
CLAIMS = ROOT / "docs" / "claims.txt"
PAGES = [path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]]
NAMES: dict[str, Any] = {source.__name__: source for source in SOURCES}
EXPRESSION = re.compile(r"\{([^{}]*)\}")
BETWEEN = r"\D{1,120}?"  # words between the numbers of one expression

_WORD = "half an?|a few|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|fifty|hundred"
_UNIT = r"%|percent|points?|[mµn]?s|seconds|[KMGT]i?B(?:/s)?|bytes|times|G?FLOP(?:/s)?"
_NUMBER = NUMBER.pattern
MEASURED = re.compile(
    rf"{_NUMBER}(?:(?: to |, | and | / | or ){_NUMBER})*\s(?:{_UNIT})(?!\w)"  # 46 s, 5 and 8 times
    r"|(?<![\w.])\d+(?:,\d{3})*\.\d+(?![\w.]*\w)"  # 81.8
    rf"|\b(?:{_WORD})(?: (?:to|or) (?:{_WORD}))?\s(?:points?|times(?! the)|seconds)\b"  # half a point
)
SETTING = re.compile(
    r"((?<!p )[=≈]|\b(rates?|NELL|NELL at|dropout|DropNode|temperature|section|Python|Adam))\s$|arXiv:$", re.I
)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|https?://\S+", re.M | re.S)


@dataclass(frozen=True)
class Claim:
    """A text of a page with an expression in the place of each number; numbers of one that `is_free` need none."""

    page: str
    text: str
    is_free: bool = False


@dataclass(frozen=True)
class Place:
    """A number or some words of a page, from `start` to `end`, and what should stand there."""

    start: int
    end: int
    right: str


def read_claims(text: str) -> list[Claim]:
    """The claims of all pages, in their order; what the text names with `let` is kept for their expressions."""
    claims, page = [], ""
    for line in re.sub(r"\n +", " ", text).splitlines():
        if line.startswith("== "):
            page = line[3:]
        elif named := re.fullmatch(r"let (\w+) = (.*)", line):
            NAMES[named[1]] = eval(named[2], NAMES)
        elif line and not line.startswith("#"):
            claims.append(Claim(page, line.removeprefix("~ "), line.startswith("~ ")))
    return claims


def find_problems(name: str, text: str, claims: list[Claim]) -> Iterator[str]:
    """What a page says otherwise than the results, and what it measures without a source."""
    covered: list[Place] = []
    for claim in claims:
        try:
            places = find_places(claim, text)
        except ValueError as error:
            yield f"{name}: {error} The claim is: {claim.text}"
            continue
        covered += places
        for place in places:
            if text[place.start : place.end] != place.right:
                yield f"{_line(name, text, place.start)}: {text[place.start : place.end]} is {place.right}."
    for start, end in find_measured(text):
        if not all(any(place.start <= at < place.end for place in covered) for at in _positions(text, start, end)):
            yield f"{_line(name, text, start)}: {' '.join(text[start:end].split())!r} has no source in docs/claims.txt."


def correct(text: str, claims: list[Claim]) -> str:
    """The page with the right numbers, wherever its claims find their text."""
    for claim in claims:
        try:
            places = find_places(claim, text)
        except ValueError:
            continue  # `find_problems` reports it
        for place in reversed(places):
            text = text[: place.start] + place.right + text[place.end :]
    return text


def find_places(claim: Claim, text: str) -> list[Place]:
    """Where a page has what a claim computes, in the page's order.

    Raises:
        ValueError: when the page has no such text, or the results no such number.
    """
    values = [] if claim.is_free else [_evaluate(source) for source in EXPRESSION.findall(claim.text)]
    literals = [claim.text] if claim.is_free else EXPRESSION.split(claim.text)[::2]
    patterns = [f"({_pattern(value)}){_literal(rest)}" for value, rest in zip(values, literals[1:])]
    found = list(re.finditer(_literal(literals[0]) + "".join(patterns), text))
    if not found:
        raise ValueError("No such text.")
    if claim.is_free:
        return [Place(match.start(), match.end(), match[0]) for match in found]
    return [place for match in found for at, value in enumerate(values, 1) for place in _compare(match, at, value)]


def find_measured(text: str) -> list[tuple[int, int]]:
    """Where a text gives a measured number: with a unit, with decimals, or in words before points, times or seconds.

    Code, links and what follows the name of a setting are left out.
    """
    plain = CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found = [match.span() for match in MEASURED.finditer(plain)]
    return [(start, end) for start, end in found if not SETTING.search(plain[max(0, start - 20) : start])]


def write_like(shown: str, value: float) -> str:
    """The value with the digits and the sign that a page shows; what it shows, where that is the value rounded."""
    mantissa, _, exponent = shown.partition("e")
    decimals = len(mantissa.partition(".")[2])
    if abs(parse_number(shown) - value) <= 0.5 * 10.0 ** (int(exponent or 0) - decimals) * (1 + 1e-6):
        return shown
    if exponent:
        return re.sub(r"e([-+])0*", lambda sign: "e-" if sign[1] == "-" else "e", f"{value:.{decimals}e}")
    written = f"{value:{'+' if shown.startswith('+') else ''},.{decimals}f}"
    return written.replace("-", "−") if "−" in shown else written


def _evaluate(source: str) -> list[float] | str:
    try:
        value = eval(source, NAMES)
    except (LookupError, NameError, OSError, SyntaxError, TypeError) as error:
        raise ValueError(f"{source!r} cannot be computed: {error}.") from error
    if isinstance(value, str):
        return value
    return [float(each) for each in value] if isinstance(value, list) else [float(value)]


def _pattern(value: list[float] | str) -> str:
    return _literal(value) if isinstance(value, str) else BETWEEN.join([_NUMBER] * len(value))


def _literal(text: str) -> str:
    return r"\s+".join(re.escape(part) for part in re.split(r"\s+", text))


def _compare(match: re.Match[str], at: int, value: list[float] | str) -> Iterator[Place]:
    if isinstance(value, str):
        yield Place(match.start(at), match.end(at), match[at])
        return
    for number, right in zip(NUMBER.finditer(match.string, match.start(at), match.end(at)), value):
        yield Place(number.start(), number.end(), write_like(number[0], right))


def _positions(text: str, start: int, end: int) -> list[int]:
    """What must be covered: the first character of each number, or the first and the last of words."""
    return [found.start() for found in NUMBER.finditer(text, start, end)] or [start, end - 1]


def _line(name: str, text: str, at: int) -> str:
    return f"{name}:{text.count(chr(10), 0, at) + 1}"


def main() -> int:
    """Print what is wrong; 1 where anything is."""
    claims = read_claims(CLAIMS.read_text(encoding="utf-8"))
    found: list[str] = []
    for page in PAGES:
        own, text = [claim for claim in claims if claim.page == page], (ROOT / page).read_text(encoding="utf-8")
        if "--write" in sys.argv[1:]:
            text = correct(text, own)
            write_text(ROOT / page, text)
        found += find_problems(page, text, own)
    print("\n".join(found) or "Every number of the pages is that of its source.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
