"""The kinds of files that hold models: one table, which all that tells or lists them reads.

A file is told by its suffix or else by how it starts, since trees and estimators may have any name.
None is opened by a library that would run what is in it; what cannot be read says what to do.

A new kind of file is one :func:`register` here, and a reader of that name in ``READERS`` of
``farfield.graph.models``.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from farfield.errors import CaptureError, InputError

Holds = Literal["model", "guard"]
# What an audit calls a model that came from such a file.
FileKind = Literal["onnx", "pt2", "skops", "trees", "estimator"]
# How much of a file is looked at.
HEAD = 256
FIRST_KEY = re.compile(rb'\s*\{\s*"([^"\\]{1,40})"\s*:')
# What CatBoost writes first, whatever the version; its keys are sorted.
CATBOOST = (b"ctr_data", b"features_info", b"model_info", b"oblivious_trees")
WAYS_OUT = (
    "call ff.audit(model, X, y) in Python, export the model by skl2onnx or onnxmltools, or save it "
    "with skops.io.dump(model, 'model.skops')"
)


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        name: Unique; readers are found by it.
        words: What such files are, for messages and help.
        kind: What an audit calls a model that came from one.
        suffixes: Each of them alone tells the format.
        starts: Whether a file of so many bytes that starts like this is one, whatever its suffix;
            asked if the suffix is not that of a format that can be read.
        holds: What may be in one.
        advice: Why such a file is not read, and what to do instead; empty if it is.
    """

    name: str
    words: str
    kind: FileKind | None = None
    suffixes: tuple[str, ...] = ()
    starts: Callable[[bytes, int], bool] | None = None
    holds: tuple[Holds, ...] = ("model",)
    advice: str = ""


FORMATS: dict[str, Format] = {}


def register(new: Format) -> None:
    """Add a format; one whose name or suffix is taken is refused.

    >>> register(Format("onnx", "another"))
    Traceback (most recent call last):
    ValueError: the format 'onnx' is registered already
    """
    if new.name in FORMATS:
        raise ValueError(f"the format {new.name!r} is registered already")
    for other in FORMATS.values():
        if shared := set(new.suffixes) & set(other.suffixes):
            raise ValueError(f"{sorted(shared)[0]} is the suffix of {other.name!r} already")
    FORMATS[new.name] = new


def tell(path: str | os.PathLike[str]) -> Format | None:
    """Which format a file has, by its suffix or by how it starts; ``None`` if it is none of them.

    Raises:
        InputError: If it has to be looked at and cannot be read.

    >>> tell("model.ONNX").name
    'onnx'
    """
    place = Path(path)
    suffix = place.suffix.lower()
    by_name = next((each for each in FORMATS.values() if suffix in each.suffixes), None)
    if (by_name and not by_name.advice) or not place.is_file():
        return by_name
    try:
        with place.open("rb") as file:
            head, size = file.read(HEAD), place.stat().st_size
    except OSError as error:
        raise InputError(f"cannot read {place}: {error.strerror or error}") from error
    found = (each for each in FORMATS.values() if each.starts and each.starts(head, size))
    return next(found, by_name)


def is_named(given: Any, name: str) -> bool:
    """Whether something is a path with the suffix of a format.

    >>> is_named("model.onnx", "onnx"), is_named(object(), "onnx")
    (True, False)
    """
    if not isinstance(given, str | os.PathLike):
        return False
    return Path(given).suffix.lower() in FORMATS[name].suffixes


def readable(path: str | os.PathLike[str]) -> Format:
    """Which format a file has that can be read.

    Raises:
        InputError: If it has to be looked at and cannot be read.
        CaptureError: If it is none of them, or one that is refused.
    """
    found, where = tell(path), os.fspath(path)
    if found is None:
        suffix = Path(path).suffix or "no"
        raise CaptureError(
            f"cannot tell what model {where} is ({suffix} suffix); farfield reads {listed()}"
        )
    if found.advice:
        raise CaptureError(f"{where} is {found.words}{found.advice}")
    return found


