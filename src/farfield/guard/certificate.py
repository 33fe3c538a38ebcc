"""What a guard promises, and the constants that prove it: plain data."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from farfield.errors import InputError

FORMAT = 2


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Coverage(_Frozen):
    """How many rows lie inside of the covered set, where nothing is changed.

    Attributes:
        inside: Rows whose temperature is exactly 1.
        rows: All rows.
        low: Lower end of the Clopper-Pearson interval for a new row; ``None`` for rows that the
            guard was made from, whose share is a fact and not an estimate.
        high: Upper end.
        level: Confidence level of the interval.
    """

    inside: int = Field(ge=0)
    rows: int = Field(ge=1)
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


class ViewLevel(_Frozen):
    """One view, and what it is calibrated to.

    Attributes:
        name: Of the view.
        sees: What it notices.
        threshold: The score above which rows are outside.
        width: What the score must exceed the threshold by for ``d = 1``.
        unseen_outside: Of the held-out rows, those that this view puts outside.
    """

    name: str
    sees: str
    threshold: float
    width: float = Field(gt=0)
    unseen_outside: int | None = None


class Certificate(_Frozen):
    """The promise of a guarded model.

    Every input at least ``radius`` from the mean, and every one with ``d >= 1``, gets at most
    ``1 / classes + epsilon`` for every class; of a regressor, a predicted deviation of at least
    ``spread``. The proof: ``p' = 1 / K + (p - 1 / K) / T`` is at most ``1 / K + (1 - 1 / K) / T``
    whatever the model says, and ``T = 1 + (d / unit)^2 >= temperature`` wherever ``d >= 1``, which
    follows from the geometry of balls and ranges alone.

    Attributes:
        format: Of this record.
        task: ``"classification"`` or ``"regression"``.
        classes: Number of classes, K; 0 for a regressor.
        epsilon: How far any class may be above ``1 / K`` beyond ``radius``; 0 for a regressor.
        spread: For a regressor, what is added to the predicted deviation at ``d = 1``.
        radius: R, from the mean of the data, in whitened units; in raw units of categories.
        radii: R in data radii.
        data_radius: Largest distance from the mean of a covered training row; at least half of
            that of the covered set.
        temperature: The least T where ``d >= 1``.
        unit: h of the temperature.
        keep: The share of new rows that was asked to be inside.
        share: The share that thresholds were set for: ``keep``, or more where rows would have lost
            too much likelihood.
        views: What is looked at, and what each view is calibrated to.
        held_out: Rows that neither views nor thresholds have seen, if there were any.
        training: Rows that the guard was made from.
        metric: The metric in words.
        min_rows: The least rows that any mean in the guard is of.
        digest: SHA-256 of all numbers of the covered set.
        dtype: Floating-point type of the model.
        members: Number of instances; of several, the mean probability is guarded.
        notes: What else the user should know.
    """

    format: Literal[2] = 2
    task: Literal["classification", "regression"] = "classification"
    classes: int = Field(ge=0)
    epsilon: float = Field(ge=0, lt=1)
    spread: float = Field(default=0.0, ge=0)
    radius: float = Field(gt=0)
    radii: float = Field(gt=0)
    data_radius: float = Field(gt=0)
    temperature: float = Field(ge=1)
    unit: float = Field(gt=0)
    keep: float = Field(gt=0, lt=1)
    share: float = Field(gt=0, le=1)
    views: tuple[ViewLevel, ...]
    held_out: Coverage | None
    training: Coverage
    metric: str
    min_rows: int = Field(ge=1)
    digest: str
    dtype: str
    members: int = Field(ge=1)
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _classes_fit_the_task(self) -> Certificate:
        if self.task == "classification" and not (self.classes >= 2 and self.epsilon > 0):
            raise ValueError("a classifier has two classes or more, and epsilon is positive")
        return self

    @property
    def largest_probability(self) -> float:
        """``1 / K + epsilon``."""
        return 1 / self.classes + self.epsilon

    def largest_probability_at(self, distance: float) -> float:
        """What no class exceeds where ``d`` is at least ``distance``."""
        temperature = 1 + (max(0.0, distance) / self.unit) ** 2
        return 1 / self.classes + (1 - 1 / self.classes) / temperature

    def statement(self) -> str:
        """Say the promise in words, what is not known to the guard first."""
        unseen = (
            f"Of rows that nothing has seen, unchanged: {self.held_out}. "
            if self.held_out is not None
            else f"No rows were held out; thresholds are set for {100 * self.share:.4g}% of new "
            "rows. "
        )
        far = (
            f"no class of any input exceeds 1/{self.classes} + {self.epsilon:g}"
            if self.task == "classification"
            else f"no predicted deviation is below {self.spread:.4g}"
        )
        same = (
            "Predicted classes are those of the model, everywhere. "
            if self.task == "classification"
            else "Predicted means are those of the model, everywhere. "
        )
        return (
            f"{unseen}{same}Beyond {self.radius:.4g} units from the mean ({self.radii:.4g} data "
            f"radii) {far}, whatever the model says. Training rows unchanged: {self.training}. "
            f"Views: {', '.join(view.name for view in self.views)}. Metric: {self.metric}."
        )

    def verify(self, model: Any) -> Any:
        """Prove the promise again from a guarded model's own numbers.

        Args:
            model: What :func:`farfield.guard` returned.

        Returns:
            A :class:`~farfield.guard.Verification`; false where the promise does not follow.
        """
        from farfield.guard.verify import verify

        return verify(self, model)

    def to_json(self) -> str:
        """The certificate as JSON."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read what :meth:`to_json` wrote.

        Raises:
            InputError: If the text is damaged, or of another format.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise InputError(f"the certificate is damaged: {error}") from error
        found = data.get("format") if isinstance(data, dict) else None
        if isinstance(found, int) and found != FORMAT:
            raise InputError(
                f"the certificate has format {found}, this farfield reads {FORMAT}; guard the "
                "model again, or update farfield"
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InputError(f"the certificate is damaged: {where}: {first['msg']}") from error
