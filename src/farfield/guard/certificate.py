"""What a guard promises, and the constants that prove it: plain data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from farfield.errors import InputError
from farfield.guard.growth.bound import Growth
from farfield.guard.promise import Line, largest_probability

if TYPE_CHECKING:
    from farfield.guard.verify import Verification

FORMAT = 1


@dataclass(frozen=True)
class Coverage:
    """How many rows lie inside the covered set, where nothing is changed.

    Attributes:
        inside: Rows whose temperature is exactly 1.
        rows: All rows.
        low: Lower end of the Clopper-Pearson interval for a new row; ``None`` for rows that the
            guard was made from, whose share is a fact and not an estimate.
        high: Upper end.
        level: Confidence level of the interval.
    """

    inside: int
    rows: int
    low: float | None = None
    high: float | None = None
    level: float = 0.95

    @property
    def share(self) -> float:
        """Rows inside, of all."""
        return self.inside / self.rows

    def __str__(self) -> str:
        text = f"{self.inside} of {self.rows} ({100 * self.share:.2f}%"
        if self.low is not None and self.high is not None:
            text += (
                f", {100 * self.level:g}% interval {100 * self.low:.2f} to {100 * self.high:.2f}"
            )
        return text + ")"


@dataclass(frozen=True)
class Certificate:
    """The promise of a guarded model.

    Every input ``x`` with ``|u(x)| >= radius``, and every one at least ``distance`` away from the
    covered set, gets at most ``1 / classes + epsilon`` for every class. Lengths are in whitened
    units, ``u(x) = W (x - mean)``. The proof: differences of logits at distance ``delta`` from the
    covered set are at most ``offset + slope delta``, rounding included; divided by
    ``T = 1 + (delta / unit)^2`` that falls beyond ``unit``, and is below ``tolerance`` at
    ``distance``; and ``|u| >= radius = cover_radius + distance`` implies that distance.

    Attributes:
        classes: Number of classes, K.
        epsilon: How far any class may be above ``1 / K`` beyond ``radius``.
        radius: R, from the mean of the data.
        radii: R in data radii.
        data_radius: Largest distance from the mean of a covered training row; at least half of
            ``cover_radius``.
        cover_radius: Radius around the mean of the covered set.
        distance: From the covered set, beyond which the promise holds too.
        unit: h of the temperature.
        offset: Of the bound on differences of logits, rounding included.
        slope: Of the same bound.
        tolerance: How far apart logits may be for ``1 / K + epsilon``.
        slack: By which share a computed distance can be too small.
        growth: The bound on the model that offset and slope follow from.
        anchored: Whether the bound starts at the prototypes (else at the mean).
        metric: The metric in words.
        method: How the growth was bounded, in words.
        prototypes: Number of balls.
        coverage: Probability that the radii were set for.
        training: Rows that the guard was made from.
        held_out: Rows that it has not seen, if there were any.
        dtype: Floating-point type of the model.
        members: Number of instances; of several, the logarithm of the mean probability is guarded.
        notes: What else the user should know.
    """

    classes: int
    epsilon: float
    radius: float
    radii: float
    data_radius: float
    cover_radius: float
    distance: float
    unit: float
    offset: float
    slope: float
    tolerance: float
    slack: float
    growth: Growth
    anchored: bool
    metric: str
    method: str
    prototypes: int
    coverage: float
    training: Coverage
    held_out: Coverage | None
    dtype: str
    members: int
    notes: tuple[str, ...] = ()

    @property
    def largest_probability(self) -> float:
        """``1 / K + epsilon``."""
        return 1 / self.classes + self.epsilon

    def largest_probability_at(self, distance: float) -> float:
        """What no class exceeds at ``distance`` whitened units from the covered set and beyond.

        At distances below ``unit`` nothing is promised.
        """
        if distance < self.unit:
            return 1.0
        line = Line(self.offset, self.slope)
        return largest_probability(
            self.classes, line.guarded(distance * (1 - self.slack), self.unit)
        )

    def statement(self) -> str:
        """Say the promise in words."""
        held = f"; held-out rows inside: {self.held_out}" if self.held_out is not None else ""
        return (
            f"Predicted classes are those of the model, everywhere. Training rows whose "
            f"probabilities are unchanged: {self.training}{held}. Beyond {self.radius:.4g} "
            f"whitened units from the mean ({self.radii:.4g} data radii) no class of any input "
            f"exceeds 1/{self.classes} + {self.epsilon:g}. Metric: {self.metric}. "
            f"Growth: {self.method}."
        )

    def verify(self, model: Any) -> Verification:
        """Prove the promise again from a guarded model's own weights.

        Args:
            model: A :class:`~farfield.guard.GuardedModel`.

        Returns:
            What was found; false where the promise does not follow.
        """
        from farfield.guard.verify import verify

        return verify(self, model)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": FORMAT, **asdict(self)}

    def to_json(self) -> str:
        """The certificate as JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read what :meth:`to_json` wrote.

        Raises:
            InputError: If the text is damaged, or of a later format.
        """
        try:
            data = json.loads(text)
            version = int(data.pop("format"))
            if version > FORMAT:
                raise InputError(
                    f"the certificate has format {version}, this farfield reads {FORMAT}; update it"
                )
            names = {field.name for field in fields(cls)}
            held = data["held_out"]
            return cls(
                **{name: value for name, value in data.items() if name in names}
                | {
                    "growth": Growth(**data["growth"]),
                    "training": Coverage(**data["training"]),
                    "held_out": None if held is None else Coverage(**held),
                    "notes": tuple(data["notes"]),
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"the certificate is damaged: {error!r}") from error
