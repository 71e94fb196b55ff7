"""An interpreter of pickles that runs nothing: it knows plain values and the constructors of its caller.

Python's own unpickler calls whatever the file names. With a whitelist it still allocates 64 GiB for a memo index of
2^32, hashes nested tuples without end, and can set attributes of an admitted function (docs/decisions.md). Here
a name outside the caller's table or an opcode outside `OPCODES` ends the reading. No code is imported or called on the
file's behalf, every step consumes bytes, and memory stays proportional to the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

_STOP = ord(".")
DAMAGES = (IndexError, KeyError, TypeError, struct.error, OverflowError, UnicodeDecodeError)
ATOMS = (int, str, bytes, float, bool, type(None))


def interpret(content: bytes, constructors: Constructors, more: Mapping[int, Action] | None = None) -> Any:
    """The value of the program: plain values, and the notes that `constructors` made for the names in the file.

    Args:
        content: the pickle.
        constructors: the names that it may use.
        more: opcodes beyond those of this file.

    Raises:
        ValueError: for a name or an opcode outside the tables, before anything of it is made.
    """
    machine = Machine(content, constructors)
    try:
        return machine.run(OPCODES | dict(more or {}))
    except DAMAGES as error:
        raise ValueError(f"it is damaged ({type(error).__name__} at byte {machine.position}).") from None


class Name(NamedTuple):
    """A global that the file names: a key of a reader's table, never looked up anywhere else."""

    module: str
    name: str


@runtime_checkable
class Stateful(Protocol):
    """A note that accepts the state which the file has after the name of the object."""

    def set_state(self, state: Any) -> None: ...


@dataclass
class Machine:
    """The state of the pickle machine: position, stack, marks and memo.

    `constructors` are the names that the program may use: (module, name) -> a function of ours that REDUCE calls, or a
    class of ours that NEWOBJ makes an empty instance of and whose state BUILD sets.
    """

    content: bytes
    constructors: Constructors
    position: int = 0
    stack: list[Any] = field(default_factory=list)
    marks: list[list[Any]] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self, opcodes: Mapping[int, Action]) -> Any:
        """The one value that the program leaves on the stack."""
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

    def read(self, count: int) -> bytes:
        """The next `count` bytes."""
        end = self.position + count
        if end > len(self.content):
            raise ValueError(f"it ends early: {count} bytes are announced at byte {self.position}.")
        start, self.position = self.position, end
        return self.content[start:end]

    def unsigned(self, width: int) -> int:
        return int.from_bytes(self.read(width), "little")

    def signed(self, width: int) -> int:
        return int.from_bytes(self.read(width), "little", signed=True)

    def line(self) -> str:
        end = self.content.find(b"\n", self.position)
        if end < 0:
            raise ValueError(f"it ends early: a line begins at byte {self.position}.")
        return self.read(end + 1 - self.position)[:-1].decode("ascii")

    def pop(self, count: int) -> list[Any]:
        """The last `count` values, in the order in which they were pushed."""
        if count > len(self.stack):
            raise ValueError("it pops from an empty stack.")
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items


Action: TypeAlias = Callable[[Machine], Any]
Constructors: TypeAlias = Mapping[tuple[str, str], Callable[..., Any]]


def refuse_call(*arguments: Any) -> Any:
    """The constructor of a name that may be an argument of another, and is never called itself."""
    raise ValueError("a class is called where it may only be named.")


def default_dictionary(kind: str) -> Callable[..., dict]:
    """The constructor of a `defaultdict` of lists or dictionaries, which is read as a plain dictionary."""

    def construct(factory: Any) -> dict:
        if type(factory) is not Name or factory.name != kind:
            raise ValueError(f"a defaultdict must make {kind}s.")
        return {}

    return construct


def _mark(machine: Machine) -> None:
    machine.marks.append(machine.stack)
    machine.stack = []


def _append(machine: Machine, items: list[Any]) -> None:
    _last(machine, list).extend(items)


def _set(machine: Machine, items: list[Any]) -> None:
    target = _last(machine, dict)
    if len(items) % 2:
        raise ValueError("a dictionary has a key without a value.")
    for key, value in zip(items[::2], items[1::2]):
        _check_key(key)
        target[key] = value


def _last(machine: Machine, kind: type) -> Any:
    if type(machine.stack[-1]) is not kind:
        raise ValueError(f"items are put into a {type(machine.stack[-1]).__name__}, not a {kind.__name__}.")
    return machine.stack[-1]


