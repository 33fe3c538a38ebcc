"""The audit: a model and its data in, plain findings out."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from torch import nn

from farfield.audit import curves, families, features, health, pictures, regressors
from farfield.audit.findings import (
    Collapse,
    Comparison,
    DataFacts,
    Detected,
    Family,
    Feature,
    Health,
    ModelFacts,
    OutSet,
    Picture,
    Provenance,
    Ray,
    Surface,
    Task,
    Verdict,
)
from farfield.audit.guarding import before_and_after
from farfield.audit.models import FACTORY, LoadedModel, load_model
from farfield.audit.record import Audit
from farfield.audit.remedies import remedies
from farfield.audit.rows import EngineName
from farfield.audit.sources import open_data
from farfield.audit.subject import Moving, Subject
from farfield.errors import CaptureError, InputError
from farfield.guard.archive import is_guard
from farfield.guard.archive import load as load_guard
from farfield.guard.model import GuardedModel

Progress = Callable[[str, float], None]
PACKAGES = ("torch", "numpy", "scikit-learn")


@dataclass(frozen=True)
class Settings:
    """How much an audit looks at; all of it is written down in the result.

    Attributes:
        threshold: The confidence at infinity from which on a direction is blind.
        max_blind: The blind share that is allowed, or ``None`` for no limit.
        samples: Rows of the data that distances, curves and detection are computed from.
        directions: Sampled directions per family.
        pairs: Pairs of features to draw; chosen by their effect if empty.
        engine: Where the row-parallel parts run.
        seed: Of everything that is sampled.
    """

    threshold: float = 0.99
    max_blind: float | None = None
    samples: int = 2000
    directions: int = 1000
    pairs: tuple[tuple[str, str], ...] = ()
    engine: EngineName = "local"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise InputError(f"threshold must lie in (0, 1], got {self.threshold}; try 0.99")
        if self.max_blind is not None and not 0 <= self.max_blind <= 1:
            raise InputError(f"max_blind is a share from 0 to 1, got {self.max_blind}")
        if self.samples < 2 or self.directions < 1:
            raise InputError(
                f"samples must be at least 2 and directions at least 1, got {self.samples} and "
                f"{self.directions}"
            )


def audit(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    features: Sequence[str] | None = None,
    threshold: float = 0.99,
    ood: Mapping[str, Any] | None = None,
    max_blind: float | None = None,
    label: str | None = None,
    class_names: Sequence[str] | None = None,
    schema: Any = None,
    categorical: Sequence[str] = (),
    impute: Any = None,
    task: Task | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    samples: int = 2000,
    directions: int = 1000,
    engine: EngineName = "local",
    guard: bool = False,
    allow_code: bool = False,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Audit:
    """Find out what a model does far away from its data.

    Args:
        model: Whatever :func:`farfield.capture` takes, a path to a model, or one that
            :func:`farfield.audit.models.load_model` has read.
        X: The data that the model was trained on: an array, a DataFrame, or a path.
        y: Labels, if ``X`` does not hold them.
        features: Names of the columns.
        threshold: The confidence at infinity from which on a direction counts as blind.
        ood: Names of out-of-distribution sets to their rows or paths.
        max_blind: The blind share that is allowed; the audit fails above it.
        label: The column of ``X`` that holds the labels.
        class_names: Names of the classes, in the order of the model's outputs.
        schema: Bounds, units and kinds of the columns: a path to a TOML file, or a ``Schema``.
        categorical: Columns that hold categories.
        impute: How to fill missing values: ``"mean"``, ``"median"`` or ``"most_frequent"``.
        task: ``"classification"`` or ``"regression"``; told from the model if ``None``.
        pairs: Pairs of features to draw surfaces of.
        samples: Rows that distances, curves and detection are computed from.
        directions: Sampled directions per family.
        engine: ``"local"``, or ``"ray"`` to spread the row-parallel parts over a Ray cluster.
        guard: Whether to fit a guard and compare before with after.
        allow_code: Whether ``model`` may name a Python function to be imported and run.
        random_state: Seed of everything that is sampled.
        progress: Called with the name of a stage and the share of it that is done.

    Returns:
        The findings, as plain data.

    >>> from sklearn.datasets import make_moons
    >>> import farfield as ff
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = ff.ReLUClassifier(hidden=(10,), epochs=5, random_state=0).fit(X, y)
    >>> result = ff.audit(model, X, y, directions=50)
    >>> sorted(result.blindness), result.passed
    (['axes', 'circle', 'data', 'random'], True)
    """
    settings = Settings(
        threshold, max_blind, samples, directions, tuple(pairs), engine, int(random_state)
    )
    started = time.perf_counter()
    given = _guard_in(model)
    if given is not None:
        model = LoadedModel(given.network, "object", _name_of(model))
    loaded = model if isinstance(model, LoadedModel) else _load_early(model)
    source = open_data(
        X,
        y,
        features=features,
        class_names=class_names,
        label=label,
        schema=schema,
        categorical=categorical,
        impute=impute,
        regression=_task(model, loaded, task) == "regression",
        random_state=settings.seed,
    )
    if loaded is None:
        loaded = load_model(model, example=source.sample(1).X, allow_code=allow_code)
    work = Work(settings, loaded, _task(model, loaded, task), progress or _quiet)
    work.given_guard = given
    work.open(source, class_names, ood or {})
    return work.finish(started, guard or given is not None)


def _guard_in(model: Any) -> GuardedModel | None:
    """The guard, if the model is a guarded one or the path of one."""
    if isinstance(model, GuardedModel):
        return model
    if not isinstance(model, (str, os.PathLike)) or not is_guard(model):
        return None
    return load_guard(model)


def _name_of(model: Any) -> str:
    return type(model).__name__ if isinstance(model, GuardedModel) else os.fspath(model)


def _load_early(model: Any) -> LoadedModel | None:
    """Load a model that knows its input's shape; others wait for a row of the data."""
    if isinstance(model, (nn.Module, list, tuple)):
        return None
    if isinstance(model, str) and FACTORY.fullmatch(model):
        return None
    try:
        return load_model(model)
    except CaptureError:
        # Perhaps it only lacks an example; if not, the same error comes again with one.
        return None


