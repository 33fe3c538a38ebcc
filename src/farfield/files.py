"""Write files whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from farfield.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path`` that takes its place when the block succeeds.

    The folder is made if need be. If the block fails, or is interrupted, nothing is left behind
    and a file that was there before stays as it was.

    Raises:
        InputError: If the folder cannot be written to, or ``path`` is a folder.
    """
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; name a file in it")
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; choose a place that can be written to"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
