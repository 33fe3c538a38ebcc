"""Checkpoints of a training: one safetensors file with JSON in its header, written whole."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from farfield.errors import InputError
from farfield.files import replacing

KEY = "farfield-checkpoint"


def write_checkpoint(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Replace the checkpoint; one that was there stays until the new one is complete."""
    own = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        temporary.write_bytes(to_bytes(own, metadata={KEY: json.dumps(header)}))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the header of a checkpoint.

    Raises:
        InputError: If the file is damaged, or not a checkpoint.
    """
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            text = (file.metadata() or {}).get(KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if text is None:
            raise InputError(
                f"{path} is a safetensors file, but not a checkpoint of a training; give another "
                "path, or remove it"
            )
        header = json.loads(text)
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not a checkpoint, or it is damaged: {error}; remove it to start anew"
        ) from error
    if not isinstance(header, dict):
        raise InputError(f"{path} is not a checkpoint: its header is no JSON object; remove it")
    return tensors, header