def _task(model: Any, loaded: LoadedModel | None, task: Task | None) -> Task:
    if task is not None:
        if task not in ("classification", "regression"):
            raise InputError(f"task must be 'classification' or 'regression', got {task!r}")
        return task
    estimator = loaded.estimator if loaded is not None else model
    known = hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator)
    return "regression" if known else "classification"


def _quiet(stage: str, done: float) -> None:
    """Show nothing."""


class Work:
    """One audit under way: every method computes one part of the findings."""

    def __init__(
        self, settings: Settings, loaded: LoadedModel, task: Task, progress: Progress
    ) -> None:
        self.settings, self.loaded, self.task, self.progress = settings, loaded, task, progress
        self.rng = np.random.default_rng(settings.seed)
        self.given_guard: GuardedModel | None = None

    def open(self, source: Any, class_names: Sequence[str] | None, ood: Mapping[str, Any]) -> None:
        """Fit the data to the model, and the out-of-distribution sets to the data."""
        network, regressing = self.loaded.network, self.task == "regression"
        labels = None if regressing else self.loaded.class_labels
        width = int(np.prod(network.input_shape))
        self.source = source.fit_to(
            width,
            n_classes=None if regressing else network.classes,
            feature_names=self.loaded.feature_names,
            class_labels=labels,
        )
        if tuple(self.source.shape) != tuple(network.input_shape):
            raise InputError(
                f"the model takes rows of shape {tuple(network.input_shape)}, the data has "
                f"{tuple(self.source.shape)}; pass data in the model's own layout"
            )
        names = [column.name for column in self.source.columns]
        self.ood = {
            name: open_data(
                rows,
                features=None if hasattr(rows, "columns") else names,
                like=self.source,
                random_state=self.settings.seed,
            )
            for name, rows in ood.items()
        }
        self.subject = self._subject(self._classes(class_names))

    def _classes(self, given: Sequence[str] | None) -> tuple[str, ...]:
        network = self.loaded.network
        if self.task == "regression":
            return ("mean",) if network.one_logit else ("mean", "scale")
        if given is not None:
            names = tuple(map(str, given))
        elif self.source.class_names is not None:
            names = tuple(self.source.class_names)
        elif self.loaded.class_labels is not None:
            names = tuple(map(str, self.loaded.class_labels))
        else:
            names = tuple(str(index) for index in range(network.classes))
        if len(names) != network.classes:
            raise InputError(
                f"the model has {network.classes} classes, but {len(names)} names: "
                f"{', '.join(names[:8])}; give one name per class in the order of its outputs"
            )
        return names

    def _subject(self, classes: tuple[str, ...]) -> Subject:
        source = self.source
        rows = source.sample(self.settings.samples, random_state=self.settings.seed)
        summary = source.summary
        moving = tuple(
            Moving(
                name=column.name,
                places=tuple(column.features),
                unit=column.unit or "",
                low=column.low,
                high=column.high,
                values=tuple(column.values) if column.kind == "categorical" else (),
                counts=tuple(column.counts) if column.kind == "categorical" else (),
            )
            for column in source.columns
        )
        classifies = self.task == "classification" and rows.y is not None
        # Rows come in file order, which may be sorted by class: shuffle, so that any part stands
        # for the whole.
        order = self.rng.permutation(len(rows.X))
        return Subject(
            network=self.loaded.network,
            task=self.task,
            classes=classes,
            moving=moving,
            rows=np.asarray(rows.X, dtype=float)[order],
            labels=np.asarray(rows.y)[order] if classifies else None,
            low=summary.low.reshape(-1),
            high=summary.high.reshape(-1),
            mean=summary.mean.reshape(-1),
            std=summary.std.reshape(-1),
        )

    def finish(self, started: float, guard: bool) -> Audit:
        """Compute every part."""
        found = self._families()
        table = self._features()
        detected, out_sets = self._detection()
        compared = self._guard() if guard else None
        judged = verdict(found, self.settings, self.task)
        if compared is not None and self.given_guard is not None:
            judged = guarded_verdict(judged, self.settings, self.given_guard)
        return Audit(
            verdict=judged,
            task=self.task,
            model=self._model_facts(),
            data=self._data_facts(),
            families=found,
            features=table,
            curve_steps=features.CURVE_STEPS if table else (),
            rays=self._rays(),
            surfaces=self._surfaces(),
            health=self._health(),
            detection=detected,
            out_sets=out_sets,
            pictures=self._pictures(),
            collapses=self._collapses(),
            remedies=remedies(self.task, self.subject.network.instances, self.subject.is_image),
            guard=compared,
            provenance=self._provenance(started),
        )

    def _stage(self, name: str) -> Callable[[float], None]:
        self.progress(name, 0.0)
        return lambda done: self.progress(name, done)

    def _families(self) -> tuple[Family, ...]:
        advance = self._stage("directions")
        subject, count = self.subject, self.settings.directions
        if subject.is_image:
            rays = list(pictures.image_rays(subject, min(count, IMAGE_RAYS), self.rng))
        else:
            some = [families.axes(subject), families.random_directions(subject, count, self.rng)]
            title = "From the mean of the data through its own rows"
            some.append(families.towards(subject, "data", title, subject.rows, count))
            rays = [each for each in some if each is not None]
        limit = min(count, IMAGE_RAYS) if subject.is_image else count
        for name, source in self.ood.items():
            sample = np.asarray(source.sample(limit, random_state=self.settings.seed).X, float)
            title = f"From the mean of the data towards {name}"
            found = families.towards(subject, f"towards {name}", title, sample, limit)
            rays += [] if found is None else [found]
        circle = families.whole_circle(subject, self.settings.threshold)
        done = [] if circle is None else [circle]
        for index, each in enumerate(rays):
            done.append(families.follow(subject, each, self.settings.threshold))
            advance((index + 1) / len(rays))
        return tuple(done)

    def _features(self) -> tuple[Feature, ...]:
        if self.subject.is_image or self.task == "regression":
            return ()
        advance = self._stage("features")
        return features.table(self.subject, self.settings.threshold, self._weights(), advance)

    def _rays(self) -> tuple[Ray, ...]:
        if self.subject.is_image or self.task == "regression":
            return ()
        advance = self._stage("rays")
        subject = self.subject
        found = []
        chosen = curves.most_telling(subject, RAYS, self.rng)
        for index, feature in enumerate(chosen):
            for sign, bound, word in ((1.0, feature.high, "up"), (-1.0, feature.low, "down")):
                if np.isinf(bound):
                    direction = np.zeros_like(subject.centre)
                    direction[feature.places[0]] = sign
                    name = f"{feature.name} {word}, from the median row"
                    found.append(curves.ray(subject, name, subject.centre, direction))
            advance((index + 1) / len(chosen))
        if subject.is_free.any():
            directions = subject.whitened_directions(2, self.rng)
            for index, direction in enumerate(directions):
                name = f"Random direction {index + 1}, from a row of the data"
                found.append(
                    curves.ray(subject, name, subject.rows[index % len(subject.rows)], direction)
                )
        return tuple(found)

    def _surfaces(self) -> tuple[Surface, ...]:
        if self.subject.is_image or self.task == "regression":
            return ()
        advance = self._stage("surfaces")
        pairs = self._pairs()
        found = []
        for index, (x, y) in enumerate(pairs):
            found.append(curves.surface(self.subject, x, y, self.rng))
            advance((index + 1) / len(pairs))
        return tuple(found)

    def _pairs(self) -> list[tuple[Moving, Moving]]:
        """The pairs that were asked for, or those of the three most telling features."""
        if not self.settings.pairs:
            return list(combinations(curves.most_telling(self.subject, 3, self.rng), 2))
        by_name = {each.name: each for each in self.subject.moving if not each.categorical}
        for pair in self.settings.pairs:
            unknown = [name for name in pair if name not in by_name]
            if unknown or len(set(pair)) < 2:
                raise InputError(
                    f"cannot draw the pair {pair}: {', '.join(unknown) or 'one feature twice'}; "
                    f"name two of the numeric features {', '.join(list(by_name)[:20])}"
                )
        return [(by_name[x], by_name[y]) for x, y in self.settings.pairs]

    def _health(self) -> Health | None:
        advance = self._stage("health")
        engine, seed = self.settings.engine, self.settings.seed
        if self.task == "classification":
            return health.classification_health(self.subject, self.source, engine, seed, advance)
        estimator = self.loaded.estimator
        shared = health.ScaledNetwork(
            self.subject.network,
            float(getattr(estimator, "target_scale_", 1.0)),
            getattr(estimator, "constant_scale_", None),
        )
        return health.regression_health(shared, self.source, engine, seed)

    def _detection(self) -> tuple[tuple[Detected, ...], tuple[OutSet, ...]]:
        if self.task == "regression":
            return (), ()
        advance = self._stage("detection")
        settings = self.settings
        return health.detect(
            self.subject, self.ood, settings.threshold, settings.engine, settings.seed, advance
        )

    def _pictures(self) -> tuple[Picture, ...]:
        if not self.subject.is_image:
            return ()
        self._stage("pictures")
        return pictures.pictures(self.subject, self.rng)

    def _collapses(self) -> tuple[Collapse, ...]:
        return regressors.collapses(self.subject) if self.task == "regression" else ()

    def _guard(self) -> Comparison | None:
        if self.task == "regression":
            raise InputError("guard=True needs a classifier; a regressor has no confidence")
        self._stage("guard")
        ood = {
            name: np.asarray(source.sample(MOST_OUT, random_state=self.settings.seed).X, float)
            for name, source in self.ood.items()
        }
        return before_and_after(
            self.subject,
            ood,
            threshold=self.settings.threshold,
            seed=self.settings.seed,
            given=self.given_guard,
        )

    def _weights(self) -> int:
        return sum(
            tensor.numel()
            for group in self.loaded.network.groups
            for tensor in (
                *(each for each in group.stacked.values()),
                *(each for each in group.shared.values() for _ in group.members),
            )
        )

    def _model_facts(self) -> ModelFacts:
        network = self.loaded.network
        return ModelFacts(
            source=self.loaded.where,
            kind=self.loaded.kind,
            instances=network.instances,
            inputs=tuple(network.input_shape),
            classes=self.subject.classes,
            parameters=self._weights(),
            notes=tuple(network.notes),
            sha256=_digest(self.loaded.where),
        )

    def _data_facts(self) -> DataFacts:
        source = self.source
        counts = source.class_counts if self.task == "classification" else None
        return DataFacts(
            source=source.where,
            rows=source.n_rows,
            features=int(np.prod(source.shape)),
            class_counts=dict(zip(self.subject.classes, counts, strict=False)) if counts else {},
            missing={name: count for name, count in source.missing.items() if count},
            constant=tuple(source.constant),
            sampled=len(self.subject.rows),
            sha256=_digest(source.where),
        )

    def _provenance(self, started: float) -> Provenance:
        settings = {
            name: str(getattr(self.settings, name))
            for name in ("threshold", "max_blind", "samples", "directions", "engine")
        }
        return Provenance(
            farfield=_version("farfield"),
            versions={"python": platform.python_version()}
            | {name: _version(name) for name in PACKAGES},
            machine=f"{platform.system()} {platform.machine()}",
            seed=self.settings.seed,
            seconds=round(time.perf_counter() - started, 2),
            made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            settings=settings,
        )


