"""What an audit was made of: the model, the data, and where and when."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from farfield.audit.at_hand import AtHand
from farfield.audit.black_box import BlackBox
from farfield.audit.case import Case
from farfield.audit.fields.facts import DataFacts, ModelFacts, Provenance
from farfield.audit.models import LoadedModel
from farfield.audit.subject import Subject
from farfield.graph.network import Network
from farfield.levels import EPSILON, KEEP, RADII

PACKAGES = ("torch", "numpy", "scikit-learn")


def model_facts(loaded: LoadedModel, subject: Subject) -> ModelFacts:
    """What model was looked at."""
    network = loaded.network
    return ModelFacts(
        source=loaded.where,
        kind=loaded.kind,
        instances=network.instances,
        inputs=tuple(network.input_shape),
        classes=subject.classes,
        parameters=subject.weights,
        notes=tuple(network.notes),
        sha256=_digest(loaded.where),
        cap=_cap(network, subject),
    )


def _cap(network: Network | BlackBox, subject: Subject) -> float | None:
    """The largest confidence that a model's form allows, if any below 1."""
    if subject.task != "classification" or not isinstance(network, Network):
        return None
    cap = network.confidence_cap
    return cap if cap < 1 else None


def data_facts(source: Any, subject: Subject, given: Any = None) -> DataFacts:
    """What data it was looked at with; ``given`` is how the user named it, perhaps a path."""
    counts = source.class_counts if subject.task == "classification" else None
    return DataFacts(
        source=source.where,
        rows=source.n_rows,
        features=int(np.prod(source.shape)),
        class_counts=dict(zip(subject.classes, counts, strict=False)) if counts else {},
        missing={name: count for name, count in source.missing.items() if count},
        constant=tuple(source.constant),
        sampled=len(subject.rows),
        sha256=_digest(given) if isinstance(given, (str, os.PathLike)) else None,
        notes=tuple(source.notes),
    )


def provenance(case: Case, files: AtHand, started: float) -> Provenance:
    """With what, where and when it was looked at."""
    settings = case.settings
    written = {
        name: str(getattr(settings, name))
        for name in ("threshold", "max_blind", "samples", "directions", "engine")
    }
    written |= _reading(files) | {"guard": _guard(case)}
    if case.ood:
        written["foreign sets"] = ", ".join(f"{k}: {each.where}" for k, each in case.ood.items())
    return Provenance(
        farfield=_version("farfield"),
        versions={"python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
        machine=f"{platform.system()} {platform.machine()}",
        seed=settings.seed,
        seconds=round(time.perf_counter() - started, 2),
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        settings=written,
        command=files.audit(),
    )


def _reading(files: AtHand) -> dict[str, str]:
    """How the data was read, where that was said; a schema by its digest too."""
    words = iter(files.reading)
    told: dict[str, str] = {}
    for option in words:
        name, value = option.removeprefix("--"), next(words)
        told[name] = f"{told[name]}, {value}" if name in told else value
    digest = _digest(told["schema"]) if "schema" in told else None
    return told if digest is None else told | {"schema, SHA-256": digest}


def _guard(case: Case) -> str:
    """What guard was compared with."""
    if case.given_guard is not None:
        return "the one around the model"
    if case.unguarded:
        return f"none: {case.unguarded[0]}"
    if not case.wants_guard:
        return "none"
    rows = "all rows, as farfield guard does" if case.asked_guard else "a sample of the rows"
    return f"made from {rows}; radii {RADII:g}, epsilon {EPSILON:g}, keep {KEEP:g}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _digest(where: str | os.PathLike[str]) -> str | None:
    """SHA-256 of a file, read in pieces; ``None`` if there is no such file."""
    path = Path(where)
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
