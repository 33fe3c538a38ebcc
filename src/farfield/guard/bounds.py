"""Every growth bound that can be had for a held model, and where it starts."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.graph.export import module_dtype
from farfield.guard.calibrate import Bounded
from farfield.guard.columns import Columns
from farfield.guard.cover import Cover
from farfield.guard.growth.bound import Growth, bound_growth
from farfield.guard.growth.cones import bound_by_cones
from farfield.guard.members import Held
from farfield.guard.whitening import Whitening

# Pairs of a prototype and a combination at which logits are evaluated.
MOST_ANCHORS = 20_000
BATCH = 8192
GrowthBound = float | tuple[float, float]


def roundoff(held: Held) -> float:
    """Unit roundoff of the model's floating-point type."""
    return float(torch.finfo(module_dtype(held.modules[0], torch.float64)).eps) / 2


def plain_logits(held: Held, rows: Tensor) -> Tensor:
    """The model's own logits; of several instances, the logarithm of the mean probability."""
    parts = []
    with torch.no_grad():
        for part in rows.split(BATCH):
            each = torch.stack([_as_classes(m(part).double(), held) for m in held.modules])
            log = torch.log_softmax(each, dim=-1)
            parts.append(torch.logsumexp(log, dim=0) - math.log(len(each)))
    return torch.cat(parts)


def _as_classes(values: Tensor, held: Held) -> Tensor:
    if not held.one_logit:
        return values
    logit = values.reshape(-1, 1)
    return torch.cat([torch.zeros_like(logit), logit], dim=1)


def growth_bounds(
    held: Held,
    metric: Whitening,
    base: Cover,
    seen: Cover | None,
    columns: Columns,
    growth: GrowthBound | None,
) -> tuple[Bounded, ...]:
    """Every growth bound there is."""
    anchors = _anchors(held, metric, base, seen, columns)
    tolerated = 0.0 if seen is None else float(seen.radii.max())
    if growth is not None:
        return (replace(_given(growth, held, metric, anchors), tolerated=tolerated),)
    if held.network is None:
        raise AssertionError("a model that could not be read needs a growth bound")
    first = bound_growth(held.network, metric, roundoff(held))
    cones = bound_by_cones(held.network, metric, first)
    found = [Bounded(first, anchors, tolerated)]
    if cones is not None:
        found.append(Bounded(cones, None))
    return tuple(found)


def _given(growth: GrowthBound, held: Held, metric: Whitening, anchors: Tensor | None) -> Bounded:
    """Take the user's bound to whitened units: ``|x - mean| <= |C| |u|``."""
    pair = (None, growth) if isinstance(growth, float | int) else tuple(growth)
    ok = len(pair) == 2 and all(
        part is None or (isinstance(part, float | int) and 0 <= part < math.inf) for part in pair
    )
    if not ok:
        raise InputError(f"growth must be L or (a, L), finite and not negative, got {growth!r}")
    directions, missed = metric.inverse()
    longest = float(torch.linalg.matrix_norm(directions, ord=2)) * (1 + 1e-9) + missed
    centre = plain_logits(held, metric.mean.reshape(1, *held.input_shape).to(held_dtype(held)))[0]
    start, slope = pair[0], float(pair[1] or 0.0) * longest
    offset = float(centre.max() - centre.min()) if start is None else float(start)
    bound = Growth("given", offset, slope, start is None)
    return Bounded(bound, anchors if start is None else None)


def held_dtype(held: Held) -> torch.dtype:
    """The model's floating-point type."""
    return module_dtype(held.modules[0], torch.float64)


def _anchors(
    held: Held, metric: Whitening, base: Cover, seen: Cover | None, columns: Columns
) -> Tensor | None:
    """Differences of logits at each prototype, the largest over combinations of categories."""
    others = 1 if seen is None else len(seen.prototypes)
    if len(base.prototypes) * others > MOST_ANCHORS:
        return None
    units = torch.zeros(len(base.prototypes), others, len(metric.mean), dtype=torch.float64)
    units[..., list(columns.numeric)] = base.prototypes[:, None]
    if seen is not None:
        units[..., list(columns.categorical)] = seen.prototypes
    directions, _ = metric.inverse()
    inputs = units.flatten(0, 1) @ directions + metric.mean
    rows = inputs.reshape(-1, *held.input_shape)
    if held.network is None:
        logits = plain_logits(held, rows.to(held_dtype(held)))[None]
    else:
        logits = held.network.logits(rows)
    apart = (logits.amax(dim=-1) - logits.amin(dim=-1)).amax(dim=0)
    return apart.reshape(len(base.prototypes), others).amax(dim=1) * (1 + 1e-9)
