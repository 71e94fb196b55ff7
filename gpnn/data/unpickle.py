"""A reader of pickles that can build numbers, arrays and sparse matrices, and run nothing.

Python's own unpickler calls whatever the file names. This one interprets the opcodes that such files hold and
knows a handful of constructors, all its own: a name outside the table of its reader, an opcode outside the table, an
array of objects or an index out of range ends the reading. No code is imported or called on the file's behalf, so
there is no payload to run. Every step consumes bytes and arrays are made once, at the end, so that memory stays
proportional to the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpnn.data.constructors import CONSTRUCTORS, Name, Stateful, finish
from gpnn.data.pickle_machine import Action, Constructors, Machine

MAX_BYTES = 1 << 28  # the largest file of the Planetoid family has 7.6 MB
DAMAGES = (IndexError, KeyError, TypeError, struct.error, OverflowError, UnicodeDecodeError)
ATOMS = (int, str, bytes, float, bool, type(None))


def read_pickle(path: str | Path, max_bytes: int = MAX_BYTES) -> Any:
    """The dictionary, array or sparse matrix that a Planetoid pickle holds.

    Args:
        path: the file; Python 2's protocol 2 up to today's protocol 5.
        max_bytes: the largest file that is read.

    Raises:
        ValueError: when the file holds anything but numbers, lists, dictionaries, numpy arrays of numbers and
            scipy CSR matrices.
    """
    path = Path(path)
    size = path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"{path.name} must have at most {max_bytes} bytes. Got {size}.")
    try:
        return read_pickle_bytes(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path.name} was refused: {error}") from None


def read_pickle_bytes(content: bytes) -> Any:
    """The same from bytes in memory.

    >>> import pickle
    >>> read_pickle_bytes(pickle.dumps({0: [1, 2]}))
    {0: [1, 2]}
    """
    try:
        return finish(interpret(content, CONSTRUCTORS))
    except DAMAGES as error:
        raise ValueError(f"it is damaged ({type(error).__name__}).") from None


def interpret(content: bytes, constructors: Constructors, more: Mapping[int, Action] | None = None) -> Any:
    """What the program leaves: plain values, and notes of what the file named, as `constructors` made them.

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


def _mark(machine: Machine) -> None:
    machine.marks.append(machine.stack)
    machine.stack = []


def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    _last(machine, list).append(value)


def _appends(machine: Machine) -> None:
    items = machine.since_mark()
    _last(machine, list).extend(items)


