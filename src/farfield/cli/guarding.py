"""What ``farfield guard`` does: read a model and its data, guard it, write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from farfield.audit.given_guard import MOST_ROWS, guarded
from farfield.audit.models import call_factories
from farfield.audit.opening import open_both
from farfield.errors import InputError
from farfield.formats import is_named
from farfield.guard.certificate import Certificate
from farfield.guard.envelope import Envelope
from farfield.guard.model import GuardedModel
from farfield.guard.onnx_file import extend
from farfield.guard.onnx_trees import holds_trees
from farfield.progress import Show


def write_guard(
    models: list[str],
    data: str,
    out: Path,
    progress: Show,
    promise: Mapping[str, float],
    *,
    envelope: bool,
    allow_code: bool,
    random_state: int,
    **reading: Any,
) -> tuple[Certificate, list[str]]:
    """Guard a model and write it; its certificate, and what the user should know."""
    progress("reading")
    model = call_factories(models[0] if len(models) == 1 else models, allow_code)
    loaded, source, _ = open_both(
        model, data, task="classification", random_state=random_state, **reading
    )
    rows = source.sample(MOST_ROWS, random_state=random_state)
    progress("guarding")
    safe = guarded(
        loaded.network, source.columns, rows.X, rows.y, random_state=random_state, **promise
    )
    progress("writing")
    if not source.is_image:
        safe.columns = replace(safe.columns, names=tuple(source.feature_names))
    if envelope:
        found = Envelope(safe, model)
        (found.to_onnx if out.suffix == ".onnx" else found.to_pt2)(out)
    elif out.suffix == ".onnx" and len(models) == 1 and _can_be_extended(models[0]):
        extend(models[0], out, safe.covered, safe.columns, safe.certificate)
    elif isinstance(safe, GuardedModel):
        write = {".onnx": safe.to_onnx, ".pt2": safe.to_pt2, ".safetensors": safe.save}
        write[out.suffix](out)
    else:
        way = "export it (skl2onnx) and guard that .onnx file, or call ff.guard in Python"
        if len(models) == 1 and _can_be_extended(models[0]):
            way = "write .onnx, which extends the file"
        raise InputError(
            f"{models[0]} is guarded by its answers, so it cannot be written as {out.suffix}; {way}"
        )
    return safe.certificate, list(source.notes)


def _can_be_extended(model: str) -> bool:
    """Whether a guard can be put into the model's own file."""
    return is_named(model, "onnx") or holds_trees(model)
