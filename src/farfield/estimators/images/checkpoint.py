"""Checkpoints of a training: its tensors, and how far it has come."""

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from farfield.archive import Shapes, read_archive, write_archive
from farfield.errors import InputError

KEY = "farfield-checkpoint"
WHAT = "a checkpoint of a training"
ADVICE = "; give another path, or remove it to start anew"


def write_checkpoint(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Replace the checkpoint; one that was there stays until the new one is complete."""
    write_archive(path, tensors, json.dumps(header), KEY)


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the header of a checkpoint.

    Raises:
        InputError: If the file is damaged, or not a checkpoint.
    """
    header, tensors = read_archive(path, _checked, KEY, WHAT, ADVICE)
    return tensors, header


def _checked(header: Any, shapes: Shapes) -> dict[str, Any]:  # noqa: ARG001 - any will do
    if not isinstance(header, dict):
        raise InputError(f"it is not {WHAT}: its header is no JSON object{ADVICE}")
    return header
