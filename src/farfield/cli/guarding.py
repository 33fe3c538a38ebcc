"""What ``farfield guard`` does: read a model and its data, guard it, write it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield.audit.black_box import BlackBox
from farfield.audit.evaluators import black_box, can_be_asked, told
from farfield.audit.models import LoadedModel, load_model
from farfield.audit.run import expected
from farfield.data import Expected, Source, open_data
from farfield.errors import CaptureError, InputError, NotFollowed
from farfield.guard.certificate import Certificate
from farfield.guard.model import GuardedModel
from farfield.guard.onnx_file import extend
from farfield.guard.protect import guard

# Rows that a guard is fitted on at most; more are taken as a sample.
MOST_ROWS = 200_000


@dataclass(frozen=True)
class Request:
    """Where the data is, and how it is read."""

    data: str
    label: str | None
    schema: Path | None
    categorical: tuple[str, ...]
    ignore: tuple[str, ...]
    delimiter: str | None
    impute: Any
    allow_code: bool
    seed: int

    def open(self, known: Expected | None) -> Source:
        """Open the data; a label that was not named is looked for, and notes say so."""
        return open_data(
            self.data,
            label=self.label,
            schema=self.schema,
            categorical=self.categorical,
            ignore=self.ignore,
            delimiter=self.delimiter,
            impute=self.impute,
            expected=known,
            random_state=self.seed,
        )


def write_guard(
    models: list[str],
    request: Request,
    out: Path,
    progress: Callable[[str, float], None],
    **promise: Any,
) -> tuple[Certificate, list[str]]:
    """Guard a model and write it; its certificate, and what the user should know.

    Args:
        models: Files of one model, or of the instances of an ensemble.
        request: The data.
        out: The file to write; its suffix is the format.
        progress: Told what is under way.
        **promise: Options of :func:`farfield.guard`.
    """
    progress("reading", 0.0)
    chosen = models[0] if len(models) == 1 else list(models)
    loaded = _early(chosen)
    known = told(chosen) if loaded is None else expected(loaded, regression=False)
    source = request.open(known)
    if loaded is None:
        loaded = _loaded(chosen, source, request)
    network = loaded.network
    source = source.fit_to(
        int(source.summary.mean.size),
        n_classes=network.classes,
        feature_names=loaded.feature_names,
        class_labels=loaded.class_labels,
    )
    rows = source.sample(MOST_ROWS, random_state=request.seed)
    progress("guarding", 0.0)
    blocks = [list(each.places) for each in source.columns if each.categorical]
    safe = guard(
        (lambda X: network.probabilities(X)[0]) if isinstance(network, BlackBox) else network,
        rows.X,
        labels=rows.y,
        categorical=blocks or None,
        random_state=request.seed,
        **promise,
    )
    progress("writing", 0.0)
    if out.suffix == ".onnx" and len(models) == 1 and Path(models[0]).suffix.lower() == ".onnx":
        extend(models[0], out, safe.covered, safe.columns, safe.certificate)
    elif isinstance(safe, GuardedModel):
        write = {".onnx": safe.to_onnx, ".pt2": safe.to_pt2, ".safetensors": safe.save}
        write[out.suffix](out)
    else:
        raise InputError(
            f"{models[0]} can be evaluated but not followed, so it cannot be written as "
            f"{out.suffix}; write .onnx, which extends the file"
        )
    return safe.certificate, list(getattr(source, "notes", ()))


def _early(model: Any) -> LoadedModel | None:
    """Load a model that knows its input's shape; others wait for a row of the data."""
    if isinstance(model, str) and not os.path.exists(model):  # noqa: PTH110 - a factory may be named
        return None
    try:
        return load_model(model)
    except CaptureError:
        return None


def _loaded(model: Any, source: Source, request: Request) -> LoadedModel:
    try:
        return load_model(model, source.sample(1).X, allow_code=request.allow_code)
    except NotFollowed as error:
        if not can_be_asked(model):
            raise
        box = black_box(model, source, request.data, " ".join(str(error).split()))
    return LoadedModel(box, "onnx", str(model), box.labels, box.features)
