"""The parameters for which a rule is true: everything else is refused by name, with its value."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Lower = Callable[..., Any]
Refusal = Callable[..., str | None]


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers that a parameter may take; ``text`` completes "must be ..."."""

    text: str
    holds: Callable[[float], bool]


def _moderate(value: float) -> bool:
    return 1e-100 <= abs(value) <= 1e100


FINITE = Range("a finite number", math.isfinite)
# Beyond these sizes formulas such as ``alpha * expm1(x / alpha)`` lose digits to underflow.
MODERATE = Range("0 or of a size between 1e-100 and 1e100", lambda x: x == 0 or _moderate(x))
POSITIVE = Range("positive, between 1e-100 and 1e100", lambda x: x > 0 and _moderate(x))
NOT_ZERO = Range("of a size between 1e-100 and 1e100", _moderate)
DIVISOR = Range("of a size between 1e-300 and 1e300", lambda x: 1e-300 <= abs(x) <= 1e300)
STEP = Range("positive and at most 700", lambda x: 0 < x <= 700)
COUNT = Range("a positive whole number", lambda x: x >= 1)
LOWER_LIMIT = Range("a number below infinity", lambda x: x < math.inf)
UPPER_LIMIT = Range("a number above minus infinity", lambda x: x > -math.inf)


def outside(lower: Lower, ranges: Mapping[str, Range]) -> Refusal:
    """Make the refusal of arguments that are out of range.

    Args:
        lower: A rule; its signature, after the domain, names the operation's arguments.
        ranges: What each of them may be. Tensors are weights, which capture checks.
    """
    signature = inspect.signature(lower)

    def refuse(*args: Any, **kwargs: Any) -> str | None:
        given = signature.bind(None, *args, **kwargs).arguments
        for name, allowed in ranges.items():
            value = given.get(name)
            if isinstance(value, (int, float)) and not allowed.holds(value):
                return f"{name} is {value!r} and must be {allowed.text}"
        return None

    return refuse


def first_of(*refusals: Refusal | None) -> Refusal | None:
    """Put several refusals together: the first reason counts."""
    given = [refusal for refusal in refusals if refusal is not None]

    def refuse(*args: Any, **kwargs: Any) -> str | None:
        return next((why for each in given if (why := each(*args, **kwargs)) is not None), None)

    return refuse if given else None
