"""The fields of an audit, as plain data: every number that a report shows is in here.

A share that was counted over all directions of a family is a ``float``; one that was sampled is an
:class:`~farfield.evaluate.Estimate` with its interval. Distances are in the feature's own units;
infinity means never. Nothing here grows with the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from farfield.estimate import Estimate

Share = float | Estimate
Task = Literal["classification", "regression"]
Kind = Literal["numeric", "bounded", "categorical"]
# The family of a verdict that a guard's proof gives.
BY_GUARD = "all, by the guard"


@dataclass(frozen=True)
class Verdict:
    """The answer in one number and one sentence.

    Attributes:
        passed: Whether every blind share is at most ``max_blind``; ``None`` if none was asked for.
        blind: The largest blind share over the families of directions.
        family: The family that has it.
        threshold: The confidence at infinity from which on a direction counts as blind.
        max_blind: The share that the user allows, if one was given.
        sentence: The verdict in words.
        seen_to: How far out the model was looked at, in standard deviations, if it could only be
            evaluated: then every number is what was *seen*. ``None`` if limits are exact.
    """

    passed: bool | None
    blind: float
    family: str
    threshold: float
    max_blind: float | None
    sentence: str
    seen_to: float | None = None


@dataclass(frozen=True)
class ModelFacts:
    """What was audited.

    Attributes:
        source: Where it came from, such as a file name.
        kind: How it was read: ``onnx``, ``pt2``, ``estimator``, ``module`` and so on.
        instances: How many networks vote.
        inputs: The shape of one row.
        classes: Names of the classes; for a regressor, of the outputs.
        parameters: How many weights, all instances together.
        notes: What reading it did that the user may want to know.
        sha256: Of the model's file, if it was one.
        cap: The largest confidence that the model's form allows, whatever the input; ``None`` if
            nothing is known.
    """

    source: str
    kind: str
    instances: int
    inputs: tuple[int, ...]
    classes: tuple[str, ...]
    parameters: int
    notes: tuple[str, ...] = ()
    sha256: str | None = None
    cap: float | None = None


@dataclass(frozen=True)
class DataFacts:
    """The data that the model was audited on.

    Attributes:
        source: Where it came from.
        rows: How many rows.
        features: How many columns the model sees.
        class_counts: Name of a class to its number of rows; empty without labels.
        missing: Name of a column to how many values were missing and imputed.
        constant: Columns that hold one value only.
        sampled: How many rows the distances and curves were computed from.
        sha256: Of the file, if it was one.
        notes: What reading it did that the user may want to know.
    """

    source: str
    rows: int
    features: int
    class_counts: Mapping[str, int]
    missing: Mapping[str, int]
    constant: tuple[str, ...]
    sampled: int
    sha256: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """A family of directions, and how many of them the model is blind in.

    Attributes:
        name: Short name, the key of ``Audit.blindness``.
        title: What the directions are.
        share: The blind share: exact, or with its interval where directions were sampled.
        rays: How many rays were followed to infinity.
        confidence: Quantiles 0.05, 0.25, 0.5, 0.75 and 0.95 of the confidence at infinity.
        classes: Name of a class to the share of rays that end in it.
        reach: Median distance at which the last unit settles, in standard deviations. Beyond it
            logits are straight lines, which may still cross.
        settled: Quantiles 0.05, 0.5 and 0.95 of the distance from which on every instance stays at
            99.9% or more; infinity where it never does. In standard deviations of the data.
        scores: Name of a score to its quantiles 0.05, 0.5 and 0.95 at infinity.
        disagreeing: Share of rays on which the instances end in different classes.
        settled_exact: Whether ``settled`` is exact; if not, it is at most that, or, of a model that
            can only be evaluated, what was seen.
        unanswered: Share of rays on which a model that can only be evaluated gave no number at the
            outermost look; what is told of them is its last answer before. Of other models those
            on which several limits are possible: see :attr:`farfield.FarField.undecided`.
        constant: Whether nothing changes any more beyond the last switch, as of trees.
    """

    name: str
    title: str
    share: Share
    rays: int
    confidence: tuple[float, ...]
    classes: Mapping[str, float]
    reach: float
    settled: tuple[float, ...]
    scores: Mapping[str, tuple[float, ...]]
    disagreeing: float
    settled_exact: bool = True
    unanswered: float = 0.0
    constant: bool = False


@dataclass(frozen=True)
class End:
    """One end of one feature: what happens when only this feature goes up, or down.

    Attributes:
        bound: Where the feature stops, if it has a bound on this side; else ``None``, and the end
            is infinity.
        label: The class that most of the sampled rows end in.
        share: Share of the sampled rows that do.
        confidence: Smallest, median and largest confidence at the end.
        blind: Share of the sampled rows that end with the threshold's confidence or more; with an
            interval where the model could only be evaluated.
        votes: Name of a class to the mean share of instances that end in it.
        distance: Quantiles 0.05, 0.5 and 0.95 over the rows: how far until every instance is 99.9%
            sure for good, up to the end, in the feature's units.
        beyond: How far the feature's value is then beyond the training range, in standard
            deviations (negative: inside); the same quantiles.
        assumptions: Share of rows in whose last region Proposition 2's assumptions hold; ``None``
            where they were not checked, or where the feature is bounded.
        scores: Name of a score to its median at the end.
        value: The value of the feature from which on that is so; the same quantiles as ``beyond``,
            infinite where it never is.
        exact: Whether ``distance``, ``beyond`` and ``value`` are exact; if not, they are bounds:
            confidence is there for good at the latest there (or, of a model that can only be
            evaluated, what was seen).
        first: The value at which the model is first 99.9% sure, on the way out; the same quantiles
            over the same rows. Exact; NaN where it is not known.
    """

    bound: float | None
    label: str
    share: float
    confidence: tuple[float, float, float]
    blind: Share
    votes: Mapping[str, float]
    distance: tuple[float, float, float]
    beyond: tuple[float, float, float]
    assumptions: float | None
    scores: Mapping[str, float]
    value: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    exact: bool = True
    first: tuple[float, float, float] = (math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Value:
    """One value of a categorical feature: every sampled row moved to it.

    Attributes:
        value: The category.
        rows: How many rows of the data have it.
        confidence: Mean confidence before, and after the move.
        changed: Share of the sampled rows whose predicted class changes.
    """

    value: str
    rows: int
    confidence: tuple[float, float]
    changed: float


@dataclass(frozen=True)
class Feature:
    """One feature: a numeric one with two ends, or a categorical one with its values.

    Attributes:
        name: Its name.
        kind: ``numeric``, ``bounded`` (on at least one side) or ``categorical``.
        unit: Its unit, or nothing.
        low: Smallest value in the data.
        high: Largest value.
        mean: Mean over all rows.
        std: Standard deviation over all rows.
        down: What happens as it goes down; ``None`` if categorical or constant and bounded.
        up: What happens as it goes up.
        curve: Confidence of the median row along the feature: from far down through the data to
            far up; at the ``t`` of ``Audit.curve_steps``, both ends being the limits. Empty if
            categorical, or if a thousand other features of the table make the model sure sooner.
        values: For a categorical feature, its values.
    """

    name: str
    kind: Kind
    unit: str
    low: float
    high: float
    mean: float
    std: float
    down: End | None
    up: End | None
    curve: tuple[float, ...]
    values: tuple[Value, ...] = ()

    @property
    def soonest(self) -> float:
        """How far out, in standard deviations, the nearer end makes the model sure for good."""
        ends = [end.beyond[1] for end in (self.down, self.up) if end is not None]
        return min((each for each in ends if not math.isnan(each)), default=math.inf)


@dataclass(frozen=True)
class Ray:
    """One ray through to infinity.

    Attributes:
        name: What it is.
        unit: What ``t`` counts.
        t: Distances, growing; the first is 0.
        scores: Name of a score (``confidence`` among them) to its values at ``t``.
        limits: Name of a score to its value at infinity.
        reach: Where the last unit settles; beyond it logits are straight lines, which may cross.
        first: Smallest ``t`` with a confidence of 99.9%, exact; ``None`` if it was not computed.
        pieces: How many affine pieces the ray has, if they were counted.
        settled: From where on every instance is 99.9% sure of one class for good; infinite if that
            never is, ``None`` if it is not known.
        final: From where on every instance predicts one class for good.
        exact: Whether ``settled`` and ``final`` are exact; if not, they are at most that, or seen.
    """

    name: str
    unit: str
    t: tuple[float, ...]
    scores: Mapping[str, tuple[float, ...]]
    limits: Mapping[str, float]
    reach: float
    first: float | None = None
    pieces: int | None = None
    settled: float | None = None
    final: float | None = None
    exact: bool = True


@dataclass(frozen=True)
class Surface:
    """Two features on a grid, all others at the median row.

    Attributes:
        x: Name of the feature along the columns.
        y: Name of the feature along the rows.
        extent: Left, right, bottom and top.
        shape: Rows and columns of the grids; rows run from bottom to top.
        grids: Name of a layer (a score, ``gradient``) to its values, row by row, each a byte, in
            base64. The outermost rows and columns lie on the edges of the window.
        ranges: Name of a layer to the values that bytes 0 and 255 stand for.
        edges: Borders of the exact linear regions: segments ``(x0, y0, x1, y1)``.
        boundaries: Decision boundaries inside of the regions, as segments.
        regions: How many regions there are in the window; ``None`` if they were not computed.
        points: Where the data is, ``(x, y, class)``, class -1 without labels: centres of the cells
            of a grid with at least five rows; if that was asked for, a sample of the rows.
    """

    x: str
    y: str
    extent: tuple[float, float, float, float]
    shape: tuple[int, int]
    grids: Mapping[str, str]
    ranges: Mapping[str, tuple[float, float]]
    edges: tuple[tuple[float, float, float, float], ...] = ()
    boundaries: tuple[tuple[float, float, float, float], ...] = ()
    regions: int | None = None
    points: tuple[tuple[float, float, int], ...] = ()


@dataclass(frozen=True)
class Bin:
    """One bar of the reliability diagram."""

    lower: float
    upper: float
    points: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Health:
    """How good the model is on the data it was given, with labels.

    Attributes:
        rows: How many rows were used.
        numbers: ``accuracy``, ``nll``, ``brier``, ``ece`` and so on (for a regressor ``rmse``,
            ``nll``, ``coverage`` and so on) with intervals.
        reliability: The bars of the reliability diagram.
        mmc: Mean of the largest probability over the rows.
        certain: Share of the rows with the threshold's confidence or more.
        baseline: What no model at all would give on these rows: the accuracy of always naming the
            most frequent class; for a regressor, the RMSE of always naming the mean.
    """

    rows: int
    numbers: Mapping[str, Estimate]
    reliability: tuple[Bin, ...] = ()
    mmc: float | None = None
    baseline: float | None = None
    certain: float | None = None


@dataclass(frozen=True)
class Detected:
    """How well one score tells one out-of-distribution set from the data.

    Attributes:
        dataset: Name of the set.
        score: Name of the score; ``mahalanobis`` and ``nearest`` do not look at the logits.
        reference: Whether it is such a reference.
        auroc: Chance that an out-point scores higher than an in-point.
        aupr: Average precision, out-points positive.
        fpr95: Share of out-points at least as confident as the 5th percentile of in-points.
        rows: How many out-points.
    """

    dataset: str
    score: str
    reference: bool
    auroc: Estimate
    aupr: Estimate
    fpr95: Estimate
    rows: int


@dataclass(frozen=True)
class OutSet:
    """One out-of-distribution set as the model sees it.

    Attributes:
        name: Its name.
        source: Where it came from.
        rows: How many rows.
        mmc: Mean of the largest probability over its rows.
        certain: Share of its rows with the threshold's confidence or more.
    """

    name: str
    source: str
    rows: int
    mmc: float
    certain: float


@dataclass(frozen=True)
class Picture:
    """One example image and what happens along its ray.

    Attributes:
        title: What it is.
        images: PNG files as data URIs: the image, and where its ray first reaches 99.9%.
        captions: One caption for each.
        ray: The confidence along the ray.
    """

    title: str
    images: tuple[str, ...]
    captions: tuple[str, ...]
    ray: Ray


@dataclass(frozen=True)
class WhatIfColumn:
    """A column that can be moved.

    Attributes:
        name: Its name.
        unit: Its unit, or nothing.
        values: Places along it, growing; infinite at an end without a bound. Of a category the
            indices of its options.
        options: The values of a category; nothing for a number.
        low: Smallest value in the data.
        high: Largest value.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    options: tuple[str, ...]
    low: float
    high: float


