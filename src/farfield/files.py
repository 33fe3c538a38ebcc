"""Files are written whole or not at all, and only regular files are read or replaced.

A device, a FIFO or a socket is neither: reading one may never end, and replacing one destroys it.
A symbolic link is followed for reading but never written to, since what would be replaced is not
what was named; a folder on the way may be a link.

What is being written lies beside its place under a temporary name. If the process is killed, it
stays there; whoever writes to that folder next removes it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from farfield.errors import InputError

KINDS = {
    stat.S_IFDIR: "a folder; name a file in it",
    stat.S_IFLNK: "a symbolic link; name the file that it leads to, or remove it",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
    stat.S_IFIFO: "a pipe (FIFO), not a file",
    stat.S_IFSOCK: "a socket, not a file",
}
# Which machine a process number belongs to: folders may be shared.
MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:6]
TEMPORARY = re.compile(r"\..*\.farfield-([0-9a-f]{6})-(\d{1,9})-[0-9a-f]{8}(\.[^.]*)?")


def regular(path: str | os.PathLike[str]) -> Path:
    """Give ``path`` back if it can be read as a file that ends.

    Raises:
        InputError: If nothing is there, or a folder, a device, a pipe or a socket.

    >>> regular("/dev/zero")
    Traceback (most recent call last):
    farfield.errors.InputError: cannot read /dev/zero: it is a device, not a file
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {os.fspath(path)}: {reason}") from error
    if not stat.S_ISREG(mode):
        raise InputError(f"cannot read {os.fspath(path)}: it is {KINDS[stat.S_IFMT(mode)]}")
    return Path(path)


def writable(path: Path) -> Path:
    """Give ``path`` back if a file may be put there: asked before long work, not after it.

    Raises:
        InputError: If something that is not a regular file is there, or the nearest folder that
            exists may not be written to.

    >>> writable(Path("/dev/null"))
    Traceback (most recent call last):
    farfield.errors.InputError: cannot write /dev/null: it is a device, not a file
    """
    _check_place(path)
    nearest = next(each for each in path.absolute().parents if each.exists())
    if not nearest.is_dir():
        raise _unwritable(path, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
    if not os.access(nearest, os.W_OK):
        raise _unwritable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path`` that takes its place when the block succeeds.

    The folder is made if need be. If the block fails, or is interrupted, nothing is left behind
    and a file that was there before stays as it was.

    Raises:
        InputError: If the folder cannot be written to, or something that is not a regular file is
            at ``path``.
    """
    mark = f"farfield-{MACHINE}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = path.with_name(f".{path.stem[:80]}.{mark}{path.suffix[:20]}")
    _check_place(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_orphans(path.parent.resolve())
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _check_place(path: Path) -> None:
    """Refuse to replace anything but a regular file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise _unwritable(path, error) from error
    if not stat.S_ISREG(mode):
        raise InputError(f"cannot write {path}: it is {KINDS[stat.S_IFMT(mode)]}")


def _unwritable(path: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or error
    return InputError(f"cannot write {path}: {reason}; choose a place that can be written to")


@cache
def _remove_orphans(folder: Path) -> None:
    """Remove, once for each folder, what killed processes of ours left behind."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = TEMPORARY.fullmatch(entry.name)
            if found is None or found[1] != MACHINE or alive(int(found[2])):
                continue
            with suppress(OSError):
                if entry.is_file(follow_symlinks=False) and _own(entry):
                    Path(entry.path).unlink()


def _own(entry: os.DirEntry[str]) -> bool:
    """Whether a file belongs to whoever runs this process."""
    return not hasattr(os, "getuid") or entry.stat(follow_symlinks=False).st_uid == os.getuid()


def alive(process: int) -> bool:
    """Whether there is a process of this number; yes where that cannot be known."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is someone else's
        return True
    return True
