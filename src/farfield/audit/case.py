"""A case: a model and its data, opened and fitted to one another, as all of an audit sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.audit.crosscheck import crosscheck
from farfield.audit.families import FamilyRays, random_directions
from farfield.audit.fields.kinds import Task
from farfield.audit.given_guard import MOST_ROWS, guarded
from farfield.audit.models import LoadedModel
from farfield.audit.settings import Settings
from farfield.audit.subject import Subject
from farfield.data import Rows, Source, TableColumn, open_data
from farfield.errors import InputError
from farfield.graph.reading import coded

if TYPE_CHECKING:
    from farfield.audit.given_guard import AnyGuard

Progress = Callable[[str, float], None]
# Of the sampled rows, every fifth is kept out of the guard and only compared on. Of tables with
# enough of them so many other rows are given to it: then it can set some apart for its thresholds,
# which takes half of the time of folds.
KEPT_OUT, BESIDE = 5, 3000


@dataclass(frozen=True, eq=False)
class Case:
    """A model and its data.

    Attributes:
        settings: How much to look at.
        loaded: The model.
        source: Its data, in the model's layout.
        data: How the user named the data, perhaps a path.
        ood: Out-of-distribution sets, in the same layout.
        subject: The model with a sample of its data.
        rng: Draws whatever is sampled.
        pairs: Features to draw two at a time, if some were asked for.
        progress: Called with the name of a stage and the share of it that is done.
        given_guard: The guard around the model, if it came with one.
        wants_guard: Whether before and after the guard are to be compared.
        asked_guard: Whether the user asked for that; if not, it must not cost much, nor fail.
        beside: Rows that are not in the sample, for such a guard.
        unguarded: Why there is no guard, if none could be made.
        warnings: Sentences that stand at the top of the audit; any part may add one.
        found: What was computed so far: fields of the audit.
    """

    settings: Settings
    loaded: LoadedModel
    source: Source
    data: Any
    ood: Mapping[str, Source]
    subject: Subject
    rng: np.random.Generator
    pairs: tuple[tuple[TableColumn, TableColumn], ...]
    progress: Progress
    given_guard: AnyGuard | None = None
    wants_guard: bool = False
    asked_guard: bool = False
    beside: Rows | None = None
    warnings: list[str] = field(default_factory=list)
    unguarded: list[str] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)

    def stage(self, name: str) -> Callable[[float], None]:
        """Begin a stage; what is returned takes the share of it that is done."""
        self.progress(name, 0.0)
        return lambda done: self.progress(name, done)

    @cached_property
    def random_rays(self) -> FamilyRays | None:
        """Random directions from rows of a table."""
        return random_directions(self.subject, self.settings.directions, self.rng)

    @cached_property
    def telling(self) -> list[TableColumn]:
        """Numeric features, those that move the model most first.

        Whichever part asks first, random rays are drawn before.
        """
        _ = self.random_rays
        return self.subject.by_effect(self.rng)

    @cached_property
    def protection(self) -> tuple[AnyGuard, NDArray[np.bool_]]:
        """The guard, and which of the sampled rows it has not been fitted on, if there are such."""
        subject = self.subject
        apart = np.arange(len(subject.rows)) % KEPT_OUT == 0
        if self.given_guard is not None:
            return self.given_guard, np.ones_like(apart)
        inside = np.ones_like(apart) if apart.all() else ~apart
        rows, labels = subject.rows[inside], subject.labels
        labels = None if labels is None else labels[inside]
        if self.beside is not None:
            rows = np.concatenate([rows, np.asarray(self.beside.X, dtype=float)])
            labels = None if labels is None else np.concatenate([labels, self.beside.y])
        seed = self.settings.seed
        return guarded(subject.model, subject.moving, rows, labels, random_state=seed), apart

    @cached_property
    def shown_guard(self) -> AnyGuard:
        """The guard to compare with: if it was asked for, the one that the command makes."""
        if self.given_guard is not None or not self.asked_guard:
            return self.protection[0]
        rows = self.source.sample(MOST_ROWS, random_state=self.settings.seed)
        model, columns = self.subject.model, self.subject.moving
        return guarded(model, columns, rows.X, rows.y, random_state=self.settings.seed)

    def handed(self) -> Case:
        """The same case for another process; who watches, and the model's maker, stay here."""
        loaded = replace(self.loaded, estimator=None, original=None)
        twin = replace(self, loaded=loaded, progress=nobody_watches)
        twin.__dict__.update(telling=self.telling, random_rays=self.random_rays)
        return twin

    @property
    def has_guard(self) -> bool:
        """Whether there is a guard to ask: it is wanted or given, and could be made."""
        return (self.wants_guard or self.given_guard is not None) and not self.unguarded

    @property
    def classifies(self) -> bool:
        """Whether there is a confidence to speak of."""
        return self.subject.task == "classification"

    @property
    def is_table(self) -> bool:
        """Whether a row is a list of named numbers, and not an image."""
        return not self.subject.is_image


