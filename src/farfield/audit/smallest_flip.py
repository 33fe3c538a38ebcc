"""The smallest change of one column that changes the class: of any model, of rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from farfield.audit.case import Case
from farfield.audit.crosscheck import own_answers_of
from farfield.audit.opened import opened
from farfield.audit.opening import Evidence
from farfield.audit.settings import Settings
from farfield.audit.subject import Floats, Subject
from farfield.data import TableColumn
from farfield.errors import InputError, UnsupportedOperation
from farfield.evaluate.single_changes import Ask
from farfield.evaluate.smallest_flip import SmallestFlip, own_answers, smallest_changes
from farfield.exact.piecewise import require_piecewise_affine
from farfield.graph.network import Network
from farfield.levels import SURE


def smallest_flip(
    model: Any, X: Any, *, level: float = SURE, evidence: Evidence = "auto", **reading: Any
) -> SmallestFlip:
    """Find the smallest change of every single column that changes the class of every row.

    Exact for piecewise-affine networks, trees and pipelines of them: no smaller change does it, but
    for the last digits of a float, and the model itself says another class there. Others are looked
    at in places, out to half a million standard deviations, and ``exact`` is false for them.

    Args:
        model: Whatever :func:`farfield.audit` takes.
        X: Rows: an array, a DataFrame, or a path.
        level: The confidence of the second answer, ``sure``.
        evidence: ``"exact"`` refuses models that cannot be walked; ``"sampled"`` only asks.
        **reading: How model and data are read, as for :func:`farfield.audit`; bounds of a
            ``schema`` are not left.

    Returns:
        ``(rows, columns)`` signed changes, infinite where none changes the class.

    Raises:
        InputError: For regressors and images.
        UnsupportedOperation: With ``evidence="exact"``, for models that cannot be walked.

    >>> import torch
    >>> import farfield as ff
    >>> layer = torch.nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> layer.bias.data = torch.tensor([0.0, 3.0])
    >>> flip = ff.smallest_flip(layer, [[0.0, 0.0], [4.0, 0.0]])
    >>> flip.change.tolist()
    [[1.5, inf], [-2.5..., inf]]
    """
    if not 0 < level < 1:
        raise InputError(f"level must lie strictly between 0 and 1, got {level}; try {SURE}")
    with opened(model, X, None, Settings(), evidence=evidence, **reading) as case:
        if not (case.classifies and case.is_table):
            raise InputError(
                "the smallest change of a column is told of classifiers of tables; got "
                f"{'a regressor' if case.is_table else 'images'}"
            )
        if evidence == "exact":
            require_piecewise_affine(case.subject.network, "a walk along columns")
        rows = np.asarray(case.source.read(np.float64).X)
        return flips_of(case, rows, [_as_number(each) for each in case.subject.moving], level)


def _as_number(column: TableColumn) -> TableColumn:
    """What is 0 and 1 in some rows may well be a number."""
    return replace(column, binary=False, low=-math.inf, high=math.inf) if column.binary else column


def flips_of(
    case: Case, rows: Floats, columns: Sequence[TableColumn], level: float = SURE
) -> SmallestFlip:
    """The smallest changes of columns in rows of a case, confirmed by the model itself."""
    subject = case.subject
    walked = subject.model if is_walkable(subject) else None
    return smallest_changes(walked, _ask(case), rows, columns, subject.scale, level)


def is_walkable(subject: Subject) -> bool:
    """Whether rays of a model can be followed piece by piece."""
    if not isinstance(subject.model, Network):
        return False
    try:
        require_piecewise_affine(subject.model, "a walk along columns")
    except UnsupportedOperation:
        return False
    return True


def _ask(case: Case) -> Ask:
    """What the model itself says: the original wherever it answers as what was captured from it."""
    network = own_answers(case.subject.model)
    original = own_answers_of(case.loaded.original, case.subject, case.source, case.data)
    if original is None:
        return network

    def ask(rows: Floats) -> Floats:
        found = original(rows)
        return network(rows) if found is None else np.nan_to_num(found, nan=0.0)

    return ask
