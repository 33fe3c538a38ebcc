"""Do the authors' own networks measure here as Table 1 of Hein et al. 2019 says?"""

import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.parts import data_folder, part
from farfield.data import read_images
from farfield.evaluate import Attack, ConfidenceTable, confidence_table
from farfield.networks.resnet import read_hein2019
from farfield.objectives import PGD, ImageNoise
from farfield.reproduce.hein_published import TABLE_1

QUESTION = (
    "The six published ResNet-20 networks of Hein et al. 2019 on 2,000 CIFAR-10 and 2,000 "
    "(re-cropped) SVHN test images, noise, and adversarial noise on at least 500 images "
    "(200 steps): how far are MMC, AUROC and FPR@95 from Table 1?"
)
TARGETS = {
    "largest_gap_mmc": "<= 0.02",
    "largest_gap_auroc": "<= 0.02",
    "largest_gap_fpr95": "<= 0.09",
}
SEED = 0
NOISE_IMAGES = 2000
DRAW = 20
ATTACKED_NOISE = 500
# Where the attack fails on some images, the share of them needs more images to be known well.
MORE_ATTACKED = {"svhn-ceda": 1500}
ATTACKED_SAMPLES = 200
METHODS = ("plain", "ceda", "acet")
# Each network's own data, and what else it is shown.
OTHER = {"cifar10": "SVHN", "svhn": "CIFAR-10"}
# What the targets are about; adversarial samples are measured on few images, without a target.
COMPARED = ("other", "noise", "adversarial noise")


def measure() -> dict[str, Any]:
    """Evaluate all six networks; each is a part that a later run need not repeat."""
    data = data_folder(
        "hein2019", "images/cifar10_test_2000.npz", "images/svhn_test_crops_2000.npz"
    )
    results: dict[str, Any] = {"settings": _settings()}
    gaps: dict[str, list[float]] = {"mmc": [], "auroc": [], "fpr95": []}
    for own in OTHER:
        for method in METHODS:
            name = f"{own}-{method}"
            measured = part("hein_networks", name, lambda o=own, m=method: _network(data, o, m))
            results[name] = measured
            for where in COMPARED:
                for key, published in zip(gaps, _published(name, where), strict=True):
                    gaps[key].append(abs(measured["rows"][where][key] - published))
    return {**{f"largest_gap_{key}": max(values) for key, values in gaps.items()}, **results}


def _published(name: str, where: str) -> tuple[float, ...]:
    """Table 1: MMC, AUROC and FPR@95; MMC alone on a network's own data."""
    return TABLE_1[name][OTHER[name.split("-")[0]] if where == "other" else where]


def images(data: Path, name: str) -> tuple[Tensor, Tensor]:
    """Read 2,000 test images, channels first, and their labels."""
    file = {"cifar10": "cifar10_test_2000.npz", "svhn": "svhn_test_crops_2000.npz"}[name]
    found = read_images(data / "images" / file)
    return torch.from_numpy(found.images), torch.from_numpy(found.labels)


def _settings() -> dict[str, Any]:
    return {
        "images": 2000,
        "noise_images": NOISE_IMAGES,
        "noise": "half permuted test images, half uniform; one filter for each 20 images",
        "adversarial noise": "l-infinity 0.3, 200 steps of 0.0075",
        "attacked_noise_images": {"others": ATTACKED_NOISE, **MORE_ATTACKED},
        "adversarial samples": "l-infinity 0.1, 80 steps of 0.0025, 200 test images",
        "seed": SEED,
    }


def _network(data: Path, own: str, method: str) -> dict[str, Any]:
    start = time.perf_counter()
    other = next(name for name in OTHER if name != own)
    inside, labels = images(data, own)
    model = read_hein2019(data / "hein2019" / f"{own}-{method}.npz")
    generator = torch.Generator().manual_seed(SEED)
    # Small draws, so that the first 500 images are half of each kind and meet many filters.
    draws = [ImageNoise()(inside, DRAW, generator) for _ in range(NOISE_IMAGES // DRAW)]
    count = MORE_ATTACKED.get(f"{own}-{method}", ATTACKED_NOISE)
    attacks = {
        "adversarial noise": Attack(PGD(0.3, 200, 0.0075), on="noise", points=count),
        "adversarial samples": Attack(PGD(0.1, 80, 0.0025), points=ATTACKED_SAMPLES),
    }
    table = confidence_table(
        {method: model.to(memory_format=torch.channels_last)},
        (inside, labels),
        {"other": images(data, other)[0], "noise": torch.cat(draws)},
        attacks,
        in_name="data",
        random_state=SEED,
        progress=lambda _, data: print(f"  {own}-{method}: {data}", file=sys.stderr),
    )
    return _report(table, own, method, time.perf_counter() - start)


def _report(table: ConfidenceTable, own: str, method: str, seconds: float) -> dict[str, Any]:
    rows = {}
    for row in table[method].rows:
        rows[row.data] = {
            "points": row.points,
            "mmc": row.mmc,
            "auroc": row.auroc,
            "fpr95": row.fpr95,
            "published": _published(f"{own}-{method}", row.data),
            "histogram": row.histogram,
        }
    return {
        "test_error_percent": 100 * table[method].test_error,
        "published_test_error_percent": _published(f"{own}-{method}", "error")[0],
        "rows": rows,
        "seconds": round(seconds, 1),
    }