def nobody_watches(_stage: str, _done: float) -> None:
    """Show nothing."""


def open_case(
    settings: Settings,
    loaded: LoadedModel,
    source: Source,
    task: Task,
    *,
    data: Any,
    ood: Mapping[str, Any],
    class_names: Sequence[str] | None,
    **rest: Any,
) -> Case:
    """Take a sample of the data, and fit out-of-distribution sets to it."""
    if rest.get("wants_guard") and task == "regression":
        raise InputError("guard=True needs a classifier; a regressor has no confidence")
    tabular = task == "classification" and not source.is_image
    pairs = _pairs(settings, source.columns) if tabular else ()
    names = [column.name for column in source.columns]
    others = {
        name: open_data(
            rows,
            features=None if hasattr(rows, "columns") else names,
            like=source,
            random_state=settings.seed,
        )
        for name, rows in ood.items()
    }
    rng = np.random.default_rng(settings.seed)
    makes_guard = tabular and rest.get("wants_guard") and rest.get("given_guard") is None
    rows, beside = _rows(settings, source, bool(makes_guard))
    summary = source.summary
    # Rows come in file order, which may be sorted by class: shuffle, so that any part stands for
    # the whole.
    order = rng.permutation(len(rows.X))
    labelled = task == "classification" and rows.y is not None
    subject = Subject(
        model=loaded.network,
        task=task,
        classes=_classes(source, loaded, task, class_names),
        moving=source.columns,
        rows=np.asarray(rows.X, dtype=float)[order],
        labels=np.asarray(rows.y)[order] if labelled else None,
        low=summary.low.reshape(-1),
        high=summary.high.reshape(-1),
        mean=summary.mean.reshape(-1),
        std=summary.std.reshape(-1),
        count=summary.count,
    )
    case = Case(settings, loaded, source, data, others, subject, rng, pairs, beside=beside, **rest)
    case.warnings.extend(crosscheck(loaded.original, subject, source, data))
    case.warnings.extend(_codes(loaded, source))
    return case


def _rows(settings: Settings, source: Source, guards: bool) -> tuple[Rows, Rows | None]:
    """The sample, and rows beside it for a guard if there are enough."""
    if not guards or source.n_rows < settings.samples + BESIDE:
        return source.sample(settings.samples, random_state=settings.seed), None
    return source.sample_both(settings.samples, BESIDE, random_state=settings.seed)


def _codes(loaded: LoadedModel, source: Source) -> list[str]:
    """Say that codes of categories are moved as if they were numbers, unless the data says so."""
    told = {column.name for column in source.columns if column.categorical}
    return [
        f"{note[0].upper()}{note[1:]}, and are moved like numbers here, to infinity too; name them "
        "with --categorical (in Python: categorical=[...])."
        for note in loaded.network.notes
        if not told.issuperset(coded(note))
    ]


def _pairs(
    settings: Settings, columns: Sequence[TableColumn]
) -> tuple[tuple[TableColumn, TableColumn], ...]:
    """The pairs of features that were asked for; refused before anything is computed."""
    numeric = {each.name: each for each in columns if not each.categorical}
    for pair in settings.pairs:
        unknown = [name for name in pair if name not in numeric]
        if unknown or len(set(pair)) < 2:
            raise InputError(
                f"cannot draw the pair {pair}: {', '.join(unknown) or 'one feature twice'}; "
                f"name two of the numeric features {', '.join(list(numeric)[:20])}"
            )
    return tuple((numeric[x], numeric[y]) for x, y in settings.pairs)


def _classes(
    source: Source, loaded: LoadedModel, task: Task, given: Sequence[str] | None
) -> tuple[str, ...]:
    """Names of the classes; for a regressor, of what it predicts."""
    network = loaded.network
    if task == "regression":
        return ("mean",) if network.one_logit else ("mean", "scale")
    known = (given, source.class_names, network.labels, range(network.classes))
    names = tuple(map(str, next(each for each in known if each is not None)))
    if len(names) != network.classes:
        raise InputError(
            f"the model has {network.classes} classes, but {len(names)} names: "
            f"{', '.join(names[:8])}; give one name per class in the order of its outputs"
        )
    return names
