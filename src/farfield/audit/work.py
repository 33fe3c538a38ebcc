"""The parts of an audit, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from farfield.audit import curves, families, features, health, pictures, regressors
from farfield.audit.black_box import OUTMOST
from farfield.audit.cautions import cautions
from farfield.audit.crosscheck import crosscheck
from farfield.audit.facts import data_facts, model_facts, provenance, weights
from farfield.audit.findings import (
    BeforeAfter,
    Collapse,
    Detected,
    Family,
    Feature,
    Health,
    OutSet,
    Picture,
    Ray,
    Surface,
    Task,
)
from farfield.audit.guarding import before_and_after
from farfield.audit.models import LoadedModel
from farfield.audit.record import Audit
from farfield.audit.remedies import remedies
from farfield.audit.settings import Settings
from farfield.audit.subject import Moving, Subject
from farfield.audit.verdicts import guarded_verdict, verdict
from farfield.data.sources import open_data
from farfield.errors import InputError
from farfield.guard.function import GuardedFunction
from farfield.guard.model import GuardedModel

Progress = Callable[[str, float], None]
# Rows of an out-of-distribution set that a guard is compared on.
MOST_OUT = 2000
# Images are wide: fewer rays per family, and how many features get curves.
IMAGE_RAYS = 200
RAYS = 4


class Work:
    """One audit under way: every method computes one part of the findings."""

    def __init__(
        self, settings: Settings, loaded: LoadedModel, task: Task, progress: Progress
    ) -> None:
        self.settings, self.loaded, self.task, self.progress = settings, loaded, task, progress
        self.rng = np.random.default_rng(settings.seed)
        self.data: Any = None
        self.given_guard: GuardedModel | GuardedFunction | None = None
        # Sentences that stand at the top of the audit; any part may add one.
        self.warnings: list[str] = []

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
        self.warnings.extend(crosscheck(self.loaded.original, self.subject, self.source))

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
            model=self.loaded.network,
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
        compared = self._guard(table) if guard else None
        measured = self._health()
        seen_to = None if self.subject.exact else OUTMOST
        judged = verdict(found, self.settings, self.task, seen_to)
        if compared is not None and self.given_guard is not None:
            judged = guarded_verdict(judged, self.settings, self.given_guard)
        return Audit(
            warnings=(*self.warnings, *cautions(measured, self.task)),
            verdict=judged,
            task=self.task,
            model=model_facts(self.loaded, self.subject.classes),
            data=data_facts(self.source, self.subject, self.data),
            families=found,
            features=table,
            curve_steps=features.curve_steps(self.subject) if table else (),
            rays=self._rays(),
            surfaces=self._surfaces(),
            health=measured,
            detection=detected,
            out_sets=out_sets,
            pictures=self._pictures(),
            collapses=self._collapses(),
            remedies=remedies(self.task, self.subject),
            guard=compared,
            provenance=provenance(self.settings, started),
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
        return features.table(
            self.subject, self.settings.threshold, weights(self.loaded.network), advance
        )

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
            found.append(
                curves.surface(self.subject, x, y, self.rng, show_rows=self.settings.show_rows)
            )
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

    def _guard(self, table: tuple[Feature, ...]) -> BeforeAfter:
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
            table=table,
            given=self.given_guard,
        )
