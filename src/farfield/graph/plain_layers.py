"""Layers that decomposing leaves as they are, or turns into something known.

Taking an exported program apart costs PyTorch several times what tracing does, and most networks of
tables consist of layers for which nothing comes of it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from farfield.graph.program import Ref, Step

aten = torch.ops.aten
# One value in, one of the same shape out; every other argument is a number.
CURVES = (
    *(aten.relu.default, aten.leaky_relu.default, aten.elu.default, aten.selu.default),
    *(aten.celu.default, aten.gelu.default, aten.silu.default, aten.mish.default),
    *(aten.softplus.default, aten.sigmoid.default, aten.tanh.default, aten.hardtanh.default),
    *(aten.hardsigmoid.default, aten.hardswish.default),
)
SHARES = (aten.softmax.int, aten.log_softmax.int)
LINEAR, DROPOUT, NORM = aten.linear.default, aten.dropout.default, aten.batch_norm.default
PLAIN = frozenset((*CURVES, *SHARES, LINEAR, DROPOUT, NORM))
# What becomes of batch norm in evaluation mode: three results, of which the first is it.
NORMALISED = aten._native_batch_norm_legit_no_training.default


def is_plain(target: Any, args: Sequence[Any]) -> bool:
    """Whether a layer is one of these, in evaluation mode."""
    if target is DROPOUT:
        return len(args) == 3 and args[2] is False
    if target is NORM:
        return len(args) == 9 and args[5] is False and None not in args[3:5]
    return target in PLAIN


def apart(step: Step) -> tuple[Step, ...]:
    """What decomposing makes of a plain layer."""
    if step.target is DROPOUT and is_plain(DROPOUT, step.args):
        return (replace(step, target=aten.clone.default, args=step.args[:1]),)
    if step.target is not NORM or not is_plain(NORM, step.args):
        return (step,)
    pair = f"{step.name}/pair"  # no traced name has a slash
    return (
        replace(step, name=pair, target=NORMALISED, args=(*step.args[:5], *step.args[6:8])),
        replace(step, target=operator.getitem, args=(Ref(pair), 0)),
    )
