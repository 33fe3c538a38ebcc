"""The evaluation of Hein et al. 2019, Table 1: confidence on data, noise and what attacks find.

For every model: test error and mean maximal confidence (MMC) on the data it should know, and for
every set that it should not know MMC, AUROC and FPR at 95% TPR, all by confidence. The result is
plain data; :mod:`farfield.report.confidence` renders it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError
from farfield.evaluate.confidence_models import Evaluated, check_points, take
from farfield.evaluate.confidence_result import (
    BINS,
    ConfidenceRow,
    ConfidenceTable,
    ModelConfidence,
)
from farfield.evaluate.detection import detection
from farfield.objectives.attacks import PGD
from farfield.objectives.attacks_values import check_labels, cross_entropy, log_confidence

Array = NDArray[Any] | Tensor


@dataclass(frozen=True)
class Attack:
    """A set of points made by attacking each model in turn.

    Attributes:
        pgd: The attack.
        on: Name of an out-set whose confidence is driven up (adversarial noise); ``None`` for the
            data itself, whose label is attacked (adversarial samples).
        points: Attack only the first so many; ``None`` for all.
        low: Lower end of the box; the default is that of images.
        high: Upper end of the box.
    """

    pgd: PGD
    on: str | None = None
    points: int | None = None
    low: float = 0.0
    high: float = 1.0


# The paper's evaluation: 200 steps on noise; 80 steps on the test set (epsilon as for MNIST).
ADVERSARIAL_NOISE = Attack(PGD(epsilon=0.3, steps=200, step_size=0.0075), on="noise")
ADVERSARIAL_SAMPLES = Attack(PGD(epsilon=0.3, steps=80, step_size=0.0075))


def confidence_table(
    models: Mapping[str, Any],
    in_data: tuple[Array, Array],
    out_data: Mapping[str, Array],
    attacks: Mapping[str, Attack] | None = None,
    *,
    in_name: str = "test",
    random_state: int = 0,
    progress: Callable[[str, str], None] | None = None,
) -> ConfidenceTable:
    """Measure test error, MMC, AUROC and FPR at 95% TPR as Hein et al. 2019 do.

    Confidence is the largest class probability of the mean over instances. For AUROC and FPR the
    score is ``1 - confidence``, out-of-distribution is positive, and the threshold of FPR@95 is
    the 5th percentile of confidence on the data.

    Args:
        models: Name to a ``torch.nn.Module`` that gives logits, a list of them (instances), or a
            fitted estimator. They are copied and put into evaluation mode.
        in_data: ``(points, labels)``, points ``(count, *features)``. Images are bytes, which are
            divided by 255, or numbers in [0, 1]; labels are numbered from 0.
        out_data: Name to points of the same features.
        attacks: Name to an attack; each model is attacked by itself.
        in_name: What the data is called in the result.
        random_state: Seed of the attacks' random starts.
        progress: Called with the names of the model and the set before each is measured.

    Returns:
        The table as data.

    Example:
        >>> points, labels = torch.tensor([[4.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 1])
        >>> table = confidence_table(
        ...     {"plain": torch.nn.Identity()}, (points, labels), {"origin": torch.zeros(3, 2)}
        ... )
        >>> table["plain"].test_error, table["plain"]["origin"].mmc, table["plain"]["origin"].auroc
        (0.0, 0.5, 1.0)
    """
    attacks = dict(attacks or {})
    points = check_points(in_data[0], "in_data")
    out = {
        name: check_points(data, f"out_data[{name!r}]", points) for name, data in out_data.items()
    }
    _check_names(models, in_name, out, attacks)
    entries = [
        _measure(name, model, (points, in_data[1]), out, attacks, in_name, random_state, progress)
        for name, model in models.items()
    ]
    constants = {name: asdict(attack) for name, attack in attacks.items()}
    return ConfidenceTable(in_name, tuple(entries), constants)


def _measure(
    name: str,
    model: Any,
    in_data: tuple[Tensor, Array],
    out: Mapping[str, Tensor],
    attacks: Mapping[str, Attack],
    in_name: str,
    seed: int,
    progress: Callable[[str, str], None] | None,
) -> ModelConfidence:
    """Measure one model on all sets."""
    tell = progress or (lambda _model, _data: None)
    points = in_data[0]
    evaluated = Evaluated.of(model, points)
    labels = check_labels(torch.as_tensor(in_data[1]), len(points), evaluated.classes)
    tell(name, in_name)
    probabilities = evaluated.probabilities(points)
    inside = probabilities.max(axis=1)
    rows = [_row(in_name, inside, None)]
    for data, values in out.items():
        tell(name, data)
        rows.append(_row(data, evaluated.probabilities(values).max(axis=1), inside))
    for data, attack in attacks.items():
        tell(name, data)
        found = _attack(evaluated, attack, points, labels, out, seed)
        rows.append(_row(data, evaluated.probabilities(found).max(axis=1), inside))
    wrong = probabilities.argmax(axis=1) != labels.numpy()
    return ModelConfidence(name, float(wrong.mean()), tuple(rows))


def _attack(
    evaluated: Evaluated,
    attack: Attack,
    points: Tensor,
    labels: Tensor,
    out: Mapping[str, Tensor],
    seed: int,
) -> Tensor:
    """Return what the attack makes of its points."""
    targets = points if attack.on is None else out[attack.on]
    count = len(targets) if attack.points is None else min(attack.points, len(targets))
    generator = torch.Generator().manual_seed(seed)
    found = []
    for part in evaluated.parts(count):
        inputs = take(targets, part).to(evaluated.dtype)
        if attack.on is None:
            value, ceiling = cross_entropy(evaluated.instances, labels[part]), math.inf
        else:
            value, ceiling = log_confidence(evaluated.instances), 0.0
        result = attack.pgd.maximize(
            value, inputs, generator, low=attack.low, high=attack.high, ceiling=ceiling
        )
        found.append(result.inputs)
    return torch.cat(found)


def _row(
    data: str, confidence: NDArray[np.float64], inside: NDArray[np.float64] | None
) -> ConfidenceRow:
    """Measure one set."""
    counts, _ = np.histogram(confidence, bins=BINS, range=(0.0, 1.0))
    measured = None if inside is None else detection(-inside, -confidence)
    return ConfidenceRow(
        data=data,
        points=len(confidence),
        mmc=float(confidence.mean()),
        auroc=None if measured is None else measured.auroc,
        fpr95=None if measured is None else measured.fpr95,
        histogram=tuple(int(count) for count in counts),
    )


def _check_names(
    models: Mapping[str, Any],
    in_name: str,
    out: Mapping[str, Tensor],
    attacks: Mapping[str, Attack],
) -> None:
    """Refuse tables without models, names used twice, and attacks on sets that are not there."""
    if not models:
        raise InputError("models is empty; give at least one, as {'name': model}")
    twice = ({in_name} & {*out, *attacks}) | (set(out) & set(attacks))
    if twice:
        raise InputError(f"every set needs a name of its own, got {', '.join(sorted(twice))} twice")
    for name, attack in attacks.items():
        if attack.on is not None and attack.on not in out:
            raise InputError(
                f"attack {name!r} is on {attack.on!r}, which is not in out_data "
                f"({', '.join(out) or 'empty'}); add that set, or set on=None for the data"
            )
        if attack.points is not None and attack.points < 1:
            raise InputError(f"attack {name!r} needs a positive number of points")
