"""What stands in the way of following a model, gathered and said in one error.

Operations that stand in the way for the same reason are told once, with how often they occur and
where first. What has no rule at all is one of three: nothing can be said because no limit exists,
there is a limit that farfield does not know yet, or the operation is piecewise linear and only
nobody has written its rule.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from farfield.errors import SAMPLED, UnsupportedOperation
from farfield.graph.program import Step

aten = torch.ops.aten
MOVES = "moves, mixes or drops the rows of the batch"
# Where a step stands in Python: the model is somebody's own code, and a rule could be added.
OWN_CODE = re.compile(r"\.py:\d+$")
NO_LIMIT = "no limit exists: far out it goes on changing"
HAS_LIMIT = "has a limit, not supported yet"
PIECEWISE = "piecewise linear, no rule yet"
RANDOM = "no limit exists: it draws random numbers"
PRODUCT = f"a product of values that both depend on the input; {HAS_LIMIT}"
# By the names of operations, without their overloads.
KINDS: Mapping[str, tuple[str, ...]] = {
    NO_LIMIT: (
        *("sin", "cos", "tan", "floor", "ceil", "round", "trunc", "fix", "frac", "fmod"),
        *("remainder", "floor_divide", "sinc"),
    ),
    HAS_LIMIT: (
        *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal"),
        *("pow", "square", "var", "var_mean", "std", "erf", "erfc", "atan", "atan2", "asinh"),
        *("sinh", "cosh", "prod", "cumprod", "logsumexp", "logcumsumexp", "softmax", "_softmax"),
        *("log_softmax", "_log_softmax", "_safe_softmax", "layer_norm", "native_layer_norm"),
        *("group_norm", "native_group_norm", "instance_norm", "rms_norm", "_fused_rms_norm"),
        *("linalg_vector_norm", "norm", "cdist", "_cdist_forward", "linalg_cross", "addcmul"),
        *("addcdiv", "bilinear", "_trilinear", "cosine_similarity", "logaddexp", "embedding"),
        *("argmax", "argmin", "one_hot", "argsort", "gather", "searchsorted", "glu"),
        *("_fft_r2c", "_fft_c2c", "_fft_c2r", "angle", "polar"),
    ),
    PIECEWISE: (
        *("sort", "topk", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin"),
        *("cumsum", "index_add", "scatter", "scatter_add", "scatter_reduce", "unfold", "im2col"),
        *("col2im", "grid_sampler_2d", "grid_sampler_3d", "tril", "triu", "diagonal", "trace"),
        *("max_unpool2d", "max_unpool3d", "fractional_max_pool2d", "fractional_max_pool3d"),
        *("masked_scatter", "bucketize", "fmax", "fmin", "aminmax", "nan_to_num", "xlogy"),
    ),
    RANDOM: ("rand", "randn", "rand_like", "randn_like", "bernoulli", "native_dropout", "normal"),
}
_KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}


class Refused(NamedTuple):
    """One operation that stands in the way."""

    operation: str
    reason: str
    where: str

    @classmethod
    def of(cls, step: Step, reason: str) -> Refused:
        """A step and what is said against it; an empty reason stands for no rule at all."""
        return cls(step.operation, reason or without_rule(step.target), str(step.source))


class RowsMoved(UnsupportedOperation):
    """Operations without a rule, some of which only move the rows of a batch about."""


def without_rule(target: Any) -> str:
    """What is known of an operation that has no rule; nothing where it is not known."""
    packet = getattr(target, "overloadpacket", None)
    return _KIND_OF.get(getattr(packet, "__name__", ""), "")


def refuse(problems: Iterable[Refused]) -> None:
    """Say everything that stands in the way in one error, if anything does.

    Raises:
        UnsupportedOperation: With the number of times and the first place of each operation.
    """
    together: dict[tuple[str, str], list[Refused]] = {}
    for problem in problems:
        together.setdefault((problem.operation, problem.reason), []).append(problem)
    if not together:
        return
    names = [
        operation if len(places) == 1 else f"{operation} x {len(places)}"
        for (operation, _), places in together.items()
    ]
    width = max(map(len, names))
    lines = [
        f"  {name:<{width}}  {'in' if len(places) == 1 else 'first in'} {places[0].where}"
        + (f": {reason}" if reason else "")
        for name, ((_, reason), places) in zip(names, together.items(), strict=True)
    ]
    total = sum(map(len, together.values()))
    count = f"{total} operation{'s have' if total > 1 else ' has'}"
    advice = SAMPLED
    if any(OWN_CODE.search(each.where) for places in together.values() for each in places):
        advice = (
            "farfield explain rules lists what is supported; docs/rules.md says how to add a rule. "
            f"{SAMPLED}"
        )
    # A node that could not be read says why in the place of a line of code.
    moved = any(
        MOVES in f"{each.reason} {each.where}" for each in itertools.chain(*together.values())
    )
    kind = RowsMoved if moved else UnsupportedOperation
    raise kind(f"{count} no rule at infinity:\n" + "\n".join(lines), advice)
