"""Reader of the pickles that CIFAR comes in, which executes nothing.

A pickle is a program: opcodes that push values, and two (``REDUCE`` and ``BUILD``) that call what
the file names. This reader walks over the opcodes and interprets the few that the CIFAR files
need with plain values of its own. Nothing that a file names is ever looked up or called: the
names of numpy's two constructors are compared as text, and the array is made here from checked
bytes. Any other opcode or name is refused.
"""

import io
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError

# 50,000 images with two labels and a name each, CIFAR's largest file, stay well below this.
_MOST_OPCODES = 2_000_000
_ARRAY = {
    "numpy.core.multiarray _reconstruct",
    "numpy._core.multiarray _reconstruct",
}
_DTYPE = "numpy dtype"
_CLASS = "numpy ndarray"


@dataclass(frozen=True)
class _Name:
    """A name that the file mentions; only compared, never looked up."""

    text: str


@dataclass
class _Made:
    """What a call of one of the known names stands for."""

    what: str
    array: NDArray[np.uint8] | None = None


def read_pickled_arrays(content: bytes, where: str) -> dict[str, Any]:
    """Return the dictionary that a pickle of plain values and byte arrays holds.

    Values are text, integers, None, booleans, lists, tuples, dictionaries and uint8 arrays.
    """
    try:
        result = _Machine(where).run(content)
    except InputError:
        raise
    except (
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        AttributeError,
        OverflowError,
        MemoryError,
    ) as error:
        raise InputError(
            f"{where}: not a whole CIFAR pickle ({type(error).__name__}: {error}). Copy it again."
        ) from error
    if not isinstance(result, dict):
        raise InputError(f"{where}: the pickle holds {type(result).__name__}, not a dictionary.")
    return {str(key): _plain(value, where) for key, value in result.items()}


def _plain(value: Any, where: str) -> Any:
    """Unwrap an array; refuse one that was begun and not filled."""
    if isinstance(value, _Made):
        if value.array is None:
            raise InputError(f"{where}: the pickle holds an array without its bytes.")
        return value.array
    return value


class _Machine:
    """The stack and the memo of a pickle, with plain values on them."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """Interpret opcodes up to the end."""
        for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(content))):
            if count > _MOST_OPCODES:
                raise InputError(f"{self._where}: too many opcodes for a CIFAR pickle.")
            name = opcode.name
            if name == "STOP":
                return self._stack.pop()
            if name in _PUSHES:
                self._stack.append(argument)
            elif name in _NEW:
                self._stack.append(_NEW[name]())
            elif name in _ACTIONS:
                _ACTIONS[name](self, argument)
            else:
                self._refuse(f"the opcode {name}")
        raise InputError(f"{self._where}: the pickle has no end. Is it cut off?")

    def _refuse(self, what: str) -> None:
        raise InputError(
            f"{self._where}: the pickle uses {what}, which no CIFAR file does. Pickles can run "
            "any program, so that only the content of CIFAR files is read."
        )

    def remember(self, place: int | None) -> None:
        """Keep the top of the stack."""
        self._memo[len(self._memo) if place is None else place] = self._stack[-1]

    def recall(self, place: int) -> None:
        """Push what was kept."""
        self._stack.append(self._memo[place])

    def name(self, text: str | None) -> None:
        """Push a name, if it is one of the three."""
        if text is None:
            module, attribute = self.last(2)
            if not isinstance(module, str) or not isinstance(attribute, str):
                raise TypeError("a name that is no text")
            text = f"{module} {attribute}"
        if text not in {*_ARRAY, _DTYPE, _CLASS}:
            self._refuse(f"the name {text[:80]!r}")
        self._stack.append(_Name(text))

    def since_mark(self) -> list[Any]:
        """Pop everything above the last mark."""
        place = self._marks.pop()
        items = self._stack[place:]
        del self._stack[place:]
        return items

    def mark(self) -> None:
        """Remember how high the stack is."""
        self._marks.append(len(self._stack))

    def last(self, count: int) -> list[Any]:
        """Pop the last items."""
        items = self._stack[-count:]
        if len(items) < count:
            raise IndexError("the stack is too short")
        del self._stack[-count:]
        return items

    def pack(self, size: int | None) -> None:
        """Make a tuple of the last items."""
        self._stack.append(tuple(self.since_mark() if size is None else self.last(size)))

    def extend(self, items: list[Any]) -> None:
        """Append to the list below."""
        target = self._stack[-1]
        if not isinstance(target, list):
            raise TypeError("items for what is no list")
        target.extend(items)

    def update(self, items: list[Any]) -> None:
        """Put pairs into the dictionary below."""
        target = self._stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise TypeError("pairs for what is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes):
                raise TypeError("a key that is no text")
            target[key.decode("latin-1") if isinstance(key, bytes) else key] = value

    def reduce(self) -> None:
        """Note that one of the known names would be called; nothing is."""
        called, arguments = self.last(2)
        if not isinstance(called, _Name) or not isinstance(arguments, tuple):
            raise TypeError("a call of what is no name")
        if called.text in _ARRAY:
            self._stack.append(_Made("array"))
        elif called.text == _DTYPE and arguments and arguments[0] in ("u1", "|u1", b"u1"):
            self._stack.append(_Made("uint8"))
        else:
            self._refuse(f"{called.text} of other numbers than bytes")

    def build(self) -> None:
        """Fill an array with its bytes; the state of a type says nothing new."""
        state, target = self._stack.pop(), self._stack[-1]
        if not isinstance(target, _Made) or not isinstance(state, tuple):
            raise TypeError("a state for what has none")
        if target.what == "uint8":
            return
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _Made) or dtype.what != "uint8":
            raise TypeError("an array of other numbers than bytes")
        raw = content.encode("latin-1") if isinstance(content, str) else content
        if not isinstance(raw, bytes) or not all(type(n) is int and n >= 0 for n in shape):
            raise TypeError("an array without bytes or shape")
        target.array = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


_PUSHES = {
    "BININT",
    "BININT1",
    "BININT2",
    "BINSTRING",
    "SHORT_BINSTRING",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINBYTES",
    "SHORT_BINBYTES",
    "BINBYTES8",
}
_NEW: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda *_: None,
    "FRAME": lambda *_: None,
    "MARK": lambda machine, _: machine.mark(),
    "BINPUT": lambda machine, place: machine.remember(place),
    "LONG_BINPUT": lambda machine, place: machine.remember(place),
    "MEMOIZE": lambda machine, _: machine.remember(None),
    "BINGET": lambda machine, place: machine.recall(place),
    "LONG_BINGET": lambda machine, place: machine.recall(place),
    "GLOBAL": lambda machine, text: machine.name(text),
    "STACK_GLOBAL": lambda machine, _: machine.name(None),
    "TUPLE": lambda machine, _: machine.pack(None),
    "TUPLE1": lambda machine, _: machine.pack(1),
    "TUPLE2": lambda machine, _: machine.pack(2),
    "TUPLE3": lambda machine, _: machine.pack(3),
    "APPEND": lambda machine, _: machine.extend(machine.last(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.update(machine.last(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.since_mark()),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}
