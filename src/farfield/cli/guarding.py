"""What ``farfield guard`` does: read a model and its data, guard it, write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from farfield.audit.black_box import BlackBox
from farfield.audit.models import FACTORY, LoadedModel, call_factory
from farfield.audit.opening import fitted, open_both
from farfield.data import Source
from farfield.errors import InputError
from farfield.guard.certificate import Certificate
from farfield.guard.envelope import Envelope
from farfield.guard.function import GuardedFunction
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

    def open(self, model: Any) -> tuple[LoadedModel, Source]:
        """Open a model and the data; a label that was not named is looked for, and notes say so."""
        loaded, source, _ = open_both(
            model,
            self.data,
            task="classification",
            allow_code=self.allow_code,
            label=self.label,
            schema=self.schema,
            categorical=self.categorical,
            ignore=self.ignore,
            delimiter=self.delimiter,
            impute=self.impute,
            random_state=self.seed,
        )
        return loaded, fitted(source, loaded, "classification")


def write_guard(
    models: list[str],
    request: Request,
    out: Path,
    progress: Callable[[str, float], None],
    *,
    envelope: bool = False,
    **promise: Any,
) -> tuple[Certificate, list[str]]:
    """Guard a model and write it; its certificate, and what the user should know.

    Args:
        models: Files of one model, or of the instances of an ensemble.
        request: The data.
        out: The file to write; its suffix is the format.
        progress: Told what is under way.
        envelope: Whether outputs stay as they are, and what the guard says is added to them.
        **promise: Options of :func:`farfield.guard`.
    """
    progress("reading", 0.0)
    chosen = models[0] if len(models) == 1 else list(models)
    loaded, source = request.open(chosen)
    network = loaded.network
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
    if not source.is_image:
        safe.columns = replace(safe.columns, names=tuple(source.feature_names))
    if envelope:
        assert isinstance(safe, GuardedModel | GuardedFunction)
        found = Envelope(safe, _given(chosen, request))
        (found.to_onnx if out.suffix == ".onnx" else found.to_pt2)(out)
    elif out.suffix == ".onnx" and len(models) == 1 and Path(models[0]).suffix.lower() == ".onnx":
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


def _given(model: Any, request: Request) -> Any:
    """What the user named: a file, or what a factory makes."""
    named = isinstance(model, str) and FACTORY.fullmatch(model) and not Path(model).exists()
    return call_factory(model, request.allow_code) if named else model
