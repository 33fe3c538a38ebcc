"""Read a fitted object of scikit-learn into a program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

import farfield.graph.scikit.affine
import farfield.graph.scikit.bayes
import farfield.graph.scikit.boosting
import farfield.graph.scikit.calibrated
import farfield.graph.scikit.curves
import farfield.graph.scikit.discriminant
import farfield.graph.scikit.encoders
import farfield.graph.scikit.ensembles
import farfield.graph.scikit.gaussian_process
import farfield.graph.scikit.growing
import farfield.graph.scikit.imputers
import farfield.graph.scikit.linear
import farfield.graph.scikit.neighbours
import farfield.graph.scikit.networks
import farfield.graph.scikit.pairs
import farfield.graph.scikit.pipelines
import farfield.graph.scikit.polynomials
import farfield.graph.scikit.powers
import farfield.graph.scikit.support_vectors
import farfield.graph.scikit.trees  # noqa: F401 - importing registers the readers
from farfield.errors import CaptureError, NotFollowed
from farfield.graph.program import forward
from farfield.graph.reading import InputColumn, Reading, Wire, Writer
from farfield.graph.scikit.registry import Table, classify, kind_of
from farfield.graph.scikit.sources import ColumnUse, sources


def read_scikit(model: Any) -> Reading:
    """Read a fitted classifier or a pipeline that ends in one.

    Raises:
        CaptureError: If it is not fitted, or no classifier.
        NotFollowed: If parts of it cannot be followed; all of them are listed.
    """
    names = _names(model)
    uses = [
        ColumnUse(f"column {place}" if name is None else f"column {name!r}")
        for place, name in enumerate(names)
    ]
    blank = [InputColumn(name) for name in names]
    _survey(model, blank, uses)
    columns = tuple(use.column(name) for use, name in zip(uses, names, strict=True))
    writer = Writer(len(columns))
    scores = classify(writer, Table(writer.input, sources(columns, uses)), model)
    return Reading(
        writer.program(scores.value),
        writer.constants,
        scores.link,
        tuple(model.classes_.tolist()),
        _checked(writer, scores.value, columns),
        tuple(dict.fromkeys(writer.notes)),
    )


def _names(model: Any) -> list[str | None]:
    """The names of the input columns, as far as the model knows them."""
    first = model
    while hasattr(first, "steps"):  # a pipeline whose first steps pass columns on knows none
        parts = (part for _, part in first.steps if part not in (None, "passthrough"))
        first = next(parts, None)
    count = getattr(first, "n_features_in_", None)
    if count is None:
        classes = getattr(model, "classes_", None)
        if classes is None:
            raise CaptureError(f"{kind_of(model)} is not fitted; call fit first")
        raise NotFollowed(f"{kind_of(model)} does not know how many columns it takes.")
    names = getattr(first, "feature_names_in_", None)
    return [None] * int(count) if names is None else [str(name) for name in names]


def _survey(model: Any, blank: list[InputColumn], uses: list[ColumnUse]) -> None:
    """Read once to see what becomes of each column, and all that stands in the way."""
    refusals: list[NotFollowed] = []
    writer = Writer(len(blank), refusals)
    try:
        classify(writer, Table(writer.input, sources(blank, uses)), model)
    except CaptureError:
        if not refusals:
            raise
    if len(refusals) == 1:
        raise refusals[0]
    if refusals:
        reasons = dict.fromkeys(each.reason for each in refusals)
        listed = "\n".join(f"  {reason}" for reason in reasons)
        advice = next((each.advice for each in refusals if not each.advice), refusals[0].advice)
        raise NotFollowed(
            f"{len(refusals)} parts of {kind_of(model)} cannot be followed:\n{listed}", advice
        )


def _checked(
    writer: Writer, output: Wire, columns: tuple[InputColumn, ...]
) -> tuple[InputColumn, ...]:
    """See that gaps, and unseen categories, which parts say they take do not end as no answer."""
    tried = [(place, torch.nan) for place, column in enumerate(columns) if column.missing]
    tried += [(place, -1.0) for place, column in enumerate(columns) if column.unseen]
    rows = torch.zeros(len(tried) + 1, len(columns), dtype=torch.float64)
    for row, (place, value) in enumerate(tried):
        rows[row, place] = value
    answers = forward(writer.program(output), rows, writer.constants) if tried else rows
    if bool(answers[-1].isnan().any()):
        return columns
    lost = [each for each, bad in zip(tried, answers.isnan().any(dim=1), strict=False) if bad]
    gaps = {place for place, value in lost if value != -1.0}
    strange = {place for place, value in lost if value == -1.0}
    return tuple(
        replace(
            column,
            missing=column.missing and place not in gaps,
            unseen=column.unseen and place not in strange,
        )
        for place, column in enumerate(columns)
    )
