"""The constants of training on images."""

from dataclasses import asdict, dataclass
from typing import Any

from farfield.errors import InputError, failures
from farfield.estimators.settings import descent_checks, whole, whole_or_none
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
        problems = failures(
            self,
            *descent_checks(self),
            ("batch_size", whole(self.batch_size, 2), "an integer of at least 2"),
            ("epoch_images", whole_or_none(self.epoch_images), "a positive integer or None"),
            ("padding", whole(self.padding, 0), "an integer >= 0"),
            ("random_state", whole(self.random_state, 0), "an integer >= 0"),
        )
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
