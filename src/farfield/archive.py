"""One file of tensors with JSON in its header, written whole: safetensors, no pickle.

Estimators, guards and checkpoints of a training share it; each says what its header must be. That
is checked, together with the shapes of all tensors, before any tensor is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from farfield.errors import InputError
from farfield.files import regular, replacing

KEY = "farfield"
Shapes = dict[str, tuple[int, ...]]
Header = TypeVar("Header")


def write_archive(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], header: str, key: str = KEY
) -> None:
    """Replace a file; one that was there stays until the new one is complete.

    Args:
        path: Where to.
        tensors: What to keep; on any device, of any strides.
        header: JSON.
        key: What the header is called: which kind of file it is.
    """
    own = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    data = to_bytes(own, metadata={key: header})
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(data)


def read_archive(
    path: str | os.PathLike[str],
    check: Callable[[Any, Shapes], Header],
    key: str = KEY,
    what: str = "a farfield file",
    advice: str = "",
) -> tuple[Header, dict[str, Tensor]]:
    """Read a file that :func:`write_archive` wrote.

    Args:
        path: The file.
        check: Given the header and the shapes of all tensors, says what the header means; raises
            if that cannot be. Nothing else is read before.
        key: What the header is called.
        what: What the file should be, for messages.
        advice: What to do if it is not that.

    Raises:
        InputError: If there is no such file, or it is damaged, or something else.
    """
    where = os.fspath(path)
    regular(path)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            text = (file.metadata() or {}).get(key)
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            if text is not None:
                header = check(json.loads(text), shapes)
                return header, {name: file.get_tensor(name) for name in shapes}
    except InputError:
        raise
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"{where!r} is not {what}, or it is damaged: {error}{advice}") from error
    raise InputError(
        f"{where!r} is a safetensors file, but not {what}: its header has no {key!r} entry{advice}"
    )


def header_of(path: str | os.PathLike[str], key: str = KEY) -> Any:
    """The header of a file, not checked; ``None`` if it is no file of this kind."""
    if not Path(path).is_file():
        return None
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return json.loads((file.metadata() or {}).get(key, "null"))
    except (SafetensorError, OSError, ValueError, RecursionError):
        return None
