"""Read ``.pt2`` files without executing anything that is in them.

``torch.export.load`` unpickles parts of an archive and evaluates size expressions as Python.
A file is therefore looked through first, and refused where it could do more than hold tensors
and a graph.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from farfield.errors import CaptureError

# Names that PyTorch itself writes into size expressions, besides symbols such as s0 and u1.
SIZE_FUNCTIONS = frozenset(
    (
        *("Abs", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "FloorDiv", "FloorToInt"),
        *("Ge", "Gt", "Integer", "IntTrueDiv", "Le", "Lt", "Max", "Min", "Mod"),
        *("ModularIndexing", "Ne", "Not", "Or", "PythonMod", "TruncToInt", "Where"),
        *("int_oo", "oo"),
    )
)
# How PyTorch writes the size symbol itself.
SYMBOL = re.compile(r"Symbol\('[su]\d+'(, (integer|positive|nonnegative)=True)*\)")
SAFE_EXPRESSION = re.compile(r"[\w\s+\-*/%(),<>=&|~]*")


def load_pt2(path: Path) -> ExportedProgram:
    """Load an exported program after looking through the archive.

    Raises:
        CaptureError: If the file is damaged, not an exported program, or holds pickled objects
            or compiled code.
    """
    _inspect(path)
    try:
        return torch.export.load(path)
    except Exception as error:  # torch.export documents no common base of what it raises
        text = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
        raise CaptureError(
            f"{path} could not be loaded as an exported program "
            f"({type(error).__name__}: {text}). Save it again with torch.export.save from a "
            f"PyTorch close to {torch.__version__}."
        ) from error


def _inspect(path: Path) -> None:
    if not path.is_file():
        raise CaptureError(f"there is no file {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:
                raise CaptureError(f"{path} is damaged: {archive.testzip()} fails its checksum")
            _inspect_archive(archive, path)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise CaptureError(
            f"{path} is not a .pt2 archive, or it is cut short ({error}); write it with "
            "torch.export.save(torch.export.export(model, (example,)), path)"
        ) from error


def _inspect_archive(archive: zipfile.ZipFile, path: Path) -> None:
    names = [name.split("/", 1)[-1] for name in archive.namelist()]
    if "archive_format" not in names:
        raise CaptureError(
            f"{path} is a zip file but not an archive of torch.export (it may be a torch.save "
            "file, or from a PyTorch before 2.8); write it with torch.export.save"
        )
    for full, name in zip(archive.namelist(), names, strict=True):
        if name.startswith(("data/aotinductor", "extra/")) or "custom_obj" in name:
            raise CaptureError(
                f"{path} holds {name}: compiled code and custom objects are never loaded"
            )
        if name.endswith(".json"):
            _inspect_json(archive.read(full), f"{path}:{name}")
        if name.startswith("data/sample_inputs/"):
            _inspect_sample(archive.read(full), f"{path}:{name}")


def _inspect_json(data: bytes, where: str) -> None:
    try:
        tree = json.loads(data)
    except ValueError as error:
        raise CaptureError(f"{where} is not valid JSON ({error}); the file is damaged") from error
    for key, value in _items(tree):
        if key == "use_pickle" and value:
            raise CaptureError(
                f"{where} holds pickled objects, which are never loaded; export a model of plain "
                "dense tensors"
            )
        if key == "expr_str" and not _is_size_expression(value):
            raise CaptureError(f"{where} holds {str(value)[:80]!r}, which is not a size expression")


def _items(tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key, value
            yield from _items(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _items(value)


def _is_size_expression(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    text = SYMBOL.sub("s0", text)
    if not SAFE_EXPRESSION.fullmatch(text):
        return False
    words = re.findall(r"[A-Za-z_]\w*", text)
    return all(word in SIZE_FUNCTIONS or re.fullmatch(r"[su]\d+", word) for word in words)


def _inspect_sample(data: bytes, where: str) -> None:
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:  # any failure means that it is not plain tensors
        raise CaptureError(
            f"{where} is not a tuple of plain tensors, so loading it could run code; refused"
        ) from error
