"""Guard a model: the same classes everywhere, the same numbers near its data, none far away."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError
from farfield.evaluate.estimate import clopper_pearson
from farfield.graph.export import as_example
from farfield.graph.rows import as_rows
from farfield.guard.bounds import (
    BATCH,
    GrowthBound,
    growth_bounds,
    held_dtype,
    plain_logits,
    roundoff,
)
from farfield.guard.calibrate import Plan, Setting, choose_plan, information_lost
from farfield.guard.certificate import Certificate, Coverage
from farfield.guard.columns import (
    Categorical,
    describe_metric,
    fit_metric,
    read_columns,
    seen_combinations,
)
from farfield.guard.cover import fit_cover
from farfield.guard.feature_guard import FeatureGuard, fit_feature_guard
from farfield.guard.members import Held, hold, own_array
from farfield.guard.model import GuardedModel
from farfield.guard.promise import tolerance
from farfield.guard.whitening import MetricKind, Whitening

METHODS = {
    "operator norms": "operator norms of the layers, multiplied",
    "affine forms": "affine forms: merged layers, joint and per-unit Lipschitz bounds",
    "direction cones": "slopes at infinity over all directions, by branching on cones",
    "given": "given by the user, not proven here",
}


def guard(
    model: Any,
    X: Any,
    *,
    radii: float = 3.0,
    epsilon: float = 0.01,
    prototypes: int = 64,
    held_out: Any = 0.1,
    labels: Any = None,
    categorical: Categorical | None = None,
    growth: GrowthBound | None = None,
    metric: MetricKind | None = None,
    features: bool = False,
    random_state: int = 0,
) -> GuardedModel:
    """Guard a model, with a certificate.

    The guarded model predicts the same class everywhere, gives bit-identical probabilities where
    the data is, and beyond ``radii`` data radii from the mean no class of any input exceeds
    ``1 / K + epsilon``. ``docs/guard.md`` has the construction and the proof.

    Args:
        model: Anything that :func:`farfield.capture` reads. Of several instances the logarithm of
            their mean probability is guarded.
        X: ``(rows, *input)`` training rows; no labels are needed.
        radii: Beyond how many data radii the promise is to hold. The data radius is the largest
            distance from the mean of a training row in the covered set, or half of the set's own
            radius if that is more.
        epsilon: How far any class may be above ``1 / K`` there.
        prototypes: Number of balls that cover the data; fewer where rows are fewer.
        held_out: Rows that only count how many are inside: an array, or a share of ``X``.
        labels: ``(rows,)`` classes of ``X`` from 0 to K - 1, if known: the covered set is then made
            large enough for the likelihood of unseen rows, else for the model's own predictions.
        categorical: Positions of columns of codes, and lists of positions of one-hot blocks. A
            combination that was not seen counts as distance.
        growth: For models whose growth cannot be bounded here: L with ``|z_i - z_j|`` changing by
            at most ``L |x - y|`` between inputs, or ``(a, L)`` with
            ``|z_i - z_j| <= a + L |x - mean|`` everywhere. In units of the inputs; not checked.
        metric: ``"full"``, ``"diagonal"`` or ``"isotropic"``; chosen by the rows if not given,
            isotropic for images.
        features: Add a second guard on penultimate features. It makes no promise of its own.
        random_state: Seed of the split, of k-means and of the folds.

    Returns:
        The guarded model, a module on the CPU; ``.certificate`` is its promise.

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
    _check_options(radii, epsilon, prototypes, random_state)
    X = own_array(X)
    example = as_example(X)
    held = hold(model, example, unread=growth is not None)
    rows = _rows(X, held, "X")
    inside, outside, kept = _divide(rows, held_out, held, random_state)
    columns = read_columns(categorical, math.prod(held.input_shape))
    flat = inside.double().flatten(1).numpy()
    if metric is None and len(held.input_shape) > 1:
        metric = "isotropic"
    whitening = fit_metric(flat, columns, metric)
    units = _units(whitening, flat)
    seen = seen_combinations(units, columns, random_state)
    base, scores, fresh = fit_cover(units[:, list(columns.numeric)], prototypes, random_state)
    bounds = growth_bounds(held, whitening, base, seen, columns, growth)
    codes = _codes(labels, len(rows), held.classes)
    logits = plain_logits(held, inside[torch.from_numpy(fresh)])
    setting = Setting(
        units=units,
        places=columns.numeric,
        base=base,
        other_reach=0.0 if seen is None else seen.reach,
        bounds=bounds,
        scores=scores,
        lost=information_lost(logits, None if codes is None else codes[kept][fresh]),
        classes=held.classes,
        roundoff=roundoff(held),
        condition=whitening.condition(),
    )
    plan = choose_plan(setting, radii, epsilon)
    inner = fit_feature_guard(held, inside, prototypes, random_state) if features else None
    metric_text = describe_metric(whitening, columns, seen)
    draft = _certificate(plan, setting, held, metric_text, epsilon, inner)
    places = (columns.numeric, columns.categorical)
    safe = GuardedModel(held, whitening, plan.cover, seen, places, draft, inner)
    safe.certificate = _counted(draft, safe, inside, outside)
    return safe


