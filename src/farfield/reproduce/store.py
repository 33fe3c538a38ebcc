"""Keep the results of steps, each in one file that appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from farfield.archive import Shapes, read_archive, write_archive
from farfield.errors import InputError
from farfield.reproduce.experiment import Result, Stage

# What the header of a file is called, which keeps everything that is not an array.
KEY = "farfield.step"


def settings_hash(experiment: str, step: Stage) -> str:
    """Fingerprint what a result depends on.

    >>> one, other = Stage("a", {"n": 1}, dict), Stage("a", {"n": 2}, dict)
    >>> settings_hash("x", one) == settings_hash("x", other), len(settings_hash("x", one))
    (False, 12)
    """
    text = json.dumps([experiment, step.name, step.settings], sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Store:
    """Results of one experiment's steps in a folder.

    Args:
        folder: Where the files are.
        experiment: The experiment's name, part of every fingerprint.
    """

    def __init__(self, folder: Path, experiment: str) -> None:
        self._folder = folder
        self._experiment = experiment

    def path(self, step: Stage) -> Path:
        """Where the result of a step is kept."""
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", step.name).strip("-")
        return self._folder / f"{slug}-{settings_hash(self._experiment, step)}.safetensors"

    def load(self, step: Stage) -> Result | None:
        """Return a kept result, or None if there is none that can be read."""
        try:
            plain, tensors = read_archive(self.path(step), _as_written, KEY)
        except InputError:
            # Not there, or damaged: then the step is simply done again.
            return None
        return {**plain, **{name: tensor.numpy() for name, tensor in tensors.items()}}

    def save(self, step: Stage, result: Mapping[str, Any]) -> None:
        """Keep a result: arrays as they are, everything else as JSON."""
        arrays = {name: value for name, value in result.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in result.items() if name not in arrays}
        tensors = {name: torch.from_numpy(value.copy()) for name, value in arrays.items()}
        write_archive(self.path(step), tensors, json.dumps(plain, default=_plain), KEY)


def _as_written(header: Any, _: Shapes) -> Result:
    if not isinstance(header, dict):
        raise InputError("a step's results are named")
    return header


def _plain(value: Any) -> Any:
    """Turn numpy numbers and paths into what JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a step's settings and results must be plain data, got {type(value).__name__}")
