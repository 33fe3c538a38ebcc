"""The parameters every learner shares, in one place."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import nn

from farfield.errors import Check, InputError, failures
from farfield.networks.mlp import Activation
from farfield.objectives import Objective, ObjectiveName, resolve

OptimizerName = Literal["adam", "sgd"]
ClassWeight = Mapping[Any, float] | Literal["balanced", "batch"] | None
RandomState = int | np.random.RandomState | None


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingSettings:
    """Parameters of the network and of its training.

    Attributes:
        hidden: Widths of the hidden layers; empty for an affine model.
        activation: ``"relu"`` or ``"leaky_relu"``.
        dropout: Share of hidden units dropped after each activation while training.
        batch_norm: Normalise before each activation.
        module: A function without arguments that builds a ``torch.nn.Module`` to use in place
            of the perceptron; it maps ``(rows, *features)`` to ``(rows, outputs)``.
        objective: A name (``"nll"``, ``"adversarial"``, ``"virtual-adversarial"``, ``"ceda"``,
            ``"acet"``) or an ``Objective`` with its constants.
        optimizer: ``"adam"`` or ``"sgd"``.
        learning_rate: Step size.
        momentum: Momentum of ``"sgd"``.
        schedule: Shares of the epochs after which the step size shrinks, e.g. ``(0.5, 0.75)``.
        schedule_factor: What the step size is multiplied by at each of them.
        weight_decay: ``weight_decay / 2 * |theta|^2`` is added to the loss, biases included.
        batch_size: Rows per step; ``None`` for all of them.
        epochs: Passes over the data.
        patience: Stop a member after this many epochs without a better validation loss and
            put its best weights back; ``None`` trains to the end. Validation data given to
            ``fit`` has the best weights put back in any case.
        validation_fraction: Share of the rows held out when ``patience`` is set and ``fit``
            gets no validation data.
        standardize: Centre and scale every feature of two-dimensional inputs.
        random_state: Seed; nothing else decides what is drawn.
        verbose: Report every epoch on standard error.
    """

    hidden: Sequence[int] = (25, 25, 25)
    activation: Activation = "relu"
    dropout: float = 0.0
    batch_norm: bool = False
    module: Callable[[], nn.Module] | None = None
    objective: ObjectiveName | Objective = "nll"
    optimizer: OptimizerName = "adam"
    learning_rate: float = 0.005
    momentum: float = 0.9
    schedule: Sequence[float] = ()
    schedule_factor: float = 0.1
    weight_decay: float = 0.0
    batch_size: int | None = 64
    epochs: int = 100
    patience: int | None = None
    validation_fraction: float = 0.1
    standardize: bool = True
    random_state: RandomState = None
    verbose: bool = False

    def _problems(self) -> list[str]:
        """List every parameter that cannot be used."""
        fraction = self.validation_fraction
        return failures(
            self,
            ("hidden", _all(self.hidden, lambda width: whole(width, 1)), "positive integers"),
            ("activation", self.activation in ("relu", "leaky_relu"), "'relu' or 'leaky_relu'"),
            ("dropout", _within(self.dropout, 0, 1), "a number in [0, 1)"),
            ("module", self.module is None or callable(self.module), "a function or None"),
            *descent_checks(self),
            ("batch_size", whole_or_none(self.batch_size), "positive or None"),
            ("patience", whole_or_none(self.patience), "positive or None"),
            ("validation_fraction", _positive(fraction) and fraction < 1, "a number in (0, 1)"),
        )

    def _check_settings(self) -> None:
        """Refuse unusable parameters, all of them in one error."""
        problems = self._problems()
        if problems:
            raise InputError(f"{type(self).__name__}: " + "; ".join(problems))
        resolve(self.objective)


def descent_checks(settings: Any) -> list[Check]:
    """What must hold of the constants that training on tables and on images share."""
    return [
        ("optimizer", settings.optimizer in ("adam", "sgd"), "'adam' or 'sgd'"),
        ("learning_rate", _positive(settings.learning_rate), "a positive number"),
        ("momentum", _within(settings.momentum, 0, 1), "a number in [0, 1)"),
        ("schedule", _all(settings.schedule, lambda s: _within(s, 0, 1)), "shares in [0, 1)"),
        ("schedule_factor", _positive(settings.schedule_factor), "a positive number"),
        ("weight_decay", _within(settings.weight_decay, 0, math.inf), "a number >= 0"),
        ("epochs", whole(settings.epochs, 1), "a positive integer"),
    ]


def count_problems(settings: TrainingSettings, *names: str) -> list[str]:
    """List the named parameters that are not positive integers."""
    fine = ((name, whole(getattr(settings, name), 1), "a positive integer") for name in names)
    return failures(settings, *fine)


def number_problems(settings: TrainingSettings, *names: str) -> list[str]:
    """List the named parameters that are not positive finite numbers."""
    fine = ((name, _positive(getattr(settings, name)), "a positive number") for name in names)
    return failures(settings, *fine)


def draw_seed(random_state: RandomState) -> int:
    """Turn ``random_state`` into one seed; no global random state is read or moved.

    Example:
        >>> draw_seed(3)
        3
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if whole(random_state, 0):
        return int(random_state)
    raise InputError(
        f"random_state must be None, an integer >= 0 or a numpy RandomState, got {random_state!r}"
    )


def _all(values: object, fine: Callable[[object], bool]) -> bool:
    """Tell whether a value is a sequence of fine items."""
    return isinstance(values, Sequence | np.ndarray) and all(fine(value) for value in values)


def whole(value: object, least: int) -> bool:
    """Tell whether a value is an integer of at least ``least``."""
    return (
        isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)
    )


def whole_or_none(value: object) -> bool:
    """Tell whether a value is a positive integer or ``None``."""
    return value is None or whole(value, 1)


def _within(value: object, low: float, high: float) -> bool:
    """Tell whether a value is a number in [low, high)."""
    return isinstance(value, int | float | np.number) and bool(low <= value < high)


def _positive(value: object) -> bool:
    """Tell whether a value is a positive finite number."""
    return isinstance(value, int | float | np.number) and bool(0 < value < math.inf)