def listed(holds: Holds = "model") -> str:
    """All formats that can be read, in words.

    >>> listed("guard")
    '.onnx files, .pt2 files (torch.export.save) and what .save(path) of farfield wrote'
    """
    known = [each.words for each in FORMATS.values() if holds in each.holds and not each.advice]
    *first, last = dict.fromkeys(known)
    return f"{', '.join(first)} and {last}"


def suffixes(holds: Holds) -> tuple[str, ...]:
    """The suffixes of formats that may hold something.

    >>> suffixes("guard")
    ('.onnx', '.pt2', '.safetensors')
    """
    return tuple(
        suffix
        for each in FORMATS.values()
        if holds in each.holds and not each.advice
        for suffix in each.suffixes
    )


def named(holds: Holds, joint: str = "or") -> str:
    """The same as words.

    >>> named("guard")
    '.onnx, .pt2 or .safetensors'
    """
    *first, last = suffixes(holds)
    return f"{', '.join(first)} {joint} {last}"


def _first_key(*keys: bytes) -> Callable[[bytes, int], bool]:
    """Whether a file is JSON whose first key is one of these."""

    def starts(head: bytes, _: int) -> bool:
        found = FIRST_KEY.match(head)
        return found is not None and found[1] in keys

    return starts


def _pattern(pattern: bytes) -> Callable[[bytes, int], bool]:
    return lambda head, _: re.match(pattern, head) is not None


def _is_safetensors(head: bytes, size: int) -> bool:
    """A length of the header that fits into the file, then JSON."""
    whole = len(head) > 8 and head[8:9] == b"{"
    return whole and bool(struct.unpack("<Q", head[:8])[0] <= size - 8)


_TREES = "boosted trees (.json and .ubj of XGBoost, text of LightGBM, JSON of CatBoost)"
_LOOK = "to be looked at; save the model with save_model"
register(Format("onnx", ".onnx files", "onnx", (".onnx",), holds=("model", "guard")))
register(
    Format("pt2", ".pt2 files (torch.export.save)", "pt2", (".pt2",), holds=("model", "guard"))
)
register(Format("skops", ".skops files (skops.io.dump)", "skops", (".skops",)))
register(
    Format(
        "pickle",
        "a pickle, which runs whatever code is in it when it is opened",
        suffixes=(".pkl", ".pickle", ".joblib", ".sav", ".dill", ".cloudpickle"),
        starts=_pattern(rb"\x80[\x02-\x05]"),
        advice=f", so farfield never opens one; {WAYS_OUT}",
    )
)
register(
    Format(
        "torch pickle",
        "a pickle of PyTorch, which may run code when it is opened",
        suffixes=(".pt", ".pth", ".ckpt"),
        advice=", so farfield never opens one; call ff.audit(model, X, y) in Python, or write the "
        "module by torch.export.save(torch.export.export(model, (X,)), 'model.pt2')",
    )
)
for _name, _words, _start, _advice in (
    ("catboost binary", "a binary file of CatBoost", rb"CBM1",
     "; save it with model.save_model(path, format='json')"),
    ("xgboost old", "a file of an XGBoost before 1.0", rb"binf|bs64",
     "; load it there and save it as .json"),
    ("xgboost dump", "a dump of XGBoost", rb"booster\[", f", {_LOOK}('model.json')"),
    ("lightgbm dump", "a dump of LightGBM", rb'\{"name": ?"tree"', f", {_LOOK}"),
):  # fmt: skip
    register(Format(_name, _words, "trees", starts=_pattern(_start), advice=_advice))
register(Format("lightgbm", _TREES, "trees", starts=_pattern(rb"tree\r?\nversion=")))
register(Format("xgboost ubj", _TREES, "trees", starts=_pattern(rb"\{[iUIlL#]")))
register(Format("xgboost json", _TREES, "trees", starts=_first_key(b"learner")))
register(Format("catboost", _TREES, "trees", starts=_first_key(*CATBOOST)))
register(
    Format(
        "farfield",
        "what .save(path) of farfield wrote",
        "estimator",
        (".safetensors",),
        _is_safetensors,
        ("model", "guard"),
    )
)