@dataclass(frozen=True)
class WhatIfCurve:
    """What is said at every place along a column.

    Attributes:
        label: The class, by its index.
        confidence: How sure the model is of it.
        guarded: How sure it is with the guard, which keeps the class; nothing without one.
    """

    label: tuple[int, ...]
    confidence: tuple[float, ...]
    guarded: tuple[float, ...] = ()


@dataclass(frozen=True)
class WhatIfRow:
    """A row of which one column at a time is moved.

    Attributes:
        title: What it is.
        values: Its own value of every column; the index of an option of a category.
        label: The class of the row as it is.
        confidence: How sure the model is of it.
        guarded: The same with the guard; ``None`` without one.
        curves: One for every column.
    """

    title: str
    values: tuple[float, ...]
    label: int
    confidence: float
    guarded: float | None
    curves: tuple[WhatIfCurve, ...]


@dataclass(frozen=True)
class WhatIf:
    """A handful of rows, and what becomes of them when one column is moved.

    Attributes:
        columns: The columns.
        rows: The rows; typical ones, no rows of the data unless these may be shown.
    """

    columns: tuple[WhatIfColumn, ...]
    rows: tuple[WhatIfRow, ...]


@dataclass(frozen=True)
class Middle:
    """What half of the rows do not exceed; infinite if most of them have no such number.

    Attributes:
        value: The median of the rows that were looked at.
        low: Lower end of its interval, which is the value itself if all rows were looked at.
        high: Upper end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Flip:
    """How little of one column changes the class, over rows of the data.

    Attributes:
        column: Its name.
        unit: Its unit, or nothing.
        kind: What it is.
        rows: How many rows were looked at.
        ever: Share of the rows whose class changes with this column alone, whatever it is set to.
        within: Share whose class changes if it moves by one standard deviation or less; of a
            category the same as ``ever``.
        half: So much suffices for half of the rows, infinite if nothing does; of a category NaN.
        quantiles: The same for 5, 25, 50 and 75% of the rows looked at; empty for a category.
        sure: So much suffices for half of the rows to be 99.9% sure of a class.
        exact: Whether no smaller change does it in any of these rows; if not, the model was looked
            at in places.
    """

    column: str
    unit: str
    kind: Kind
    rows: int
    ever: Share
    within: Share
    half: Middle
    quantiles: tuple[float, ...]
    sure: Middle
    exact: bool


@dataclass(frozen=True)
class Mistake:
    """One error of data entry in one column; shares are of the rows that it changes.

    They are exact if it was made in all rows of the data, and carry an interval if in some.

    Attributes:
        column: Name of the column.
        error: What was entered instead.
        rows: How many rows it changes.
        flips: Share whose predicted class changes.
        rises: Share of which the model is surer than before.
        certain: Share that ends at the threshold's confidence or more.
        silent: Share whose class changes while none of the model's own scores notices.
        slips: Share of which the range check and the guard, if there is one, notice nothing either.
        noticed: What might notice it (a score, ``range``, ``guard``) to the share that it does, at
            ``alarms`` false alarms.
        spoils: Share that was right before and is wrong after; ``None`` without labels.
        example: The row with the worst change, in words; nothing if no class changes.
    """

    column: str
    error: str
    rows: int
    flips: Share
    rises: Share
    certain: Share
    silent: Share
    slips: Share
    noticed: Mapping[str, Share]
    spoils: Share | None = None
    example: str = ""


@dataclass(frozen=True)
class EntryErrors:
    """What errors of data entry do to the model's answers.

    Attributes:
        sampled: How many rows they were made in.
        columns: How many columns were looked at; those that move the model most, if not all.
        alarms: The share of correct rows that every score, the range check and the guard may take
            for wrong.
        mistakes: All of them, worst first.
        of: How many rows the data has.
        worst: The worst rows in words: the surest wrong answers, unnoticed ones first.
        refused: Columns of categories whose unknown values the model cannot be asked about: it
            answers known ones only.
    """

    sampled: int
    columns: int
    alarms: float
    mistakes: tuple[Mistake, ...]
    of: int = 0
    worst: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether they were made in all rows."""
        return self.sampled == self.of

    def __str__(self) -> str:
        from farfield.report.text import format_entry_errors

        return format_entry_errors(self)


