"""Does the captured model say on the data what the model itself says? If not, nothing else counts.

The far field of a model that was misread is exact, and of another model. So wherever the original
can be asked, by its own ``predict_proba``, by calling the module or by onnxruntime, its
probabilities are compared with those of the captured network on rows of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from farfield.audit.evaluators import black_box, can_be_asked
from farfield.audit.sources import Source
from farfield.audit.subject import Floats, Subject
from farfield.errors import CaptureError, FarfieldError

# Rows that are compared, and how many numbers they may hold.
ROWS, NUMBERS = 256, 1 << 22
# What float32 may make of a probability; models in half precision differ by more.
ROUNDING = 1e-3
# On average over rows and classes: no rounding does this.
WRONG = 0.02


def crosscheck(original: Any, subject: Subject, source: Source) -> list[str]:
    """Compare the probabilities of a captured model with those of its original.

    Args:
        original: What the model was captured from; ``None`` if it cannot be asked.
        subject: The captured model, and rows of the data.
        source: The data.

    Returns:
        A sentence if they differ by more than rounding; nothing if they agree, or if the original
        does not answer.

    Raises:
        CaptureError: If they differ by far more: the captured model is another one.
    """
    if not subject.exact or subject.task == "regression":
        return []
    count = min(ROWS, max(1, NUMBERS // max(1, subject.rows[0].size)))
    rows = subject.spread(count)
    own = _ask(original, rows, source)
    if own is None:
        return []
    read: Floats = subject.network.probabilities(rows).mean(dim=0).numpy()
    if own.shape != read.shape:
        raise CaptureError(
            f"the captured model has {read.shape[1]} classes, the model itself gives "
            f"{own.shape[1]} probabilities; audit it by evaluation: evidence='sampled'"
        )
    gap = np.nan_to_num(np.abs(own - read), nan=1.0)
    if subject.network.one_logit and subject.network.head == "none":
        # One output may be a logit although it lies between 0 and 1 on all of these rows.
        as_logit = np.abs(expit(own[:, 1:]) - read[:, 1:])
        gap = as_logit if as_logit.max() < gap.max() else gap
    seen = (
        f"on {len(rows)} rows of the data, its probabilities differ from the model's own by up to "
        f"{gap.max():.2g} ({gap.mean():.2g} on average)"
    )
    if gap.mean() > WRONG:
        raise CaptureError(
            f"the captured model is not the model: {seen}, so its far field would be another "
            "model's; audit it by evaluation: evidence='sampled'"
        )
    if gap.max() <= ROUNDING:
        return []
    return [f"The captured model is not quite the model: {seen}; is it in half precision?"]


def _ask(original: Any, rows: Floats, source: Source) -> Floats | None:
    """The original's own probabilities, averaged over members; ``None`` if it does not answer."""
    members: Sequence[Any] = original if isinstance(original, (list, tuple)) else [original]
    if not all(can_be_asked(each) for each in members):
        return None
    try:
        given = [black_box(each, source, None, "").probabilities(rows)[0] for each in members]
    except FarfieldError:
        return None
    shapes = {each.shape for each in given}
    return None if len(shapes) != 1 else np.mean([each.numpy() for each in given], axis=0)
