"""What does the inner loop of ACET cost beside the passes that it must do?"""

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.timing import in_turn
from farfield.networks.lenet import lenet
from farfield.objectives import PGD
from farfield.objectives.attacks_values import log_confidence

QUESTION = (
    "Projected gradient ascent on the confidence of LeNet, 40 steps on 128 noise images: how many "
    "times the forward and backward passes that it must do, measured in turn with it?"
)
TARGETS = {"ratio": "<= 1.15"}
IMAGES = 128
STEPS = 40


def measure(repeats: int = 5) -> dict[str, float]:
    """Time the attack and its bare passes in turn; the best of each."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = lenet().eval().requires_grad_(False)
        images = torch.rand(IMAGES, 1, 28, 28)
    value = log_confidence([network])

    def passes() -> None:
        for _ in range(STEPS):
            leaf = images.detach().requires_grad_()
            torch.autograd.grad(value(leaf).sum(), leaf)
        with torch.no_grad():
            value(images)

    def attack() -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return PGD(steps=STEPS).maximize(value, images, generator, low=0.0, high=1.0).inputs

    calls: dict[str, Callable[[], object]] = {"passes": passes, "attack": attack}
    best = in_turn(calls, repeats)
    return {
        "images": IMAGES,
        "steps": STEPS,
        **{f"{name}_seconds": seconds for name, seconds in best.items()},
        "ratio": best["attack"] / best["passes"],
    }