@dataclass(frozen=True)
class Lapse:
    """One ray on which the model's own arithmetic gives out.

    Attributes:
        ray: What ray it is.
        column: The feature that moves alone, if it is one.
        answer: Whether there is an answer at all; if not, it is NaN, infinite or no distribution.
        deviations: From how many standard deviations on, a power of ten.
        value: What the feature is there; NaN if more than one moves.
        got: The probability that the model gives to the class of the exact limit there; NaN if
            there is no answer, or no exact limit.
        limit: The exact limit of that probability.
    """

    ray: str
    column: str
    answer: bool
    deviations: float
    value: float
    got: float = math.nan
    limit: float = math.nan


@dataclass(frozen=True)
class Arithmetic:
    """The model itself, asked at powers of ten along rays, in the precision that it runs in.

    Attributes:
        precision: Of its inputs, such as ``float32``; empty if it is not known.
        rays: How many rays.
        outmost: The largest number of standard deviations at which it answered or failed.
        refused: From how many standard deviations on it raises an error; ``None`` if it never does.
        lapses: The rays on which it gives out, the soonest first.
    """

    precision: str
    rays: int
    outmost: float
    refused: float | None
    lapses: tuple[Lapse, ...] = ()


@dataclass(frozen=True)
class FarDepth:
    """Weights whose change leaves the limits of a model as they are.

    Attributes:
        rays: How many rays were followed, from rows of the data.
        weights: How many numbers the model has.
        idle: How many of them have no part in what it says at the ends of these rays.
    """

    rays: int
    weights: int
    idle: int


