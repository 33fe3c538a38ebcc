"""Parts of a long benchmark, kept on disk so that an interrupted run goes on where it stopped."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.missing import NotHere
from farfield.files import replacing


def folder(benchmark: str) -> Path:
    """Return where a benchmark's parts are: FARFIELD_PARTS, or a temporary folder."""
    base = os.environ.get("FARFIELD_PARTS") or Path(tempfile.gettempdir()) / "farfield-parts"
    return Path(base) / benchmark


def part(benchmark: str, name: str, compute: Callable[[], Any]) -> Any:
    """Read a part that is there, or compute it and write it; remove the folder to start anew."""
    path = folder(benchmark) / f"{name}.json"
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    result = compute()
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(result), encoding="utf-8")
    return result


def data_folder(*needed: str) -> Path:
    """Return FARFIELD_DATA, or say what it should hold."""
    base = Path(os.environ.get("FARFIELD_DATA", ""))
    missing = [name for name in needed if not (base / name).exists()]
    if not os.environ.get("FARFIELD_DATA") or missing:
        raise NotHere(f"set FARFIELD_DATA to a folder that has {', '.join(missing or needed)}")
    return base
