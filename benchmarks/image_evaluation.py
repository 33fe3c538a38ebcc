"""What does a confidence table cost beside the bare forward pass, and data beside training?"""

from collections.abc import Callable

import torch

from benchmarks.timing import in_turn
from farfield.estimators.images.training import augment
from farfield.evaluate.confidence_models import BATCH
from farfield.evaluate.confidence_table import confidence_table
from farfield.networks.lenet import lenet
from farfield.networks.streams import Purpose, Streams
from farfield.objectives import ImageNoise
from farfield.objectives.pixels import to_unit

QUESTION = (
    "10,000 images of 28 x 28 through LeNet to test error and confidence: how many times the bare "
    "forward pass of the same batches? And which share of a training step are crops and noise?"
)
TARGETS = {"ratio": "<= 1.3", "crop_share_of_step": "<= 0.1", "noise_share_of_step": "<= 0.1"}
IMAGES = 10_000
STEP = 128


def measure(repeats: int = 8) -> dict[str, float]:
    """Time all of them in turn; the best of each."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (IMAGES, 1, 28, 28), generator=generator, dtype=torch.uint8)
    labels = torch.randint(10, (IMAGES,), generator=generator)
    numbers = to_unit(images)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = lenet().eval()

    def bare() -> None:
        with torch.inference_mode():
            for part in torch.split(numbers, BATCH):
                network(part)

    def table() -> None:
        confidence_table({"lenet": network}, (images, labels), {})

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(network(numbers[:STEP]), labels[:STEP])
        torch.autograd.backward(loss)

    crops = Streams(0, 1, Purpose.AUGMENT).generator(0)
    calls: dict[str, Callable[[], object]] = {
        "bare": bare,
        "table": table,
        "step": step,
        "crop": lambda: to_unit(augment(images[:STEP], crops)),
        "noise": lambda: ImageNoise()(images, STEP, generator),
    }
    best = in_turn(calls, repeats)
    return {
        "images": IMAGES,
        **{f"{name}_seconds": seconds for name, seconds in best.items()},
        "ratio": best["table"] / best["bare"],
        "crop_share_of_step": best["crop"] / best["step"],
        "noise_share_of_step": best["noise"] / best["step"],
    }