@dataclass(frozen=True)
class Collapse:
    """A regressor at one end of one feature.

    Attributes:
        feature: Name of the feature.
        side: ``up`` or ``down``.
        collapses: Share of the sampled rows whose predicted scale shrinks to its smallest value.
        scale_slope: Median growth of the raw scale per unit.
        spread_slope: Median growth of the standard deviation between members per unit.
    """

    feature: str
    side: Literal["up", "down"]
    collapses: float
    scale_slope: float
    spread_slope: float


@dataclass(frozen=True)
class Remedy:
    """Something that can be done.

    Attributes:
        name: What it is called.
        what: What it would give for this model.
        proven: Whether it carries a proof about all directions.
        command: How to do it.
    """

    name: str
    what: str
    proven: bool
    command: str


@dataclass(frozen=True)
class GuardedFeature:
    """One numeric feature before and after the guard; every pair is for going down and up.

    Attributes:
        name: Its name.
        unit: Its unit, or nothing.
        before: Median confidence at the end, without the guard; ``None`` if there is no such end.
        after: The same with the guard; infinitely far out it is ``1 / K``.
        certified: The value from which on, all else as in the median row, no class can exceed what
            the certificate allows; ``None`` at bounds.
    """

    name: str
    unit: str
    before: tuple[float | None, float | None]
    after: tuple[float | None, float | None]
    certified: tuple[float | None, float | None]


@dataclass(frozen=True)
class BeforeAfter:
    """Before and after the guard.

    Attributes:
        promise: What the certificate says, in words.
        rows: Name of a quantity to its value before and after.
        certificate: The certificate's numbers.
        features: Every numeric feature of a table.
    """

    promise: str
    rows: Mapping[str, tuple[float, float]]
    certificate: Mapping[str, float | str]
    features: tuple[GuardedFeature, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """What is needed to do it again; ``command`` is the command line, or the call."""

    farfield: str
    versions: Mapping[str, str]
    machine: str
    seed: int
    seconds: float
    made: str
    settings: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
