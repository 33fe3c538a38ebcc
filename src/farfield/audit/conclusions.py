"""What an audit concludes from its numbers: doubts, the verdict, and what can be done.

A model that is worse than a constant answer, that rules out what is true, or that is far more sure
than right has most likely been given other inputs than it was trained on: columns in another
order, another unit or scale, labels of other classes. Then nothing else can be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.audit.at_hand import AtHand
from farfield.audit.fields.directions import Family
from farfield.audit.fields.kinds import Task
from farfield.audit.fields.quality import Health
from farfield.audit.fields.repair import Remedy
from farfield.audit.fields.verdict import BY_GUARD, Verdict
from farfield.audit.settings import Settings
from farfield.audit.subject import Subject
from farfield.estimate import value_of

if TYPE_CHECKING:
    from farfield.audit.given_guard import AnyGuard

# On the data of its own training, no sensible model is so much more confident than accurate.
OVERCONFIDENT = 0.25
# An accuracy this far beyond its interval is not the one that was reported.
FAR = 0.02
CHECK = "are the columns in the model's order, scaled as in training, and the labels its own?"


def cautions(health: Health | None, task: Task, reported: float | None = None) -> tuple[str, ...]:
    """Say what is wrong with the model on this data; nothing if all is well, or without labels."""
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


def verdict(
    found: Sequence[Family], settings: Settings, task: Task, seen_to: float | None = None
) -> Verdict:
    """Put the largest blind share into words; ``seen_to`` is how far out a model was looked at."""
    if not found:
        sentence = "Every feature is bounded or categorical: there is no far away to be blind in."
        return _judged(settings, 0.0, "none", sentence, seen_to)
    worst = max(found, key=lambda family: value_of(family.share))
    blind = value_of(worst.share)
    directions = f"{blind:.1%} of the directions" if blind < 1 else "every direction"
    where = f"in {directions} ({worst.title[0].lower()}{worst.title[1:]})"
    sure = f"at least {settings.threshold:.0%} sure of one class"
    if task == "regression":
        sentence = f"The model predicts with no sign of being far out {where}."
    elif seen_to is None:
        sentence = f"The model is {sure} infinitely far out {where}."
    else:
        sentence = (
            f"Seen {seen_to:,.0f} standard deviations out, the model is {sure} {where}. This was "
            "sampled by evaluating the model; what it does between and beyond the places that were "
            "looked at is not known."
        )
    return _judged(settings, blind, worst.name, sentence, seen_to)


def guarded_verdict(plain: Verdict, settings: Settings, guard: AnyGuard) -> Verdict:
    """The verdict on a guarded model: uniform at infinity, in every direction, by proof."""
    classes = guard.certificate.classes
    sentence = (
        f"Infinitely far out the guarded model gives every class 1/{classes}, in every "
        f"direction, by proof; unguarded it would be blind in {plain.blind:.1%} of the directions. "
        "Families and features below show the model inside of the guard."
    )
    return _judged(settings, float(1 / classes >= settings.threshold), BY_GUARD, sentence)


def _judged(
    settings: Settings, blind: float, family: str, sentence: str, seen_to: float | None = None
) -> Verdict:
    limit = settings.max_blind
    passed = None if limit is None else blind <= limit
    return Verdict(passed, blind, family, settings.threshold, limit, sentence, seen_to)


def _classifies(subject: Subject) -> bool:
    return subject.task == "classification"


def _trained_by_gradients(subject: Subject) -> bool:
    """Whether a classifier may be a network: no trees, neighbours or kernels in it."""
    return _classifies(subject) and (not subject.exact or subject.network.differentiable)


@dataclass(frozen=True)
class Offer:
    """A remedy, whom it helps, and how it is done with what is at hand.

    Attributes:
        helps: Whether a model can use it.
        name: What it is called.
        what: What it would give.
        proven: Whether it carries a proof about all directions.
        command: How to do it; with gaps in the data or without.
    """

    helps: Callable[[Subject], bool]
    name: str
    what: str
    proven: bool
    command: Callable[[AtHand, bool], str]


# In the order in which to try them.
OFFERS = (
    Offer(
        lambda subject: not _classifies(subject),
        "More members",
        "An ensemble's spread grows linearly in every direction in which two members' "
        "slopes differ; a single network has no spread at all.",
        False,
        lambda files, gaps: files.train(
            "regressor",
            "--set",
            "members=10",
            gaps=gaps,
            python="ff.EnsembleRegressor(members=10).fit(X, y)",
        ),
    ),
    Offer(
        _classifies,
        "Guard",
        "Same class everywhere, bit-identical probabilities where the data is, and no class "
        "above 1/K + epsilon beyond a stated radius, in every direction.",
        True,
        lambda files, _: files.guard(),
    ),
    Offer(
        lambda subject: _trained_by_gradients(subject) and subject.model.instances == 1,
        "Ensemble",
        "Directions in which members end in different classes are no longer blind; where "
        "they are unanimous nothing changes.",
        False,
        lambda files, gaps: files.train(
            "ensemble", gaps=gaps, python="ff.EnsembleClassifier().fit(X, y)"
        ),
    ),
    Offer(
        _trained_by_gradients,
        "Train against noise",
        "CEDA and ACET push the confident region away from the data; at infinity the network "
        "stays blind.",
        False,
        lambda files, gaps: files.train(
            "relu",
            "--objective",
            "acet",
            gaps=gaps,
            python='ff.ReLUClassifier(objective="acet").fit(X, y)',
        ),
    ),
    Offer(
        lambda subject: _classifies(subject) and not subject.is_image,
        "Radial basis functions",
        "A model of another kind, with a radius beyond which every class is within "
        "epsilon of 1/K (Hein et al. 2019, Theorem 3.2).",
        True,
        lambda files, gaps: files.train("rbf", gaps=gaps, python="ff.RBFClassifier().fit(X, y)"),
    ),
)


def remedies(subject: Subject, files: AtHand) -> tuple[Remedy, ...]:
    """List the remedies that exist for a model, with commands that run."""
    gaps = any(column.missing for column in subject.moving)
    return tuple(
        Remedy(each.name, each.what, each.proven, each.command(files, gaps))
        for each in OFFERS
        if each.helps(subject)
    )
