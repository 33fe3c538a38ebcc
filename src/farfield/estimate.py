"""A number known from a sample: it carries its interval, an exact number does not."""

import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import SupportsIndex

from farfield.errors import InputError


@dataclass(frozen=True, slots=True)
class Estimate:
    """A sampled number with its confidence interval.

    Deliberately not a ``float``: a function that takes an exact number does not take this.

    Attributes:
        value: The number on the sample at hand.
        low: Lower end of the interval, at most ``value``.
        high: Upper end of the interval, at least ``value``.
        level: Confidence level, such as 0.95.
        method: How the interval was made.
    """

    value: float
    low: float
    high: float
    level: float
    method: str

    def __post_init__(self) -> None:
        check_level(self.level)
        if not self.low <= self.value <= self.high:
            raise InputError(
                f"An estimate lies inside of its interval, got {self.value} and "
                f"[{self.low}, {self.high}]."
            )

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}] at {100 * self.level:g}%"


def value_of(number: float | Estimate) -> float:
    """The number itself, exact or estimated.

    >>> value_of(0.5), value_of(clopper_pearson(1, 2))
    (0.5, 0.5)
    """
    return number.value if isinstance(number, Estimate) else number


def check_level(level: float) -> None:
    """Refuse a confidence level outside of (0, 1)."""
    if not 0.0 < level < 1.0:
        raise InputError(f"A confidence level lies between 0 and 1, such as 0.95; got {level}.")


def clopper_pearson(
    successes: SupportsIndex, trials: SupportsIndex, level: float = 0.95
) -> Estimate:
    """Estimate a probability from independent trials, with Clopper and Pearson's interval (1934).

    The interval holds every probability under which neither this many successes or more, nor
    this many or fewer, is rarer than ``(1 - level) / 2``. It covers the truth at least as often
    as ``level`` says, for any number of trials.

    Args:
        successes: Number of successes, from 0 to ``trials``.
        trials: Number of trials, at least 1.
        level: Confidence level.

    Returns:
        The share of successes with its interval.

    All of 10: the lower end solves ``p ** 10 = 0.025``.

    >>> estimate = clopper_pearson(10, 10)
    >>> estimate.value, round(estimate.low, 6), estimate.high
    (1.0, 0.691503, 1.0)
    """
    check_level(level)
    try:
        k, n = operator.index(successes), operator.index(trials)
    except TypeError:
        raise InputError(
            f"successes and trials must be whole numbers, got {successes!r} of {trials!r}."
        ) from None
    if not (0 <= k <= n and n > 0):
        raise InputError(f"Need 0 <= successes <= trials and trials > 0, got {k} of {n}.")
    return _clopper_pearson(k, n, level)


@lru_cache(maxsize=4096)
def _clopper_pearson(k: int, n: int, level: float) -> Estimate:
    """The same of numbers that are fine; an audit asks for a few of them thousands of times."""
    # Whoever only reads estimates, such as a page of a saved audit, needs no SciPy.
    from scipy import special

    tail = (1.0 - level) / 2.0
    low = float(special.betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0
    high = float(special.betaincinv(k + 1, n - k, 1.0 - tail)) if k < n else 1.0
    return Estimate(k / n, low, high, level, "Clopper-Pearson")
