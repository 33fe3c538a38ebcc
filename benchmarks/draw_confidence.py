"""Draw Figures 2 to 4 of Hein et al. 2019: ``python -m benchmarks.draw_confidence``.

Needs ``results/mnist_lenet.json``, the networks that ``mnist_lenet`` trained, and FARFIELD_DATA.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import hein_networks, mnist_lenet
from benchmarks.parts import data_folder
from farfield.evaluate import ConfidenceRow, ConfidenceTable, ModelConfidence
from farfield.networks.resnet import read_hein2019
from farfield.objectives import PGD, ImageNoise
from farfield.objectives.attacks_values import log_confidence
from farfield.report.confidence_figures import save_confidence_histograms, save_image_grid

HERE = Path(__file__).parent
IMAGES = HERE.parent / "docs" / "images"
COUNT = 8
LABELS = {"plain": "plain", "ceda": "CEDA", "acet": "ACET"}


def main() -> int:
    """Draw all three."""
    data = data_folder("hein2019", "mnist", "images")
    result = json.loads((HERE / "results" / "mnist_lenet.json").read_text(encoding="utf-8"))
    table = table_of(result["numbers"])
    shown = ["adversarial noise", "adversarial samples"]
    save_confidence_histograms(table, IMAGES / "confidence-histograms.png", data=shown)
    digits = mnist_lenet.idx(data / "mnist" / "train-images-idx3-ubyte.gz")[:, None]
    own = {LABELS[name]: mnist_lenet.network(name) for name in LABELS}
    _grid(digits, own, IMAGES / "adversarial-noise-mnist.png")
    authors = {
        LABELS[name]: read_hein2019(data / "hein2019" / f"cifar10-{name}.npz") for name in LABELS
    }
    pictures = hein_networks.images(data, "cifar10")[0]
    _grid(pictures, authors, IMAGES / "adversarial-noise-cifar10.png")
    return 0


def table_of(numbers: dict[str, Any]) -> ConfidenceTable:
    """Return what ``mnist_lenet`` measured as a table."""
    models = []
    for name, label in LABELS.items():
        rows = tuple(
            ConfidenceRow(
                data=data,
                points=row["points"],
                mmc=row["mmc"],
                auroc=row["auroc"],
                fpr95=row["fpr95"],
                histogram=tuple(row["histogram"]),
            )
            for data, row in numbers[name]["rows"].items()
        )
        models.append(ModelConfidence(label, numbers[name]["test_error_percent"] / 100, rows))
    return ConfidenceTable("MNIST", tuple(models))


def _grid(images: Tensor, networks: dict[str, nn.Module], path: Path) -> None:
    """Draw noise and, for every network, the most confident images found near it."""
    generator = torch.Generator().manual_seed(1)
    noise = ImageNoise()(images, COUNT, generator)
    rows, captions = {"noise": noise.numpy()}, {}
    for name, network in networks.items():
        network.requires_grad_(False)
        value = log_confidence([network])
        found = PGD(steps=40).maximize(value, noise, generator, low=0.0, high=1.0, ceiling=0.0)
        rows[name] = found.inputs.numpy()
        with torch.no_grad():
            before = value(noise).exp()
        pairs = zip(before.tolist(), found.values.exp().tolist(), strict=True)
        captions[name] = [f"{first:.2f} to {then:.2f}" for first, then in pairs]
    save_image_grid(rows, path, captions=captions)


if __name__ == "__main__":
    sys.exit(main())
