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

from farfield.audit.fields import DataFacts, ModelFacts, Provenance
from farfield.audit.models import LoadedModel
from farfield.audit.settings import Settings
from farfield.audit.subject import Subject

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
    )


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


def provenance(settings: Settings, started: float) -> Provenance:
    """With what, where and when it was looked at."""
    written = {
        name: str(getattr(settings, name))
        for name in ("threshold", "max_blind", "samples", "directions", "engine")
    }
    return Provenance(
        farfield=_version("farfield"),
        versions={"python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
        machine=f"{platform.system()} {platform.machine()}",
        seed=settings.seed,
        seconds=round(time.perf_counter() - started, 2),
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        settings=written,
    )


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
