"""Damage done to the bytes of a valid file: cut, flipped, spliced, or with its numbers made extreme."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

Mutation: TypeAlias = Callable[[random.Random, bytes, Sequence[bytes]], bytes]

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
TOKENS = (
    *(
        b"nan",
        b"-inf",
        b"1e400",
        b"",
        b"-1",
        b"0",
        b"-0.0",
        b"1",
        b"true",
        b'"',
        b"null",
        b"[]",
        b"{}",
        b"'",
        b"1e-400",
    ),
    *(b"2147483648", b"9223372036854775808", b"18446744073709551616", b"-9223372036854775809", b"9" * 30, b"9" * 5000),
    *(b"../../escape", b"/etc/passwd", b"\x00", b"\xff\xfe", "é\u202e".encode(), b"<script>alert(1)</script>", b"=1+1"),
)
WIDTHS = (1, 2, 4, 8)


def mutate(seed: int, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """One to four mutations of `content`; the same seed does the same damage.

    >>> mutate(3, b"0,1,2,3") == mutate(3, b"0,1,2,3") != b"0,1,2,3"
    True
    """
    random_ = random.Random(seed)
    for _ in range(random_.choice((1, 1, 1, 2, 3, 4))):
        content = random_.choice(MUTATIONS)(random_, content, others)
    return content


def truncate(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    del others
    return content[: random_.randint(0, len(content))]


def flip_bits(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    del others
    changed = bytearray(content)
    for _ in range(random_.choice((1, 1, 2, 8)) if changed else 0):
        changed[random_.randrange(len(changed))] ^= 1 << random_.randrange(8)
    return bytes(changed)


def set_byte(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    del others
    changed = bytearray(content)
    if changed:
        changed[random_.randrange(len(changed))] = random_.choice(
            (0, 1, 0x7F, 0x80, 0xFF, 10, 44, random_.randrange(256))
        )
    return bytes(changed)


def set_integer(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """An aligned integer of one to eight bytes, where binary formats declare sizes, made extreme."""
    del others
    width = random_.choice(WIDTHS)
    value = random_.choice(
        (0, 1, 1 << (8 * width - 1), (1 << (8 * width - 1)) - 1, (1 << (8 * width)) - 1, 1 << 7 * width)
    )
    place = random_.randint(0, max(len(content) - width, 0))
    return content[:place] + value.to_bytes(width, random_.choice(("little", "big"))) + content[place + width :]


def set_number(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """A number written as text replaced by a token that no reader likes."""
    del others
    found = [match.span() for match in NUMBER.finditer(content)]
    if not found:
        return content
    start, end = random_.choice(found)
    return content[:start] + random_.choice(TOKENS) + content[end:]


def insert_token(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    del others
    place = random_.randint(0, len(content))
    return content[:place] + random_.choice(TOKENS) + content[place:]


def delete_span(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    del others
    start, end = _span(random_, content)
    return content[:start] + content[end:]


def repeat_span(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    del others
    start, end = _span(random_, content)
    return content[:end] + content[start:end] * random_.choice((1, 1, 2, 20)) + content[end:]


def splice(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """A piece of another file, or of this one, put into or over a place of this one."""
    source = random_.choice([*others, content])
    start, end = _span(random_, source)
    place = random_.randint(0, len(content))
    skipped = random_.choice((0, end - start))
    return content[:place] + source[start:end] + content[place + skipped :]


def swap_lines(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    del others
    lines = content.split(b"\n")
    one, other = (random_.randrange(len(lines)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def replace_whole(random_: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    return random_.choice([*others, content[::-1], b""])


def _span(random_: random.Random, content: bytes) -> tuple[int, int]:
    start = random_.randint(0, len(content))
    longest = random_.choice((1, 4, 16, 256, len(content)))
    return start, min(start + random_.randint(0, max(longest, 1)), len(content))


MUTATIONS: tuple[Mutation, ...] = (
    truncate,
    flip_bits,
    set_byte,
    set_integer,
    set_number,
    set_number,
    insert_token,
    delete_span,
    repeat_span,
    splice,
    swap_lines,
    replace_whole,
)
