"""Does the captured model say on the data what the model itself says? If not, nothing else counts.

The far field of a model that was misread is exact, and of another model. So wherever the original
can be asked, by its own ``predict_proba``, by calling the module or by onnxruntime, its
probabilities are compared with those of the captured network on rows of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from farfield.audit.evaluators import own_answers
from farfield.audit.subject import Floats, Subject
from farfield.data import Source
from farfield.distributions import as_distributions
from farfield.errors import CaptureError, FarfieldError

Answer = Callable[[Floats], Floats | None]
# Rows that are compared, and how many numbers they may hold.
ROWS, NUMBERS = 256, 1 << 22
# What float32 may make of a probability; models in half precision differ by more.
ROUNDING = 1e-3
# The same of a negative log-likelihood, and below which float32 sees no probability.
LIKELIHOOD, PRECISION = 1e-2, 1e-6
# How much probability moves from class to class, on average over rows: no rounding does this.
WRONG = 0.02


def crosscheck(original: Any, subject: Subject, source: Source, data: Any) -> list[str]:
    """Compare the probabilities of a captured model with those of its original.

    Args:
        original: What the model was captured from; ``None`` if it cannot be asked.
        subject: The captured model, and rows of the data.
        source: The data.
        data: The same as the user gave it; a frame tells the types of its values.

    Returns:
        A sentence if they differ by more than rounding; nothing if they agree, or if the original
        does not answer.

    Raises:
        CaptureError: If they differ by far more: the captured model is another one.
    """
    if not subject.exact or subject.task == "regression":
        return []
    count = min(ROWS, max(1, NUMBERS // max(1, subject.rows[0].size)), len(subject.rows))
    places = np.linspace(0, len(subject.rows) - 1, count).round().astype(int)
    rows: Floats = subject.rows[places]
    answer = _answer(original, source, data)
    own = None if answer is None else answer(rows)
    if own is None:
        return []
    read: Floats = subject.network.probabilities(rows).mean(dim=0).numpy()
    if own.shape != read.shape:
        raise CaptureError(
            f"the captured model has {read.shape[1]} classes, the model itself gives "
            f"{own.shape[1]} probabilities; audit it by evaluation: evidence='sampled'"
        )
    if _is_logit(subject, own, read):
        own = np.concatenate([expit(-own[:, 1:]), expit(own[:, 1:])], axis=1)
    gap = np.nan_to_num(np.abs(own - read), nan=1.0)
    moved = gap.sum(axis=1).mean() / 2
    seen = (
        f"on {len(rows)} rows of the data, its probabilities differ from the model's own by up to "
        f"{gap.max():.2g} ({moved:.2g} moved between classes on average)"
    )
    likely = True
    if subject.labels is not None:
        here, there = (_nll(p, subject.labels[places]) for p in (read, own))
        seen += f", its negative log-likelihood is {here:.4g} for {there:.4g}"
        likely = abs(here - there) <= LIKELIHOOD * (1.0 + there)
    if moved > WRONG:
        raise CaptureError(
            f"the captured model is not the model: {seen}, so its far field would be another "
            "model's; audit it by evaluation: evidence='sampled'"
        )
    if gap.max() <= ROUNDING and likely:
        return []
    return [f"The captured model is not quite the model: {seen}; is it in half precision?"]


def _is_logit(subject: Subject, own: Floats, read: Floats) -> bool:
    """Whether one output is a logit although it lies between 0 and 1 on all of these rows."""
    if not subject.network.one_logit or subject.network.head != "none":
        return False
    as_logit = np.abs(expit(own[:, 1]) - read[:, 1]).max()
    return bool(as_logit < np.abs(own[:, 1] - read[:, 1]).max())


def _nll(p: Floats, labels: Any) -> float:
    """Mean negative log-likelihood; what float32 cannot tell from zero counts as its precision."""
    return float(-np.log(np.maximum(p[np.arange(len(p)), labels], PRECISION)).mean())


def own_answers_of(original: Any, subject: Subject, source: Source, data: Any) -> Answer | None:
    """What the original itself says of rows, if it can be asked and says what was captured."""
    answer = _answer(original, source, data)
    rows: Floats = subject.rows[:ROWS]
    own = None if answer is None else answer(rows)
    if not subject.exact or own is None:
        return None
    read: Floats = subject.network.probabilities(rows).mean(dim=0).numpy()
    same = own.shape == read.shape and float(np.abs(own - read).max()) <= ROUNDING
    return answer if same else None


def _answer(original: Any, source: Source, data: Any) -> Answer | None:
    """How an original is asked: it gives nothing if it does not answer."""
    answers = own_answers(original, source, data)
    if answers is None:
        return None

    def answer(rows: Floats) -> Floats | None:
        try:
            return as_distributions(answers(rows), len(rows))
        except FarfieldError:
            return None

    return answer
