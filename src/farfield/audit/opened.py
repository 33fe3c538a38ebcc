"""A case from whatever a user gives: a model, its data, and how to read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from farfield.audit.case import Case, Progress, nobody_watches, open_case
from farfield.audit.fields.kinds import Task
from farfield.audit.given_guard import unguarded
from farfield.audit.opening import ASKED_FOR, Evidence, open_both
from farfield.audit.settings import Settings, WantsGuard
from farfield.data import LabelKind


@contextmanager
def opened(
    model: Any,
    X: Any,
    y: Any,
    settings: Settings,
    *,
    ood: Mapping[str, Any] | None = None,
    class_names: Sequence[str] | None = None,
    label_kind: LabelKind | None = None,
    task: Task | None = None,
    guard: WantsGuard = False,
    allow_code: bool = False,
    evidence: Evidence = "auto",
    because: str = ASKED_FOR,
    progress: Progress | None = None,
    **reading: Any,
) -> Iterator[Case]:
    """Open a model and its data; what it means is said at :func:`farfield.audit`."""
    with unguarded(model) as given:
        if task is None and label_kind is not None:
            task = "regression" if label_kind == "number" else "classification"
        loaded, source, task = open_both(
            given.model,
            X,
            y,
            task=task,
            evidence=evidence,
            because=because,
            allow_code=allow_code,
            class_names=class_names,
            random_state=settings.seed,
            **reading,
        )
        if guard == "sample":
            wanted = task == "classification" and not source.is_image
        else:
            wanted = bool(guard)
        yield open_case(
            settings,
            given.renamed(loaded),
            source,
            task,
            data=X,
            ood=ood or {},
            class_names=class_names,
            progress=progress or nobody_watches,
            given_guard=given.around(loaded),
            wants_guard=given.guarded or wanted,
            asked_guard=given.guarded or guard is True,
        )
