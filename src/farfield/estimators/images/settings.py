"""The constants of training on images."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from farfield.errors import InputError
from farfield.objectives import Objective, ObjectiveName, name_of, resolve


@dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """How to train; the defaults are those of Hein et al. 2019 for MNIST.

    For SVHN and CIFAR the paper has ``optimizer="sgd"``, ``learning_rate=0.1`` and, for CIFAR,
    ``mirror=True``.

    Attributes:
        objective: A name (``"nll"``, ``"ceda"``, ``"acet"``, ...) or an ``Objective``.
        optimizer: ``"adam"`` or ``"sgd"``.
        learning_rate: First step size.
        momentum: Momentum of ``"sgd"``.
        schedule: Shares of the epochs after which the step size shrinks.
        schedule_factor: What it is multiplied by.
        weight_decay: ``weight_decay * sum of squares`` is added to the loss (no half), biases
            included, batch norm not.
        batch_size: Images per step, at least two.
        epochs: Passes over the images.
        epoch_images: Images in an epoch, a fresh choice each time; ``None`` for all. Short epochs
            make the schedule and the checkpoints finer.
        padding: Random crops of images padded by so many black pixels; 0 for none.
        mirror: Mirror half of the images.
        random_state: Seed; nothing else decides what is drawn.
    """

    objective: ObjectiveName | Objective = "nll"
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.9
    schedule: tuple[float, ...] = (0.5, 0.75, 0.9)
    schedule_factor: float = 0.1
    weight_decay: float = 5e-4
    batch_size: int = 128
    epochs: int = 100
    epoch_images: int | None = None
    padding: int = 4
    mirror: bool = False
    random_state: int = 0

    def __post_init__(self) -> None:
        resolve(self.objective)
        problems = [
            f"{name} must be {wanted}, got {getattr(self, name)!r}"
            for name, fine, wanted in (
                ("optimizer", self.optimizer in ("adam", "sgd"), "'adam' or 'sgd'"),
                ("learning_rate", 0 < self.learning_rate < math.inf, "a positive number"),
                ("momentum", 0 <= self.momentum < 1, "a number in [0, 1)"),
                ("schedule", all(0 <= share < 1 for share in self.schedule), "shares in [0, 1)"),
                ("schedule_factor", 0 < self.schedule_factor < math.inf, "a positive number"),
                ("weight_decay", 0 <= self.weight_decay < math.inf, "a number >= 0"),
                ("batch_size", _whole(self.batch_size, 2), "an integer of at least 2"),
                ("epochs", _whole(self.epochs, 1), "a positive integer"),
                (
                    "epoch_images",
                    self.epoch_images is None or _whole(self.epoch_images, 1),
                    "a positive integer or None",
                ),
                ("padding", _whole(self.padding, 0), "an integer >= 0"),
                ("random_state", _whole(self.random_state, 0), "an integer >= 0"),
            )
            if not fine
        ]
        if problems:
            raise InputError("ImageSettings: " + "; ".join(problems))

    def rate(self, epoch: int) -> float:
        """Return the step size of an epoch, counted from 0.

        >>> [ImageSettings(epochs=100).rate(epoch) for epoch in (0, 50, 75, 90)]
        [0.001, 0.0001, 1e-05, 1e-06]
        """
        passed = sum(epoch >= share * self.epochs for share in self.schedule)
        return float(f"{self.learning_rate * self.schedule_factor**passed:.12g}")

    def to_plain(self) -> dict[str, Any]:
        """Return the constants as JSON can hold them."""
        objective = resolve(self.objective)
        return {
            **asdict(self),
            "schedule": list(self.schedule),
            "objective": [name_of(objective), asdict(objective)],
        }


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
