"""What the user has at hand: the files of an audit, and commands that run with them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class AtHand:
    """The files and options of an audit.

    Attributes:
        models: Files, folders or factories; empty if the model is an object of Python.
        data: The file of the data; empty if it is an object.
        label: The column of the labels, if it was named.
        labels: The file of the labels, if they are apart.
        reading: Options of the command line that say how the data is read.
        auditing: Further options of ``farfield audit``.
        in_python: Whether a guard of the model cannot be written as a file: it is made in Python.
    """

    models: tuple[str, ...] = ()
    data: str = ""
    label: str = ""
    labels: str = ""
    reading: tuple[str, ...] = ()
    auditing: tuple[str, ...] = ()
    in_python: bool = False

    @property
    def in_files(self) -> bool:
        """Whether a command can name both the model and the data."""
        return bool(self.models and self.data)

    def audit(self, *more: str) -> str:
        """The audit again, with further options."""
        if not self.in_files:
            return "ff.audit(model, X, y)"
        apart = ["--labels", self.labels] if self.labels else []
        return _line("audit", *self.models, *self._data, *apart, *self.auditing, *more)

    def guard(self, *more: str, out: str = "safe.onnx") -> str:
        """Guard the model; with ``--envelope`` its outputs stay as they are."""
        asked = any(Path(model).suffix in ASKED for model in self.models)
        if asked or self.in_python or not self.in_files:
            return "ff.envelope(model, X)" if "--envelope" in more else "ff.guard(model, X)"
        out = f"new-{out}" if out in self.models else out
        return _line("guard", *self.models, *self._data, *more, "-o", out)

    def train(self, method: str, *more: str, gaps: bool = False, python: str = "") -> str:
        """Train another model on the same data; its gaps have to be filled."""
        if not (self.data and self.label):
            return python
        filling = ("--impute", "median") if gaps and "--impute" not in self.reading else ()
        return _line("train", method, *more, *self._data, *filling, "-o", f"{method}.safetensors")

    @property
    def _data(self) -> Iterator[str]:
        yield from ("--data", self.data)
        if self.label:
            yield from ("--label", self.label)
        yield from self.reading


def at_hand(model: Any, data: Any, y: Any, label: str | None, **options: Any) -> AtHand:
    """Note what was given as files and words.

    Args:
        model: The model, or several; objects are not noted.
        data: The data; an object is not noted.
        y: Labels, the name of their column, or their file.
        label: The column of the labels.
        **options: Options of ``farfield audit`` by name; those that are empty are left out.
    """
    models = [model] if isinstance(model, (str, os.PathLike)) else model
    named = isinstance(models, (list, tuple)) and all(map(is_path, models))
    where = os.fspath(data) if is_path(data) else ""
    apart = is_path(y) and Path(y).exists()
    column = label or (y if isinstance(y, str) and not apart else "")
    return AtHand(
        tuple(map(os.fspath, models)) if named else (),
        where,
        column,
        os.fspath(y) if apart else "",
        tuple(_options({name: options.pop(name, None) for name in READING})),
        tuple(_options(options)),
    )


# Files of models that a guard asks, and cannot write: they are guarded in Python.
ASKED = (".skops",)
READING = ("schema", "categorical", "ignore", "delimiter", "impute", "seed")


def is_path(given: Any) -> bool:
    """Whether something is named, and not given itself."""
    return isinstance(given, (str, os.PathLike))


def _options(given: dict[str, Any]) -> Iterator[str]:
    """Options as words of a command line; what is no word cannot be one."""
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif isinstance(value, (list, tuple)):
            for each in value:
                yield from (option, str(each))
        elif isinstance(value, (str, float, int, os.PathLike)) and f"{value}" not in ("", "False"):
            yield from (option, str(value))


def _line(*words: str) -> str:
    """A command that a shell takes as it stands."""
    return shlex.join(["farfield", *words])
