"""Plain, CEDA and ACET on MNIST, trained here: does the confidence of Table 1 come back?"""

import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import farfield as ff
from benchmarks.parts import data_folder, folder, part
from farfield.data import read_idx, read_images, to_gray_28
from farfield.estimators.images import ImageSettings, train_images
from farfield.evaluate import Attack, ConfidenceTable, confidence_table
from farfield.networks.lenet import lenet
from farfield.objectives import ACET, PGD, ImageNoise
from farfield.objectives.attacks_values import log_confidence
from farfield.reproduce.hein_published import TABLE_1

QUESTION = (
    "LeNet on MNIST trained plainly, with CEDA and with ACET within minutes on a CPU: test error, "
    "and MMC, AUROC and FPR@95 on FashionMNIST, EMNIST letters, gray CIFAR-10, noise, adversarial "
    "noise (200 steps) and adversarial samples (80 steps), beside Table 1 of Hein et al. 2019?"
)
TARGETS = {
    "ceda_error_above_plain": "<= 0.6",
    "acet_error_above_plain": "<= 0.6",
    "ceda_noise_auroc": ">= 0.99",
    "acet_noise_auroc": ">= 0.99",
    "plain_adversarial_noise_mmc": ">= 0.995",
    "plain_adversarial_noise_auroc": "<= 0.1",
    "acet_adversarial_noise_mmc": "<= 0.25",
    "acet_adversarial_noise_auroc": ">= 0.98",
    "plain_minutes": "<= 15",
    "ceda_minutes": "<= 15",
    "acet_minutes": "<= 40",
}
SEED = 0
ATTACKED_NOISE = 500
ATTACKED_SAMPLES = 300
RAYS = 100
CROSSINGS = 25
# Epochs of 3,000 images, so that the schedule at 50, 75 and 90% is met in a short training.
SHORT = 3000
PHASES: dict[str, list[tuple[str | None, ImageSettings]]] = {
    # Each phase: whose weights to start from (None for new ones), and the settings.
    "plain": [(None, ImageSettings(epochs=30, epoch_images=SHORT))],
    "ceda": [
        (None, ImageSettings(objective="ceda", epochs=25, epoch_images=SHORT)),
        ("ceda-1", ImageSettings(objective="ceda", epochs=25, epoch_images=SHORT, random_state=3)),
    ],
    "acet": [
        (
            "ceda",
            ImageSettings(
                objective=ACET(steps=10, step_size=0.03),
                epochs=4,
                epoch_images=SHORT,
                learning_rate=1e-3,
                schedule=(0.75,),
                random_state=1,
            ),
        ),
        (
            "acet-1",
            ImageSettings(
                objective=ACET(),
                epochs=6,
                epoch_images=SHORT // 6,
                schedule=(0.5, 0.75),
                learning_rate=5e-4,
                random_state=2,
            ),
        ),
        (
            "acet-2",
            ImageSettings(
                objective=ACET(steps=10, step_size=0.03),
                epochs=5,
                epoch_images=SHORT,
                schedule=(0.6, 0.8),
                random_state=4,
            ),
        ),
        (
            "acet-3",
            ImageSettings(
                objective=ACET(),
                epochs=8,
                epoch_images=SHORT // 6,
                schedule=(0.5,),
                learning_rate=2e-4,
                random_state=5,
            ),
        ),
    ],
}


def measure() -> dict[str, Any]:
    """Train and evaluate; epochs and models are parts that a later run need not repeat."""
    data = data_folder("mnist", "fashion_mnist", "images")
    results: dict[str, Any] = {}
    for name in PHASES:
        trained = _train(data, name)
        measured = part("mnist_lenet", f"{name}-table", lambda n=name: _evaluate(data, n))
        far = part("mnist_lenet", f"{name}-far", lambda n=name: _far_field(data, n))
        first = part("mnist_lenet", f"{name}-first", lambda n=name: _first_crossings(n))
        slopes = part("mnist_lenet", f"{name}-slopes", lambda n=name: _slopes(data, n))
        results[name] = {**trained, **measured, "slopes": slopes}
        results[name] |= {"far field": far, "first crossings": first}
    plain = results["plain"]["test_error_percent"]
    numbers: dict[str, Any] = {}
    for name, result in results.items():
        rows = result["rows"]
        numbers |= {
            f"{name}_minutes": result["minutes"],
            f"{name}_error_above_plain": result["test_error_percent"] - plain,
            f"{name}_noise_auroc": rows["noise"]["auroc"],
            f"{name}_adversarial_noise_mmc": rows["adversarial noise"]["mmc"],
            f"{name}_adversarial_noise_auroc": rows["adversarial noise"]["auroc"],
        }
    return {**numbers, "seed": SEED, "threads": torch.get_num_threads(), **results}


def network(name: str) -> nn.Module:
    """Read a network that the benchmark has trained."""
    module = lenet()
    module.load_state_dict(load_file(folder("mnist_lenet") / f"{name}.safetensors"))
    return module.eval()


def sets(data: Path) -> dict[str, Tensor]:
    """Read the sets that are not MNIST, 28 x 28 and gray."""
    letters = read_images(data / "images" / "emnist_letters_2000.npz").images
    colour = read_images(data / "images" / "cifar10_test_2000.npz").images
    return {
        "FashionMNIST": idx(data / "fashion_mnist" / "t10k-images-idx3-ubyte.gz")[:, None],
        "EMNIST": torch.from_numpy(letters),
        "gray CIFAR-10": torch.from_numpy(to_gray_28(colour)),
        "noise": noise(idx(data / "mnist" / "train-images-idx3-ubyte.gz")[:, None], 2000),
    }