def _check_options(radii: float, epsilon: float, prototypes: int, random_state: int) -> None:
    if not (isinstance(radii, float | int) and 0 < radii < math.inf):
        raise InputError(f"radii must be a positive number, got {radii!r}")
    if not (isinstance(prototypes, int) and prototypes > 0):
        raise InputError(f"prototypes must be a positive whole number, got {prototypes!r}")
    if not (isinstance(random_state, int) and random_state >= 0):
        raise InputError(f"random_state must be a whole number >= 0, got {random_state!r}")
    if not (isinstance(epsilon, float | int) and 0 < epsilon < 1):
        raise InputError(f"epsilon must lie between 0 and 1, got {epsilon!r}")


def _rows(values: Any, held: Held, what: str) -> Tensor:
    return as_rows(values, held.input_shape, held_dtype(held), torch.device("cpu"), what)


def _divide(
    rows: Tensor, held_out: Any, held: Held, seed: int
) -> tuple[Tensor, Tensor | None, NDArray[np.intp]]:
    """Training rows, held-out rows, and the positions of the former in ``X``."""
    everything = np.arange(len(rows))
    if held_out is None:
        return rows, None, everything
    if not isinstance(held_out, float | int):
        return rows, _rows(own_array(held_out), held, "held_out"), everything
    if not 0 <= held_out < 1:
        raise InputError(f"held_out must be rows, or a share in [0, 1), got {held_out!r}")
    count = int(held_out * len(rows))
    if count == 0:
        return rows, None, everything
    order = np.random.default_rng([seed, 1]).permutation(len(rows))
    kept = np.sort(order[count:])
    return rows[torch.from_numpy(kept)], rows[torch.from_numpy(order[:count])], kept


def _units(metric: Whitening, flat: NDArray[np.float64]) -> NDArray[np.float64]:
    parts = [metric.apply(part).numpy() for part in torch.from_numpy(flat).split(BATCH)]
    return np.concatenate(parts)


def _codes(labels: Any, rows: int, classes: int) -> Tensor | None:
    if labels is None:
        return None
    codes = np.asarray(labels)
    if codes.shape != (rows,) or codes.dtype.kind not in "iu":
        raise InputError(
            f"labels must be whole numbers of shape ({rows},), got {codes.dtype} {codes.shape}"
        )
    if len(codes) and not (codes.min() >= 0 and codes.max() < classes):
        raise InputError(
            f"labels must lie between 0 and {classes - 1}, got {codes.min()} to {codes.max()}"
        )
    return torch.from_numpy(codes.astype(np.int64))


def _certificate(
    plan: Plan,
    setting: Setting,
    held: Held,
    metric: str,
    epsilon: float,
    inner: FeatureGuard | None,
) -> Certificate:
    found = plan.bounded.growth
    notes = []
    if inner is not None:
        notes.append("a second guard on penultimate features makes no promise of its own")
    if len(held.modules) > 1:
        notes.append("the logarithm of the mean probability over instances is guarded")
    if setting.other_reach:
        notes.append("a combination of categories that was not seen counts as distance")
    if found.method == "given":
        notes.append("the growth bound was given by the user and is not proven")
    radius = plan.reach + plan.distance
    return Certificate(
        classes=held.classes,
        epsilon=float(epsilon),
        radius=radius,
        radii=radius / plan.data_radius,
        data_radius=plan.data_radius,
        cover_radius=plan.reach,
        distance=plan.distance,
        unit=plan.unit,
        offset=plan.line.offset,
        slope=plan.line.slope,
        tolerance=tolerance(held.classes, epsilon),
        slack=plan.slack,
        growth=found,
        anchored=found.lipschitz and plan.bounded.anchors is not None,
        metric=metric,
        method=METHODS[found.method],
        prototypes=len(plan.cover.prototypes),
        coverage=plan.coverage,
        training=Coverage(0, 1),
        held_out=None,
        dtype=str(held_dtype(held)).removeprefix("torch."),
        members=len(held.modules),
        notes=tuple(notes),
    )


def _counted(
    draft: Certificate, safe: GuardedModel, inside: Tensor, outside: Tensor | None
) -> Certificate:
    """Count rows inside with the finished guard itself."""
    training = Coverage(_count(safe, inside), len(inside))
    if outside is None:
        return replace(draft, training=training)
    count = _count(safe, outside)
    interval = clopper_pearson(count, len(outside))
    held_out = Coverage(count, len(outside), interval.low, interval.high, interval.level)
    return replace(draft, training=training, held_out=held_out)


def _count(safe: GuardedModel, rows: Tensor) -> int:
    with torch.no_grad():
        return sum(int((safe.temperature(part) == 1.0).sum()) for part in rows.split(BATCH))
