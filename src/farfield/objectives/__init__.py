"""Training objectives: frozen dataclasses that are called with (network, batch, noise).

``resolve`` turns a name into an objective with the papers' constants.
"""

from collections.abc import Callable
from typing import Literal

from farfield.errors import InputError
from farfield.objectives.adversarial import NLL, Adversarial, VirtualAdversarial
from farfield.objectives.attacks import PGD, fgsm
from farfield.objectives.confidence_enhancing import ACET, CEDA
from farfield.objectives.noise_images import ImageNoise
from farfield.objectives.noise_tables import TableNoise
from farfield.objectives.objective import Batch, MemberNetwork, Objective

ObjectiveName = Literal["nll", "adversarial", "virtual-adversarial", "ceda", "acet"]

REGISTRY: dict[str, Callable[..., Objective]] = {
    "nll": NLL,
    "adversarial": Adversarial,
    "virtual-adversarial": VirtualAdversarial,
    "ceda": CEDA,
    "acet": ACET,
}

__all__ = [
    "ACET",
    "CEDA",
    "NLL",
    "PGD",
    "REGISTRY",
    "Adversarial",
    "Batch",
    "ImageNoise",
    "MemberNetwork",
    "Objective",
    "ObjectiveName",
    "TableNoise",
    "VirtualAdversarial",
    "fgsm",
    "name_of",
    "resolve",
]


def resolve(objective: str | Objective) -> Objective:
    """Return the objective of that name, or the objective itself.

    Example:
        >>> resolve("adversarial")
        Adversarial(epsilon=0.01)
    """
    if isinstance(objective, Objective):
        return objective
    if objective not in REGISTRY:
        raise InputError(
            f"objective must be one of {', '.join(sorted(REGISTRY))} or an Objective, "
            f"got {objective!r}"
        )
    return REGISTRY[objective]()


def name_of(objective: Objective) -> str:
    """Return the name under which the objective's class is registered."""
    for name, factory in REGISTRY.items():
        if type(objective) is factory:
            return name
    raise InputError(
        f"{type(objective).__name__} has no name in farfield.objectives.REGISTRY; "
        "register it under one to save estimators that use it"
    )