def noise(images: Tensor, count: int) -> Tensor:
    """Draw noise images, one filter for each 20."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.cat([ImageNoise()(images, 20, generator) for _ in range(count // 20)])


def idx(path: Path) -> Tensor:
    """Read one file of the MNIST family, bytes as they are."""
    return torch.from_numpy(read_idx(path))


def _train(data: Path, name: str) -> dict[str, Any]:
    """Train all phases of a model; every one of their epochs is kept."""
    images = idx(data / "mnist" / "train-images-idx3-ubyte.gz")[:, None]
    labels = idx(data / "mnist" / "train-labels-idx1-ubyte.gz")
    home = folder("mnist_lenet")
    home.mkdir(parents=True, exist_ok=True)
    phases = []
    for number, (start, settings) in enumerate(PHASES[name], start=1):
        final = number == len(PHASES[name])
        print(f"  {name}, phase {number}", file=sys.stderr)
        result = train_images(
            lenet if start is None else network(start),
            images,
            labels,
            settings,
            checkpoint=home / f"{name}-{number}.checkpoint",
        )
        target = home / (f"{name}.safetensors" if final else f"{name}-{number}.safetensors")
        save_file(result.module.state_dict(), target)
        phases.append(
            {
                "starts_from": start or "new weights",
                "settings": settings.to_plain(),
                "losses": [record.loss for record in result.history],
                "seconds": round(sum(record.seconds for record in result.history), 1),
            }
        )
    return {"phases": phases, "minutes": sum(phase["seconds"] for phase in phases) / 60}


def _evaluate(data: Path, name: str) -> dict[str, Any]:
    start = time.perf_counter()
    images = idx(data / "mnist" / "t10k-images-idx3-ubyte.gz")[:, None]
    labels = idx(data / "mnist" / "t10k-labels-idx1-ubyte.gz")
    table = confidence_table(
        {name: network(name)},
        (images, labels),
        sets(data),
        {
            "adversarial noise": Attack(PGD(0.3, 200, 0.0075), on="noise", points=ATTACKED_NOISE),
            "adversarial samples": Attack(PGD(0.3, 80, 0.0075), points=ATTACKED_SAMPLES),
        },
        in_name="MNIST",
        random_state=SEED,
        progress=lambda model, set_name: print(f"  {model}: {set_name}", file=sys.stderr),
    )
    return _report(table, name, time.perf_counter() - start)


def _slopes(data: Path, name: str) -> dict[str, float]:
    """Count the noise images on which an attack has nothing to follow."""
    images = noise(idx(data / "mnist" / "train-images-idx3-ubyte.gz")[:, None], ATTACKED_NOISE)
    module = network(name).requires_grad_(False)
    leaf = images.clone().requires_grad_()
    (slope,) = torch.autograd.grad(log_confidence([module])(leaf).sum(), leaf)
    hidden = module[:-1](images)
    return {
        "noise_images": ATTACKED_NOISE,
        "without_slope": float((slope.flatten(1) == 0).all(1).double().mean()),
        "all_hidden_units_off": float((hidden == 0).all(1).double().mean()),
    }


def _far_field(data: Path, name: str) -> dict[str, Any]:
    """Follow rays to infinity, exactly: scaled noise as in Table 2, and out of digits."""
    network_ = ff.capture(network(name), torch.zeros(1, 1, 28, 28))
    generator = torch.Generator().manual_seed(SEED)
    digits = idx(data / "mnist" / "t10k-images-idx3-ubyte.gz")[:RAYS, None] / 255
    uniform = torch.rand(RAYS, 1, 28, 28, generator=generator)
    rays = {
        "multiples of uniform images": (torch.zeros(1, 28, 28), uniform),
        "multiples of digits": (torch.zeros(1, 28, 28), digits),
        "from digits in Gaussian directions": (
            digits,
            torch.randn(RAYS, 1, 28, 28, generator=generator),
        ),
    }
    result = {}
    for family, (origin, direction) in rays.items():
        far = ff.at_infinity(network_, origin, direction)
        distance = far.distance(0.999)[0]
        median = float(distance.median())
        result[family] = {
            "rays": RAYS,
            "blind": float((far.confidence >= 0.99).double().mean()),
            "median_distance_to_0.999": median if math.isfinite(median) else None,
            "never_0.999": float(torch.isinf(distance).double().mean()),
        }
    return result


def _first_crossings(name: str) -> dict[str, Any]:
    """Find the smallest multiple of uniform images with 99.9% confidence, exactly (Table 2)."""
    network_ = ff.capture(network(name), torch.zeros(1, 1, 28, 28))
    generator = torch.Generator().manual_seed(SEED)
    images = torch.rand(CROSSINGS, 1, 28, 28, generator=generator)
    origin = torch.zeros(1, 28, 28)
    found = [ff.first_reaching(network_, origin, image[None], 0.999).t for image in images]
    values = sorted(float(t) for t in found)
    middle = values[(CROSSINGS - 1) // 2]
    return {
        "images": CROSSINGS,
        "median": middle if math.isfinite(middle) else None,
        "least": values[0],
        "published_median": {"plain": 1.5, "acet": "more than 1e6"}.get(name),
    }


def _report(table: ConfidenceTable, name: str, seconds: float) -> dict[str, Any]:
    rows, printed = {}, TABLE_1[f"mnist-{name}"]
    for row in table[name].rows:
        rows[row.data] = {
            "points": row.points,
            "mmc": row.mmc,
            "auroc": row.auroc,
            "fpr95": row.fpr95,
            "published": printed["data" if row.data == "MNIST" else row.data],
            "histogram": row.histogram,
        }
    return {
        "test_error_percent": 100 * table[name].test_error,
        "published_test_error_percent": printed["error"][0],
        "rows": rows,
        "evaluation_seconds": round(seconds, 1),
    }
