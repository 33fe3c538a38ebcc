"""What a file is, told from its first bytes, and its content in bounded memory."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, cast

from farfield.budget import Budget, allowance
from farfield.errors import InputError
from farfield.files import regular

Format = Literal["csv", "parquet", "npz", "npy", "idx", "pickle"]

MOST_BYTES = 4 << 30
"""Readers that hold a whole file in memory refuse larger ones."""

GZIP = b"\x1f\x8b"
_FORMATS: dict[bytes, Format] = {
    b"PAR1": "parquet",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    b"\x93NUMPY": "npy",
    b"\x80\x02": "pickle",
    b"\x80\x03": "pickle",
    b"\x80\x04": "pickle",
    b"\x80\x05": "pickle",
}
_UNREADABLE = {
    b"\xff\xfe": "text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8",
    b"BZh": "compressed with bzip2; decompress it, or use gzip",
    b"\xfd7zXZ": "compressed with xz; decompress it, or use gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstandard; decompress it, or use gzip",
    b"\x89PNG": "a single picture; collect pictures in one array and save it with numpy.savez",
    b"\xff\xd8\xff": "a single picture; collect pictures in one array and save it with numpy.savez",
    b"\x89HDF": "an HDF5 file; save the table as parquet or CSV",
    b"\xd0\xcf\x11\xe0": "an Excel file of the older kind; save the sheet as CSV (UTF-8)",
}
# How the first member of a spreadsheet's zip archive is called, from its byte 30 on.
_SHEETS = (
    b"[Content_Types].xml",
    b"_rels/",
    b"docProps/",
    b"xl/",
    b"mimetypeapplication/vnd.oasis",
)
# Deflate cannot make data more than 1,032 times smaller, so that larger promises are false.
_DEFLATE = 1032


def detect(path: str | os.PathLike[str]) -> Format:
    """Tell the format of a file from its content, whatever its name; text counts as CSV."""
    where = Path(path).name
    with opened(path) as file:
        start = file.read(64)
    if not start:
        raise InputError(f"{where}: the file is empty. Check that it was copied completely.")
    for magic, what in _UNREADABLE.items():
        if start.startswith(magic):
            raise InputError(f"{where}: this is {what}.")
    if start.startswith(b"PK") and start[30:].startswith(_SHEETS):
        raise InputError(f"{where}: this is a spreadsheet; save the sheet as CSV (UTF-8).")
    if start[:2] == b"\0\0" and len(start) >= 4 and start[2] in range(0x08, 0x0F):
        return "idx"
    for magic, name in _FORMATS.items():
        if start.startswith(magic):
            return name
    return "csv"


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed if its content says gzip; its errors are ours."""
    try:
        with regular(path).open("rb") as raw:
            compressed = raw.read(2) == GZIP
            raw.seek(0)
            if not compressed:
                yield raw
                return
            budget = Budget(allowance(raw.seek(0, os.SEEK_END)))
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) as plain:
                yield cast(IO[bytes], Unpacked(plain, budget, Path(path).name))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{Path(path).name}: the gzip file is cut off or damaged ({error}). Copy it again."
        ) from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error


class Unpacked:
    """What comes out of a compressed file, as far as its size allows."""

    def __init__(self, file: gzip.GzipFile, budget: Budget, where: str) -> None:
        self._file, self._budget, self._where = file, budget, where

    def read(self, size: int = -1) -> bytes:
        """The next ``size`` bytes, or the next few of all that are left; none at the end."""
        piece = self._file.read(size if size >= 0 else 1 << 24)
        self._budget.spend(len(piece), f"{self._where}: the gzip file")
        return piece


def whole(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file, decompressed, at most `MOST_BYTES` of it."""
    where = Path(path).name
    with opened(path) as file:
        pieces, size = [], 0
        # Piece by piece: one large read would reserve its memory at once.
        while piece := file.read(1 << 24):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise InputError(f"{where}: {too_large(size)}")
    if not size:
        raise InputError(f"{where}: the file is empty. Check that it was copied completely.")
    return b"".join(pieces)


def exactly(file: IO[bytes], size: int, where: str, what: str) -> bytearray:
    """Read the bytes that a header promises, no more and no fewer, up to the end of the file."""
    if size > MOST_BYTES:
        raise InputError(f"{where}: {what} are promised; {too_large(size)}")
    content = bytearray()
    while len(content) <= size and (piece := file.read(min(1 << 24, size + 1 - len(content)))):
        content += piece
    if len(content) != size:
        found = "more" if len(content) > size else f"{len(content):,}"
        raise InputError(
            f"{where}: {what} are promised, {size:,} bytes, but {found} follow. Is the file cut "
            "off, or changed?"
        )
    return content


def too_large(size: int) -> str:
    """Say that a file is too large for a reader that holds all of it."""
    return (
        f"more than {MOST_BYTES >> 30} GiB ({size:,} bytes or more), too much to load whole. "
        "Take fewer rows; audits read tables in parquet piece by piece."
    )


def impossible(packed: int, size: int) -> bool:
    """Tell whether ``packed`` bytes can never hold ``size`` bytes: the mark of a false promise."""
    return size > _DEFLATE * (packed + 1)
