"""Is the model on this data what its maker saw? If not, nothing else in an audit can be trusted.

A model that is worse than a constant answer, that rules out what is true, or that is far more sure
than right has most likely been given other inputs than it was trained on: columns in another
order, another unit or scale, labels of other classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from farfield.audit.findings import Health, Task

# On the data of its own training, no sensible model is so much more confident than accurate.
OVERCONFIDENT = 0.25
# An accuracy this far beyond its interval is not the one that was reported.
FAR = 0.02
CHECK = "are the columns in the model's order, scaled as in training, and the labels its own?"


def cautions(health: Health | None, task: Task, reported: float | None = None) -> tuple[str, ...]:
    """Say what is wrong with the model on this data; nothing if all is well, or without labels.

    Args:
        health: What was measured.
        task: What the model does.
        reported: The accuracy that its makers report, if it is known.
    """
    if health is None:
        return ()
    return tuple(_regressor(health) if task == "regression" else _classifier(health, reported))


def _classifier(health: Health, reported: float | None) -> Iterator[str]:
    accuracy, nll = health.numbers["accuracy"], health.numbers["nll"]
    baseline, mmc = health.baseline, health.mmc
    right = f"The model is right on {accuracy.value:.1%} of the {health.rows:,} rows"
    if baseline is not None and accuracy.value < baseline:
        yield f"{right}; always naming the most frequent class is right on {baseline:.1%}: {CHECK}"
    elif mmc is not None and mmc - accuracy.high > OVERCONFIDENT:
        yield f"{right}, but {mmc:.1%} sure on average: {CHECK}"
    if reported is not None and not accuracy.low - FAR <= reported <= accuracy.high + FAR:
        yield f"{right}, {reported:.1%} was reported: {CHECK}"
    if math.isinf(nll.value):
        yield (
            "The negative log-likelihood is infinite: to the true class of at least one row the "
            f"model gives a probability of exactly 0: {CHECK}"
        )


def _regressor(health: Health) -> Iterator[str]:
    error, baseline = health.numbers["rmse"], health.baseline
    if baseline is not None and error.value > baseline:
        yield (
            f"The model's error (RMSE) is {error.value:.3g} on the {health.rows:,} rows; always "
            f"naming the mean gives {baseline:.3g}: {CHECK}"
        )
