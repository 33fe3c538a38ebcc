"""Activations that people and exporters write out, put together again.

ONNX has no SiLU, and had no GELU or Mish for long, so files say ``x * sigmoid(x)`` or
``0.5 x (1 + erf(x / sqrt(2)))``: products of two values that depend on the input. Whatever the
order of their parts, such a product is one function of one number. It is evaluated on a grid that
reaches far out on both sides; if it is a multiple of a function that has a rule, it is replaced by
it, and slopes and intercepts are enough to follow it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.graph.program import Ref, Step
from farfield.graph.rules import RULES

aten = torch.ops.aten
ELEMENTWISE = frozenset(
    (
        aten.add.Tensor,
        aten.sub.Tensor,
        aten.mul.Tensor,
        aten.div.Tensor,
        aten.rsub.Scalar,
        aten.neg.default,
        aten.abs.default,
        aten.relu.default,
        aten.clamp.default,
        aten.sigmoid.default,
        aten.hardsigmoid.default,
        aten.tanh.default,
        aten.softplus.default,
        aten.erf.default,
        aten.exp.default,
        aten.log.default,
        aten.reciprocal.default,
        aten.pow.Tensor_Scalar,
        aten.where.self,
        aten.lt.Tensor,
        aten.le.Tensor,
        aten.gt.Tensor,
        aten.ge.Tensor,
    )
)
CURVES: tuple[tuple[Any, dict[str, Any]], ...] = (
    (aten.silu.default, {}),
    (aten.gelu.default, {}),
    (aten.gelu.default, {"approximate": "tanh"}),
    (aten.mish.default, {}),
    (aten.hardswish.default, {}),
    (F.softsign, {}),
    (aten.sigmoid.default, {}),
    (aten.softplus.default, {}),
    (aten.log_sigmoid.default, {}),
)
# The longest of them, GELU by tanh, takes nine steps.
LONGEST = 16
# So many products that are none of the curves are looked at before giving up.
MOST_FAILURES = 500
# Constants of a file are often rounded to float32.
TOLERANCE = 2e-6


def _grid() -> Tensor:
    near = torch.linspace(-12, 12, 385, dtype=torch.float64)
    far = torch.tensor([20, 50, 300, 1e4, 1e6], dtype=torch.float64)
    return torch.cat([near, far, -far])


def recognise(
    steps: Sequence[Step], constants: Mapping[str, Tensor], output: str
) -> tuple[Step, ...]:
    """Replace written-out activations by the activations themselves."""
    numbers = {name: each.reshape(()) for name, each in constants.items() if each.numel() == 1}
    made: dict[str, Step] = {}
    absorbed: set[str] = set()
    failures = 0
    for step in steps:
        made[step.name] = step
        if failures > MOST_FAILURES or not _stands_in_the_way(step, constants):
            continue
        order, inner = _region(step, made, numbers)
        found = _read(step, order, made, numbers)
        if not found:
            failures += 1
            continue
        absorbed |= inner
        del made[step.name]
        made.update((item.name, item) for item in found)
    return _without_unread(list(made.values()), absorbed, output)


def _stands_in_the_way(step: Step, constants: Mapping[str, Tensor]) -> bool:
    """Whether a step is a product of data, or a function that no slope and intercept follow."""
    if step.target not in ELEMENTWISE:
        return False
    if step.target in (aten.mul.Tensor, aten.div.Tensor):
        return isinstance(step.args[1], Ref) and step.args[1].name not in constants
    return step.target not in RULES or RULES[step.target].kind == "growth"


def _read(
    step: Step, roots: Sequence[str], made: Mapping[str, Step], numbers: dict[str, Tensor]
) -> list[Step]:
    """Find the root and the curve that a step is of it; nothing if it is none."""
    grid = _grid()
    for root in roots:
        values = _evaluate(step.name, made, ChainMap({root: grid}, numbers))
        if values is None:
            continue
        for sign in (1, -1):
            found = _match(values, sign * grid)
            if found is not None:
                return _written(step, Ref(root), *found, negative=sign < 0)
    return []


def _written(
    step: Step, root: Ref, curve: tuple[Any, dict[str, Any]], scale: float, *, negative: bool
) -> list[Step]:
    """``scale * curve(root)``, or of ``-root``, under the name of a step."""
    target, kwargs = curve
    steps: list[Step] = []
    if negative:
        name = f"{step.name}/-"
        steps.append(replace(step, name=name, target=aten.neg.default, args=(root,), kwargs={}))
        root = Ref(name)
    steps.append(replace(step, target=target, args=(root,), kwargs=kwargs))
    if scale != 1:
        steps[-1] = replace(steps[-1], name=f"{step.name}/0")
        args = (Ref(steps[-1].name), scale)
        steps.append(replace(step, target=aten.mul.Tensor, args=args, kwargs={}))
    return steps


def _region(
    step: Step, made: Mapping[str, Step], numbers: Mapping[str, Tensor]
) -> tuple[list[str], set[str]]:
    """Names below a step, nearest first, as far as functions of one number reach."""
    order: list[str] = []
    inner: set[str] = set()
    pending = list(step.refs())
    while pending and len(inner) < LONGEST:
        name = pending.pop(0)
        if name in order or name in numbers:
            continue
        order.append(name)
        below = made.get(name)
        if below is not None and below.target in ELEMENTWISE:
            inner.add(name)
            pending.extend(below.refs())
    return order, inner


def _evaluate(
    name: str, made: Mapping[str, Step], values: MutableMapping[str, Tensor], depth: int = 0
) -> Tensor | None:
    """A step as a function of the values known, or ``None`` if it depends on anything else."""
    if name in values:
        return values[name]
    here = made.get(name)
    if here is None or here.target not in ELEMENTWISE or depth > LONGEST:
        return None
    inputs = {ref: _evaluate(ref, made, values, depth + 1) for ref in here.refs()}
    if any(item is None for item in inputs.values()):
        return None
    args, kwargs = here.bind(inputs)
    try:
        values[name] = here.target(*args, **kwargs)
    except RuntimeError:  # a mask where a number should be: the check will say so
        return None
    return values[name]


def _match(values: Tensor, grid: Tensor) -> tuple[tuple[Any, dict[str, Any]], float] | None:
    """The curve that the values are a multiple of, if there is one."""
    if values.shape != grid.shape or not values.is_floating_point():
        return None
    finite = torch.isfinite(values)
    if not bool(finite[grid.abs() <= 50].all()):
        return None
    anchor = int(torch.nonzero(grid == 3.0)[0])
    for target, kwargs in CURVES:
        curve = partial(target, **kwargs)(grid)
        scale = float(values[anchor] / curve[anchor])
        gap = (values - scale * curve).abs()[finite]
        limit = TOLERANCE * abs(scale) * (1 + curve.abs())[finite]
        if scale != 0 and bool((gap <= limit).all()):
            return (target, kwargs), 1.0 if abs(scale - 1) < TOLERANCE else scale
    return None


def _without_unread(steps: list[Step], absorbed: set[str], output: str) -> tuple[Step, ...]:
    """Drop the absorbed parts that nobody else reads."""
    kept: list[Step] = []
    read = {output}
    for step in reversed(steps):
        if step.name in absorbed and step.name not in read:
            continue
        read.update(step.refs())
        kept.append(step)
    return tuple(reversed(kept))
