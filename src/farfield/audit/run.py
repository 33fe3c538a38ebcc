"""The audit: a model and its data in, plain findings out."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from sklearn.base import is_regressor
from torch import nn

from farfield.audit.black_box import OUTMOST
from farfield.audit.case import Case, Progress, open_case
from farfield.audit.cautions import cautions
from farfield.audit.evaluators import black_box, can_be_asked, own_imputation, told
from farfield.audit.facts import data_facts, model_facts, provenance
from farfield.audit.findings import Task
from farfield.audit.given_guard import unguarded
from farfield.audit.models import FACTORY, Kind, LoadedModel, call_factory, load_model
from farfield.audit.record import Audit
from farfield.audit.remedies import remedies
from farfield.audit.sections import compute
from farfield.audit.settings import EngineName, Settings
from farfield.audit.verdicts import guarded_verdict, verdict
from farfield.data import Expected, LabelKind, Source, open_data
from farfield.errors import CaptureError, InputError, NotFollowed
from farfield.graph.onnx.reader import TAKES_MISSING

Evidence = Literal["auto", "exact", "sampled"]


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
    guard: bool = False,
    show_rows: bool = False,
    expected_accuracy: float | None = None,
    allow_code: bool = False,
    evidence: Evidence = "auto",
    random_state: int = Settings.seed,
    progress: Progress | None = None,
) -> Audit:
    """Find out what a model does far away from its data.

    Args:
        model: Whatever :func:`farfield.capture` takes, a path to a model, or one that
            :func:`farfield.audit.models.load_model` has read; and whatever gives probabilities
            when asked: a classifier with ``predict_proba``, a function, any ONNX file that
            onnxruntime runs. Those that cannot be followed exactly are sampled, and say so.
        X: The data that the model was trained on: an array, a DataFrame, or a path.
        y: Labels, if ``X`` does not hold them.
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
        guard: Whether to fit a guard and compare before with after.
        show_rows: Whether surfaces show rows of the data; else only where many of them are.
        expected_accuracy: What the model's makers report; a warning if the rows say otherwise.
        allow_code: Whether ``model`` may name a Python function to be imported and run.
        evidence: ``"exact"`` refuses models that cannot be followed, ``"sampled"`` only evaluates
            the model whether or not it can be, ``"auto"`` is exact wherever that is possible.
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
    )
    started = time.perf_counter()
    with unguarded(model) as given:
        model = given.model
        loaded = model if isinstance(model, LoadedModel) else _load_early(model, evidence)
        if task is None and label_kind is not None:
            task = "regression" if label_kind == "number" else "classification"
        regression = _task(model, loaded, task) == "regression"
        source = open_data(
            X,
            y,
            features=features,
            class_names=class_names,
            label=label,
            schema=schema,
            categorical=categorical,
            ignore=ignore,
            impute=impute,
            delimiter=delimiter,
            label_kind="number" if regression else "class",
            expected=told(model) if loaded is None else expected(loaded, regression=regression),
            random_state=settings.seed,
        )
        if loaded is None:
            loaded = load_with(model, source, X, evidence, allow_code)
        loaded = given.renamed(loaded)
        case = open_case(
            settings,
            loaded,
            _task(model, loaded, task),
            source,
            data=X,
            ood=ood or {},
            class_names=class_names,
            progress=progress or _quiet,
            given_guard=given.around(loaded),
            wants_guard=guard or given.guarded,
        )
        return conclude(case, started)


def conclude(case: Case, started: float) -> Audit:
    """Compute every part of an audit, and judge.

    Args:
        case: The model and its data.
        started: When that began, by ``time.perf_counter``.
    """
    found = compute(case)
    doubts = cautions(found["health"], case.task, case.settings.expected_accuracy)
    seen_to = None if case.subject.exact else OUTMOST
    judged = verdict(found["families"], case.settings, case.task, seen_to)
    if case.given_guard is not None:
        judged = guarded_verdict(judged, case.settings, case.given_guard)
    return Audit(
        warnings=(*case.warnings, *doubts),
        verdict=judged,
        task=case.task,
        model=model_facts(case.loaded, case.subject.classes),
        data=data_facts(case.source, case.subject, case.data),
        remedies=remedies(case.task, case.subject),
        provenance=provenance(case.settings, started),
        **found,
    )


def expected(loaded: LoadedModel, *, regression: bool) -> Expected:
    """What a model says about the data that it takes."""
    network = loaded.network
    return Expected(
        math.prod(network.input_shape),
        loaded.feature_names,
        None if regression else network.classes,
        None if regression else loaded.class_labels,
        "median" if TAKES_MISSING in network.notes else own_imputation(loaded.estimator),
    )


def _load_early(model: Any, evidence: Evidence) -> LoadedModel | None:
    """Load a model that knows its input's shape; others wait for a row of the data."""
    if evidence not in get_args(Evidence):
        options = ", ".join(map(repr, get_args(Evidence)))
        raise InputError(f"evidence must be one of {options}, got {evidence!r}")
    if isinstance(model, (nn.Module, list, tuple)) or evidence == "sampled":
        return None
    if isinstance(model, str) and FACTORY.fullmatch(model):
        return None
    try:
        return load_model(model)
    except CaptureError:
        # Perhaps it only lacks an example; if not, the same error comes again with one.
        return None


def load_with(
    model: Any, source: Source, data: Any, evidence: Evidence, allow_code: bool
) -> LoadedModel:
    """Load a model with the help of the data; what cannot be followed can perhaps be asked."""
    is_factory = isinstance(model, str) and FACTORY.fullmatch(model) and not Path(model).exists()
    made = call_factory(model, allow_code) if is_factory else model
    kind: Kind = "factory" if is_factory else "object"
    where = str(model) if isinstance(model, (str, os.PathLike)) else type(model).__name__
    reason = "sampling was asked for"
    if evidence != "sampled":
        try:
            loaded = load_model(made, example=source.sample(1).X)
            return replace(loaded, kind=kind, where=where) if is_factory else loaded
        except NotFollowed as error:
            if evidence == "exact" or not can_be_asked(made):
                raise
            reason = " ".join(error.reason.split())
    elif not can_be_asked(made):
        raise InputError(
            f"evidence='sampled' needs a model that gives probabilities when asked: a classifier "
            f"with predict_proba, a function, a module or an .onnx file; got {where}"
        )
    if isinstance(made, (str, os.PathLike)):
        kind = "onnx"
    box = black_box(made, source, data, reason)
    estimator = made if hasattr(made, "fit") else None
    return LoadedModel(box, kind, where, box.labels, box.features, estimator)


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
