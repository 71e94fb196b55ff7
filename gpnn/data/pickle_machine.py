"""The pickle machine: bytes, a stack, marks and a memo; what an opcode does to them is for others to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

_STOP = ord(".")


@dataclass
class Machine:
    """The pickle machine's state: what is on the stack, where marks stand, what was memoised.

    `constructors` are the names that the program may use: (module, name) -> a function of ours that REDUCE calls, or a
    class of ours that NEWOBJ makes an empty instance of and BUILD gives its state.
    """

    content: bytes
    constructors: Constructors
    position: int = 0
    stack: list[Any] = field(default_factory=list)
    marks: list[list[Any]] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self, opcodes: Mapping[int, Action]) -> Any:
        """What the program leaves on the stack, each opcode doing what `opcodes` says."""
        content = self.content
        while True:
            code = content[self.position]
            self.position += 1
            if code == _STOP:
                if len(self.stack) != 1 or self.marks:
                    raise ValueError("it does not end with one value.")
                return self.stack.pop()
            action = opcodes.get(code)
            if action is None:
                raise ValueError(f"opcode {bytes([code])!r} at byte {self.position - 1} is not admitted.")
            action(self)

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        end = self.position + count
        if end > len(self.content):
            raise ValueError(f"it ends early: {count} bytes are announced at byte {self.position}.")
        taken = self.content[self.position : end]
        self.position = end
        return taken

    def unsigned(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def line(self) -> str:
        end = self.content.find(b"\n", self.position)
        if end < 0:
            raise ValueError(f"it ends early: a line begins at byte {self.position}.")
        return self.take(end + 1 - self.position)[:-1].decode("ascii")

    def since_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items


Action: TypeAlias = Callable[[Machine], Any]
Constructors: TypeAlias = Mapping[tuple[str, str], Callable[..., Any]]