def _check_key(key: Any) -> None:
    parts = key if type(key) is tuple else (key,)  # an edge type of PyG is three words
    wrong = next((part for part in parts if type(part) not in ATOMS), None)
    if wrong is not None:  # not hashed: tuples may nest without end
        raise ValueError(f"a dictionary's keys must be numbers or text. Got {type(wrong).__name__}.")


def _push(value_of: Callable[[Machine], Any]) -> Action:
    def push(machine: Machine) -> None:
        value = value_of(machine)
        machine.stack.append(value)

    return push


def _put(index_of: Callable[[Machine], int]) -> Action:
    def put(machine: Machine) -> None:
        machine.memo[index_of(machine)] = machine.stack[-1]

    return put


def _name(machine: Machine, module: Any, name: Any) -> Name:
    if type(module) is not str or type(name) is not str:  # neither hashed nor printed: tuples may nest without end
        raise ValueError("a name must be text.")
    if (module, name) not in machine.constructors:
        raise ValueError(f"the name {f'{module}.{name}'[:100]} is not admitted.")
    return Name(module, name)


def _reduce(machine: Machine) -> Any:
    name, arguments = machine.pop(2)
    if type(name) is not Name or type(arguments) is not tuple:
        raise ValueError("it calls something that is not an admitted constructor.")
    constructor = machine.constructors[name]
    return refuse_call() if isinstance(constructor, type) else constructor(*arguments)


def _new_object(machine: Machine) -> Any:
    name, arguments = machine.pop(2)
    constructor = machine.constructors[name] if type(name) is Name else None
    if not isinstance(constructor, type) or arguments != ():
        raise ValueError("it makes an object that is not an empty one of an admitted class.")
    return constructor()


def _build(machine: Machine) -> None:
    state, target = machine.stack.pop(), machine.stack[-1]
    if not isinstance(target, Stateful):
        raise ValueError(f"it sets the state of a {type(target).__name__}.")
    target.set_state(state)


OPCODES: dict[int, Action] = {
    ord(code): action
    for code, action in {
        "\x80": lambda machine: machine.read(1),  # PROTO
        "\x95": lambda machine: machine.read(8),  # FRAME
        "(": _mark,
        "]": _push(lambda machine: []),
        "}": _push(lambda machine: {}),
        ")": _push(lambda machine: ()),
        "N": _push(lambda machine: None),
        "\x88": _push(lambda machine: True),
        "\x89": _push(lambda machine: False),
        "K": _push(lambda machine: machine.unsigned(1)),
        "M": _push(lambda machine: machine.unsigned(2)),
        "J": _push(lambda machine: machine.signed(4)),
        "\x8a": _push(lambda machine: machine.signed(machine.unsigned(1))),
        "G": _push(lambda machine: struct.unpack(">d", machine.read(8))[0]),
        "U": _push(lambda machine: machine.read(machine.unsigned(1))),  # Python 2's text stays bytes
        "T": _push(lambda machine: machine.read(machine.unsigned(4))),
        "C": _push(lambda machine: machine.read(machine.unsigned(1))),
        "B": _push(lambda machine: machine.read(machine.unsigned(4))),
        "\x96": _push(lambda machine: machine.read(machine.unsigned(8))),
        "\x8c": _push(lambda machine: machine.read(machine.unsigned(1)).decode()),
        "X": _push(lambda machine: machine.read(machine.unsigned(4)).decode()),
        "a": lambda machine: _append(machine, machine.pop(1)),
        "e": lambda machine: _append(machine, machine.pop_mark()),
        "s": lambda machine: _set(machine, machine.pop(2)),
        "u": lambda machine: _set(machine, machine.pop_mark()),
        "\x85": _push(lambda machine: tuple(machine.pop(1))),
        "\x86": _push(lambda machine: tuple(machine.pop(2))),
        "\x87": _push(lambda machine: tuple(machine.pop(3))),
        "t": _push(lambda machine: tuple(machine.pop_mark())),
        "q": _put(lambda machine: machine.unsigned(1)),
        "r": _put(lambda machine: machine.unsigned(4)),
        "\x94": _put(lambda machine: len(machine.memo)),
        "h": _push(lambda machine: machine.memo[machine.unsigned(1)]),
        "j": _push(lambda machine: machine.memo[machine.unsigned(4)]),
        "c": _push(lambda machine: _name(machine, machine.line(), machine.line())),
        "\x93": _push(lambda machine: _name(machine, *machine.pop(2))),
        "R": _push(_reduce),
        "\x81": _push(_new_object),
        "b": _build,
    }.items()
}
