"""Reader of numpy's .npy format; never unpickles, and trusts no size it has not checked."""

import ast
import math
import os
import re
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from farfield.budget import Budget, allowance
from farfield.datasets.content import exactly, opened
from farfield.errors import InputError

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000
_PLAIN = re.compile(r"[<>|=]?([?biufc]\d{0,2}|[US]\d{1,6})")


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read a .npy file of numbers or text.

    Raises:
        InputError: A file that is cut off or damaged, or an array of Python objects.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "x.npy", np.eye(2, dtype=np.int8))
    ...     read_npy(Path(folder) / "x.npy").tolist()
    [[1, 0], [0, 1]]
    """
    with opened(path) as file:
        budget = Budget(allowance(Path(path).stat().st_size))
        return parse_npy(file, Path(path).name, budget)


def parse_npy(file: IO[bytes], where: str, budget: Budget, size: int | None = None) -> NDArray[Any]:
    """Read an array from an open file; ``size`` is that of the whole file, where it is known."""
    start = file.read(8)
    if start[:6] != _MAGIC or len(start) < 8 or start[6] not in (1, 2):
        raise InputError(f"{where}: not a numpy .npy array (it starts with {bytes(start)!r}).")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > _LONGEST_HEADER:
        raise InputError(f"{where}: the .npy header is {length:,} bytes long. Is it damaged?")
    dtype, fortran, shape = _parse_header(file.read(length), where)
    count = math.prod(shape)
    what = f"{dtype} numbers of shape {shape}"
    promised = count * dtype.itemsize
    if size is not None and size != 8 + width + length + promised:
        raise InputError(
            f"{where}: {what} take {promised:,} bytes, but the archive holds {size:,}. Is it "
            "damaged?"
        )
    # Whole numbers of one byte become floats of eight.
    budget.spend(count * max(8, dtype.itemsize), f"{where}: {what}, as floats,")
    content = exactly(file, promised, where, what)
    try:
        array = np.frombuffer(content, dtype=dtype, count=count) if promised else np.empty(0, dtype)
        return array.reshape(shape, order="F" if fortran else "C")
    except ValueError as error:
        raise InputError(f"{where}: {what} cannot be laid out: {error}.") from error


def _parse_header(text: bytes, where: str) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    """Read the description of an array, which is a Python literal."""
    try:
        header = ast.literal_eval(text.decode("latin-1").strip())
        code, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise InputError(f"{where}: the .npy header cannot be read. Is it damaged?") from error
    if not isinstance(code, str) or not _PLAIN.fullmatch(code):
        raise InputError(
            f"{where}: an array of type {code!r:.60}; numbers and text can be read. Arrays of "
            "Python objects are never loaded."
        )
    try:
        dtype = np.dtype(code)
    except TypeError as error:
        raise InputError(f"{where}: unknown type {code!r:.60} in the .npy header.") from error
    good = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not good or not isinstance(fortran, bool) or len(shape) > 8:
        raise InputError(f"{where}: the .npy header gives the shape {shape!r:.60}. Is it damaged?")
    return dtype, fortran, shape
