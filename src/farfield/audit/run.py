"""The audit: a model and its data in, plain findings out."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from farfield.audit.at_hand import AtHand, at_hand, is_path
from farfield.audit.black_box import OUTMOST
from farfield.audit.case import Case, Progress
from farfield.audit.conclusions import cautions, guarded_verdict, remedies, verdict
from farfield.audit.evaluators import can_be_asked
from farfield.audit.facts import data_facts, model_facts, provenance
from farfield.audit.fields.kinds import Task
from farfield.audit.judging import judged
from farfield.audit.opened import opened
from farfield.audit.opening import Evidence
from farfield.audit.policy import Policy, as_policy
from farfield.audit.record import Audit
from farfield.audit.sections import compute
from farfield.audit.settings import EngineName, EntryRows, Settings, WantsGuard
from farfield.data import LabelKind
from farfield.errors import NotFollowed


def audit(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    features: Sequence[str] | None = None,
    threshold: float = Settings.threshold,
    ood: Mapping[str, Any] | None = None,
    max_blind: float | None = None,
    label: str | None = None,
    class_names: Sequence[str] | None = None,
    schema: Any = None,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    impute: Any = None,
    delimiter: str | None = None,
    label_kind: LabelKind | None = None,
    task: Task | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    samples: int = Settings.samples,
    directions: int = Settings.directions,
    engine: EngineName = Settings.engine,
    guard: WantsGuard = False,
    show_rows: bool = False,
    expected_accuracy: float | None = None,
    entry_rows: EntryRows = None,
    allow_code: bool = False,
    evidence: Evidence = "auto",
    policy: Policy | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    random_state: int = Settings.seed,
    progress: Progress | None = None,
) -> Audit:
    """Find out what a model does far away from its data.

    Args:
        model: Whatever :func:`farfield.capture` takes, or a path to a model; and whatever gives
            probabilities when asked: a classifier with ``predict_proba``, a function, any ONNX file
            that onnxruntime runs. Those that cannot be followed exactly are sampled, and say so.
        X: The data that the model was trained on: an array, a DataFrame, or a path.
        y: Labels, if ``X`` does not hold them; or the name of the column of ``X`` that does.
        features: Names of the columns.
        threshold: The confidence at infinity from which on a direction counts as blind.
        ood: Names of out-of-distribution sets to their rows or paths.
        max_blind: The blind share that is allowed; the audit fails above it.
        label: The column of ``X`` that holds the labels; if it is not named and the model tells
            which one it must be, that is taken, and a note says so.
        class_names: Names of the classes, in the order of the model's outputs.
        schema: Bounds, units and kinds of the columns: a path to a TOML file, or a ``Schema``.
        categorical: Columns that hold categories.
        ignore: Columns to leave out; those that a model does not name are left out anyway.
        impute: How to fill missing values: ``"mean"``, ``"median"`` or ``"most_frequent"``.
        delimiter: What separates the columns of a CSV file; told from its first rows if ``None``.
        label_kind: ``"class"``, or ``"number"`` for labels that are numbers to be predicted.
        task: ``"classification"`` or ``"regression"``; told from ``label_kind`` or the model if
            ``None``.
        pairs: Pairs of features to draw surfaces of.
        samples: Rows that distances, curves and detection are computed from.
        directions: Sampled directions per family.
        engine: ``"local"``, or ``"ray"`` to spread the row-parallel parts over a Ray cluster.
        guard: Whether to fit a guard, on all rows as :func:`farfield.guard` does, and to compare
            before with after. ``"sample"`` fits one on a sample of a table, in about a second, if
            that can be done; the command line does so by default.
        show_rows: Whether surfaces show rows of the data; else only where many of them are.
        expected_accuracy: What the model's makers report; a warning if the rows say otherwise.
        entry_rows: Rows that errors of data entry are made in: a number, ``"all"``, or ``None`` for
            as many of the sample as take about a second.
        allow_code: Whether ``model`` may name a Python function to be imported and run.
        evidence: ``"exact"`` refuses models that cannot be followed, ``"sampled"`` only evaluates
            the model whether or not it can be, ``"auto"`` is exact wherever that is possible.
        policy: Budgets, severities and accepted findings: a path to a ``farfield.toml``, or what
            stands in one.
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
        threshold,
        max_blind,
        samples,
        directions,
        tuple(pairs),
        engine,
        int(random_state),
        show_rows,
        expected_accuracy,
        entry_rows,
    )
    started = time.perf_counter()
    held_to = as_policy(policy)
    files = at_hand(
        model,
        X,
        y,
        label,
        schema=schema,
        categorical=categorical,
        ignore=ignore,
        delimiter=delimiter,
        impute=impute,
        ood=[f"{name}={rows}" for name, rows in (ood or {}).items() if is_path(rows)],
        pair=[",".join(pair) for pair in pairs],
        class_names=",".join(map(str, class_names or ())),
        label_kind=label_kind,
        task=task,
        guard=guard is True,
        show_rows=show_rows,
        allow_code=allow_code,
        evidence=None if evidence == "auto" else evidence,
        config=policy if is_path(policy) else None,
        **settings.changed(),
    )
    given: dict[str, Any] = {
        "ood": ood,
        "class_names": class_names,
        "label_kind": label_kind,
        "task": task,
        "guard": guard,
        "allow_code": allow_code,
        "progress": progress,
        "features": features,
        "label": label,
        "schema": schema,
        "categorical": categorical,
        "ignore": ignore,
        "impute": impute,
        "delimiter": delimiter,
    }
    with opened(model, X, y, settings, evidence=evidence, **given) as case:
        try:
            return judged(_conclude(case, started, files), held_to)
        except NotFollowed as error:
            # Some ray has no limit that can be followed, though those tried at first had one.
            if evidence != "auto" or not can_be_asked(case.loaded.original):
                raise
            because = " ".join(error.reason.split())
    with opened(model, X, y, settings, evidence="sampled", because=because, **given) as case:
        return judged(_conclude(case, started, files), held_to)


def _conclude(case: Case, started: float, files: AtHand) -> Audit:
    """Compute every part of an audit; ``started`` is when that began."""
    found = compute(case)
    subject, settings = case.subject, case.settings
    files = replace(files, in_python=_only_in_python(case))
    seen_to = None if subject.exact else OUTMOST
    judged = verdict(found["families"], settings, subject.task, seen_to)
    if case.given_guard is not None:
        judged = guarded_verdict(judged, settings, case.given_guard)
    doubts = cautions(found["health"], subject.task, settings.expected_accuracy)
    return Audit(
        warnings=(*case.warnings, *doubts),
        verdict=judged,
        task=subject.task,
        model=model_facts(case.loaded, subject),
        data=data_facts(case.source, subject, case.data),
        remedies=remedies(subject, files),
        provenance=provenance(case, files, started),
        at_hand=files,
        **found,
    )


def _only_in_python(case: Case) -> bool:
    """Whether trees split by sets of categories, which no file of a guard compares as they do."""
    words = any(column.categorical for column in case.source.columns)
    return words and case.loaded.kind == "trees"
