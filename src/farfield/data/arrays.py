"""Readers of numpy's .npy and .npz formats; they never unpickle, and trust no size unchecked.

numpy's own readers take the memory that a header promises before they look whether it is there.
"""

import ast
import errno
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from farfield.budget import Budget, allowance
from farfield.data.content import MOST_BYTES, exactly, impossible, opened, too_large
from farfield.errors import InputError
from farfield.files import regular

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000
_PLAIN = re.compile(r"[<>|=]?([?biufc]\d{0,2}|[US]\d{1,6})")


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read a .npy file of numbers or text.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "x.npy", np.eye(2, dtype=np.int8))
    ...     read_npy(Path(folder) / "x.npy").tolist()
    [[1, 0], [0, 1]]
    """
    with opened(path) as file:
        budget = Budget(allowance(Path(path).stat().st_size))
        return _parse_npy(file, Path(path).name, budget)


def load_arrays(
    path: str | os.PathLike[str], needed: Sequence[str], *optional: str
) -> dict[str, NDArray[Any]]:
    """Load arrays of an .npz archive by name, refusing pickles and damaged files."""
    where = Path(path).name
    with _archive(path) as archive:
        names = _array_names(archive)
        absent = [name for name in needed if name not in names]
        if absent:
            raise InputError(f"{where}: no array {absent}. The arrays are {names}.")
        wanted = [*needed, *(name for name in optional if name in names)]
        budget = Budget(allowance(Path(path).stat().st_size))
        return {name: _load(archive, f"{name}.npy", where, budget) for name in wanted}


def array_names(path: str | os.PathLike[str]) -> list[str]:
    """List the arrays of an .npz archive."""
    with _archive(path) as archive:
        return _array_names(archive)


def _array_names(archive: zipfile.ZipFile) -> list[str]:
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


@contextmanager
def _archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """Open an archive; what is wrong with it becomes our error."""
    where = Path(path).name
    try:
        with regular(path).open("rb") as file:
            _check_start(file.read(6), where)
            with zipfile.ZipFile(file) as archive:
                yield archive
    except InputError:
        raise
    except (
        OSError,
        EOFError,
        ValueError,
        OverflowError,
        RuntimeError,
        struct.error,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        if isinstance(error, OSError) and error.strerror and error.errno != errno.EINVAL:
            raise InputError(f"cannot read {path}: {error.strerror}.") from error
        raise InputError(
            f"{where}: not a whole .npz file of plain arrays: {error}. Copy it again, or save it "
            "with numpy.savez."
        ) from error


def _check_start(start: bytes, where: str) -> None:
    """Tell a bare array from an archive."""
    if start == b"\x93NUMPY":
        raise InputError(f"{where}: one bare array, not an .npz archive. Use numpy.savez.")


def _load(archive: zipfile.ZipFile, name: str, where: str, budget: Budget) -> NDArray[Any]:
    """Load one array, its promises checked before anything is allocated."""
    info = archive.getinfo(name)
    here = f"{where}: array {name.removesuffix('.npy')!r}"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{here} is compressed in a way that numpy does not use.")
    if info.file_size > MOST_BYTES:
        raise InputError(f"{here}: {too_large(info.file_size)}")
    if impossible(info.compress_size, info.file_size):
        raise InputError(
            f"{here}: {info.compress_size:,} bytes cannot hold the {info.file_size:,} that are "
            "promised. Is the file damaged?"
        )
    with archive.open(info) as file:
        return _parse_npy(file, here, budget, info.file_size)


def _parse_npy(
    file: IO[bytes], where: str, budget: Budget, size: int | None = None
) -> NDArray[Any]:
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
