"""Guard a model: the same classes everywhere, the same numbers near its data, none far away."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.data.columns import Categorical, Columns, read_columns
from farfield.distributions import as_distributions
from farfield.errors import CaptureError, InputError
from farfield.graph.models import capture
from farfield.guard.drawn import MIN_ROWS, Drawn, Options, codes_of, draw, some
from farfield.guard.fit import Maker
from farfield.guard.function import GuardedFunction
from farfield.guard.make import Draft, Goal, make
from farfield.guard.members import (
    Held,
    Onlooker,
    Predict,
    hold,
    own_probabilities,
    predictor,
    watch,
    watched,
)
from farfield.guard.model import GuardedModel
from farfield.guard.regressor import GuardedRegressor, Spread, spread_of, target_deviation
from farfield.guard.views.units import MetricKind
from farfield.levels import EPSILON, KEEP, RADII

Floats = NDArray[np.float64]
# Rows that a model is tried on when it is taken up.
EXAMPLE = 64


def guard(
    model: Any,
    X: Any,
    *,
    radii: float = RADII,
    epsilon: float = EPSILON,
    keep: float = KEEP,
    held_out: Any = 0.1,
    labels: Any = None,
    categorical: Categorical | None = None,
    numeric: Sequence[int | str] = (),
    metric: MetricKind | None = None,
    min_rows: int = MIN_ROWS,
    random_state: int = 0,
) -> GuardedModel | GuardedFunction | GuardedRegressor:
    """Guard a model, with a certificate.

    The guarded model predicts the same class everywhere, gives bit-identical probabilities where
    the data is, and beyond ``radii`` data radii from the mean no class of any input exceeds
    ``1 / K + epsilon``, whatever the model does. ``docs/guard.md`` has the construction and the
    proof.

    Args:
        model: Anything that :func:`farfield.capture` reads, any module that returns logits or
            probabilities, anything with ``predict_proba``, or a function that returns
            probabilities. Of several instances the mean probability is guarded. Of a regressor
            with ``predict(X, return_std=True)`` the deviation is made to grow.
        X: ``(rows, *input)`` training rows, an array or a DataFrame; no labels are needed. Of more
            than 100,000 a sample is made use of, with the ranges of all.
        radii: Within how many data radii the promise is to hold. The data radius is the largest
            distance from the mean of a training row in the covered set, but at least one unit and
            half of the set's own radius.
        epsilon: How far any class may be above ``1 / K`` there.
        keep: The share of new rows that is to stay bit-identical. A guard that misses it on
            held-out rows is not made.
        held_out: Rows that only count how many are inside: rows, or a share of ``X``.
        labels: ``(rows,)`` classes of ``X`` from 0 to K - 1, if known: the covered set is then made
            large enough for the likelihood of unseen rows, else for the model's own predictions.
            For a regressor the targets, whose deviation is what the spread grows by.
        categorical: Positions or names of columns of codes, and lists of them for one-hot blocks.
            Columns of words in a DataFrame are categories in any case; of columns of 0 and 1 any
            other value is outside.
        numeric: Positions or names of columns that are numbers, though ``X`` has only 0 and 1.
        metric: ``"full"``, ``"diagonal"`` or ``"isotropic"``; chosen by the rows if not given,
            isotropic for images.
        min_rows: No mean of fewer rows is stored, so that no row can be read from the guard.
        random_state: Seed of the split, of k-means and of the folds.

    Returns:
        A module on the CPU, if the model is one or can be read as one; else a function, or a
        regressor. All have ``.certificate``, ``.is_inside`` and ``.explain``.

    Raises:
        InputError: For rows or options that cannot be used, and for a promise that cannot be
            kept; the message says what can.

    >>> from farfield.datasets import half_moons
    >>> from torch import nn
    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> safe = guard(net, half_moons(0).X)
    >>> far = torch.tensor([[1e6, -1e6]])
    >>> bool(torch.softmax(safe(far), dim=1).max() <= 0.51)
    True
    """
    options = Options(
        radii, epsilon, keep, held_out, labels, categorical, numeric, metric, min_rows, random_state
    )
    spread = spread_of(model)
    if spread is not None:
        return guard_regressor(spread, X, options)
    if _predicts_numbers(model):
        raise InputError(
            f"{type(model).__name__} is a regressor that gives no deviations; a guard makes those "
            "grow, so it needs predict(X, return_std=True), as GaussianProcessRegressor, "
            "BayesianRidge and farfield.EnsembleRegressor have it"
        )
    inner = _take_up(model, X)
    if not isinstance(inner, Held):
        return guard_function(inner, X, options)
    columns = read_columns(X, inner.input_shape, categorical, inner.features)
    drawn = draw(X, columns, options, inner.classes)
    rows = columns.read(drawn.X, "X")
    # What it does, operation by operation, has been of use; the guard keeps one model.
    held, telling = replace(inner, program=None), watched(inner)
    draft = _made(
        drawn,
        rows,
        columns,
        inner.classes,
        lambda places: own_probabilities(held, rows[places]),
        look=None if telling is None else watch(telling),
    )
    if draft.covered.inner is not None and telling is not None:
        held = telling
    dtype = str(held.dtype).removeprefix("torch.")
    more = {"dtype": dtype, "members": len(held.modules)}
    certificate = draft.certificate.model_copy(update=more)
    return GuardedModel(held, draft.covered, columns, certificate)


def _predicts_numbers(model: Any) -> bool:
    """Whether a model is a regressor of scikit-learn, or of a library with its interface."""
    if not hasattr(model, "__sklearn_tags__"):
        return False
    from sklearn.base import is_regressor  # whoever has such a model has loaded it already

    return bool(is_regressor(model))


def guard_function(predict: Predict, X: Any, options: Options) -> GuardedFunction:
    """Guard a function of rows that returns probabilities.

    Args:
        predict: The function.
        X: ``(rows, *input)`` training rows, an array or a DataFrame.
        options: Of the guard.
    """
    columns = read_columns(X, None, options.categorical)
    if len(X) == 0:
        raise InputError("X is empty; pass the rows that the model was trained on")
    first = np.arange(min(2, len(X)))
    classes = int(as_distributions(predict(some(X, first)), len(first)).shape[1])
    drawn = draw(X, columns, options, classes)
    rows = columns.read(drawn.X, "X")

    def ask(places: NDArray[np.intp]) -> Floats:
        own = as_distributions(predict(some(drawn.X, places)), len(places), classes)
        return np.asarray(own, dtype=np.float64)

    draft = _made(drawn, rows, columns, classes, ask)
    return GuardedFunction(predict, classes, draft.covered, columns, draft.certificate)


def guard_regressor(spread: Spread, X: Any, options: Options) -> GuardedRegressor:
    """Guard a regressor: from rows to means and deviations."""
    columns = read_columns(X, None, options.categorical)
    drawn = draw(X, columns, replace(options, labels=None), 0)
    rows = columns.read(drawn.X, "X")
    scale = target_deviation(options.labels, spread(drawn.X)[0])
    draft = _made(drawn, rows, columns, 0, lambda places: rows[places], scale)
    return GuardedRegressor(spread, draft.covered, columns, draft.certificate)


def _made(
    drawn: Drawn,
    rows: Floats,
    columns: Columns,
    classes: int,
    ask: Callable[[NDArray[np.intp]], Floats],
    spread: float = 0.0,
    look: Onlooker | None = None,
) -> Draft:
    """Divide rows into those to fit on and those to count, and make a guard."""
    options = drawn.options
    known = codes_of(options.labels, len(rows), classes)
    seed = options.random_state
    inside, unseen, kept = _divide(rows, columns, options.held_out, options.min_rows, seed)
    draft = make(
        Maker(columns, options.metric, options.min_rows, seed, look),
        inside,
        unseen,
        Goal(options.radii, options.epsilon, options.keep, classes, spread),
        lambda places: ask(kept[places]),
        None if known is None else known[kept],
        drawn.ends,
        drawn.parts,
        drawn.bits,
    )
    notes = (*drawn.notes, *draft.certificate.notes)
    return replace(draft, certificate=draft.certificate.model_copy(update={"notes": notes}))


def _take_up(model: Any, X: Any) -> Held | Predict:
    """A module, or a function of rows that returns probabilities."""
    if isinstance(model, str | os.PathLike):
        model = capture(model)
    predict = predictor(model)
    if predict is not None and (predict is model or _holds_words(X)):
        return predict
    try:
        some = X[:EXAMPLE]
        if isinstance(some, torch.Tensor):
            return hold(model, some.double())
        return hold(model, torch.from_numpy(np.array(some, dtype=np.float64)))
    except CaptureError:
        if predict is None:
            raise
        return predict


def _holds_words(X: Any) -> bool:
    kinds = X.dtypes if hasattr(X, "iloc") and hasattr(X, "columns") else ()
    return any(kind.kind not in "fiub" for kind in kinds)


def _divide(
    rows: Floats, columns: Columns, held_out: Any, min_rows: int, seed: int
) -> tuple[Floats, Floats | None, NDArray[np.intp]]:
    """Training rows, held-out rows, and the positions of the former in ``X``."""
    everything = np.arange(len(rows))
    if held_out is None:
        return rows, None, everything
    if not isinstance(held_out, float | int):
        return rows, columns.read(held_out, "held_out"), everything
    if not 0 <= held_out < 1:
        raise InputError(f"held_out must be rows, or a share in [0, 1), got {held_out!r}")
    count = min(int(held_out * len(rows)), len(rows) - min_rows)
    if count <= 0:
        return rows, None, everything
    order = np.random.default_rng([seed, 1]).permutation(len(rows))
    kept = np.sort(order[count:])
    return rows[kept], rows[order[:count]], kept