def _set_item(machine: Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _last(machine, dict)[_plain(key)] = value


def _set_items(machine: Machine) -> None:
    items = machine.since_mark()
    target = _last(machine, dict)
    if len(items) % 2:
        raise ValueError("a dictionary has a key without a value.")
    for key, value in zip(items[::2], items[1::2]):
        target[_plain(key)] = value


def _last(machine: Machine, kind: type) -> Any:
    if type(machine.stack[-1]) is not kind:
        raise ValueError(f"items are put into a {type(machine.stack[-1]).__name__}, not a {kind.__name__}.")
    return machine.stack[-1]


def _plain(key: Any) -> Any:
    parts = key if type(key) is tuple else (key,)  # an edge type of PyG is three words
    wrong = next((part for part in parts if type(part) not in ATOMS), None)
    if wrong is not None:
        raise ValueError(f"a dictionary's keys must be numbers or text. Got {type(wrong).__name__}.")
    return key


def _tuple(count: int) -> Action:
    def build(machine: Machine) -> None:
        start = len(machine.stack) - count
        if start < 0:
            raise ValueError("it takes from an empty stack.")
        machine.stack[start:] = [tuple(machine.stack[start:])]

    return build


def _tuple_since_mark(machine: Machine) -> None:
    items = machine.since_mark()
    machine.stack.append(tuple(items))


def _push(read: Callable[[Machine], Any]) -> Action:
    return lambda machine: machine.stack.append(read(machine))


def _put(read: Callable[[Machine], int]) -> Action:
    def put(machine: Machine) -> None:
        machine.memo[read(machine)] = machine.stack[-1]

    return put


def _global(machine: Machine) -> None:
    _push_name(machine, machine.line(), machine.line())


def _stack_global(machine: Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    _push_name(machine, module, name)


def _push_name(machine: Machine, module: Any, name: Any) -> None:
    if type(module) is not str or type(name) is not str:  # hash or print nothing else: tuples may nest without end
        raise ValueError("a name must be text.")
    if (module, name) not in machine.constructors:
        raise ValueError(f"the name {f'{module}.{name}'[:100]} is not admitted.")
    machine.stack.append(Name(module, name))


def _reduce(machine: Machine) -> None:
    arguments, name = machine.stack.pop(), machine.stack.pop()
    if type(name) is not Name or type(arguments) is not tuple:
        raise ValueError("it calls something that is not an admitted constructor.")
    constructor = machine.constructors[name]
    if isinstance(constructor, type):
        raise ValueError("a class is called where it may only be named.")
    machine.stack.append(constructor(*arguments))


def _new_object(machine: Machine) -> None:
    arguments, name = machine.stack.pop(), machine.stack.pop()
    constructor = machine.constructors[name] if type(name) is Name else None
    if not isinstance(constructor, type) or arguments != ():
        raise ValueError("it makes an object that is not an empty one of an admitted class.")
    machine.stack.append(constructor())


def _build(machine: Machine) -> None:
    state, target = machine.stack.pop(), machine.stack[-1]
    if not isinstance(target, Stateful):
        raise ValueError(f"it sets the state of a {type(target).__name__}.")
    target.set_state(state)


def _long(machine: Machine) -> int:
    return int.from_bytes(machine.take(machine.unsigned(1)), "little", signed=True)


OPCODES: dict[int, Action] = {
    ord(code): action
    for code, action in {
        "\x80": lambda machine: machine.take(1),  # PROTO
        "\x95": lambda machine: machine.take(8),  # FRAME
        "(": _mark,
        "]": _push(lambda machine: []),
        "}": _push(lambda machine: {}),
        ")": _push(lambda machine: ()),
        "N": _push(lambda machine: None),
        "\x88": _push(lambda machine: True),
        "\x89": _push(lambda machine: False),
        "K": _push(lambda machine: machine.unsigned(1)),
        "M": _push(lambda machine: machine.unsigned(2)),
        "J": _push(lambda machine: int.from_bytes(machine.take(4), "little", signed=True)),
        "\x8a": _push(_long),
        "G": _push(lambda machine: struct.unpack(">d", machine.take(8))[0]),
        "U": _push(lambda machine: machine.take(machine.unsigned(1))),  # Python 2's text stays bytes
        "T": _push(lambda machine: machine.take(machine.unsigned(4))),
        "C": _push(lambda machine: machine.take(machine.unsigned(1))),
        "B": _push(lambda machine: machine.take(machine.unsigned(4))),
        "\x96": _push(lambda machine: machine.take(machine.unsigned(8))),
        "\x8c": _push(lambda machine: machine.take(machine.unsigned(1)).decode()),
        "X": _push(lambda machine: machine.take(machine.unsigned(4)).decode()),
        "a": _append,
        "e": _appends,
        "s": _set_item,
        "u": _set_items,
        "\x85": _tuple(1),
        "\x86": _tuple(2),
        "\x87": _tuple(3),
        "t": _tuple_since_mark,
        "q": _put(lambda machine: machine.unsigned(1)),
        "r": _put(lambda machine: machine.unsigned(4)),
        "\x94": _put(lambda machine: len(machine.memo)),
        "h": _push(lambda machine: machine.memo[machine.unsigned(1)]),
        "j": _push(lambda machine: machine.memo[machine.unsigned(4)]),
        "c": _global,
        "\x93": _stack_global,
        "R": _reduce,
        "\x81": _new_object,
        "b": _build,
    }.items()
}