# Rows of an out-of-distribution set that a guard is compared on.
MOST_OUT = 2000
# Images are wide: fewer rays per family, and how many features get curves.
IMAGE_RAYS = 200
RAYS = 4


def verdict(found: Sequence[Family], settings: Settings, task: Task) -> Verdict:
    """Put the largest blind share into words."""
    if not found:
        sentence = "Every feature is bounded or categorical: there is no far away to be blind in."
        passed = None if settings.max_blind is None else True
        return Verdict(passed, 0.0, "none", settings.threshold, settings.max_blind, sentence)
    worst = max(found, key=lambda family: families.share_value(family.share))
    blind = families.share_value(worst.share)
    passed = None if settings.max_blind is None else blind <= settings.max_blind
    what = (
        f"is at least {settings.threshold:.0%} sure of one class infinitely far out"
        if task == "classification"
        else "predicts with no sign of being far out"
    )
    directions = f"{blind:.1%} of the directions" if blind < 1 else "every direction"
    sentence = f"The model {what} in {directions} ({worst.title[0].lower()}{worst.title[1:]})."
    return Verdict(passed, blind, worst.name, settings.threshold, settings.max_blind, sentence)


def guarded_verdict(plain: Verdict, settings: Settings, guard: GuardedModel) -> Verdict:
    """The verdict on a guarded model: uniform at infinity, in every direction, by proof."""
    certificate = guard.certificate
    blind = float(1 / certificate.classes >= settings.threshold)
    sentence = (
        f"Infinitely far out the guarded model gives every class 1/{certificate.classes}, in every "
        f"direction, by proof; unguarded it would be blind in {plain.blind:.1%} of the directions. "
        "Families and features below show the model inside of the guard."
    )
    passed = None if settings.max_blind is None else blind <= settings.max_blind
    return Verdict(
        passed, blind, "all, by the guard", settings.threshold, settings.max_blind, sentence
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _digest(where: str) -> str | None:
    """SHA-256 of a file, read in pieces; ``None`` if there is no such file."""
    path = Path(where)
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
