"""How long does a whole audit take, from the shell prompt to the report?"""

import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from farfield.errors import MissingDependency
from farfield.networks.resnet import PreActResNet20, read_hein2019

QUESTION = (
    "farfield audit as a user runs it, start-up and report included: 10,000 rows x 30 features "
    "with an MLP 30-256-256-2, with and without --guard; 1,000,000 rows x 50 features from "
    "parquet; 500 images with a ResNet-20. Seconds, of the first the least of five runs, and peak "
    "memory in GB, of both processes of an audit together."
)
TARGETS = {
    "table_seconds": "<= 5",
    "million_rows_gigabytes": "<= 3",
    "images_seconds": "<= 120",
}
AGAIN = 4
RUN = r"""
import atexit, json, re, resource
from farfield.cli import program
def tell():
    # What getrusage says of this process counts the one that began it, too.
    own = int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
    other = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(json.dumps({"gigabytes": round((own + other) / 2**20, 3)}))
atexit.register(tell)
program()
"""


def measure() -> dict[str, Any]:
    """Make the files, and run the command on each."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        rng = np.random.default_rng(0)
        numbers = _table(home, rng, 10_000, 30, (256, 256), "table")
        asked = ("--data", home / "table.parquet", "--label", "y")
        every = [numbers, *(_run(home, "table", *asked) for _ in range(AGAIN))]
        numbers["table_seconds"] = min(each["table_seconds"] for each in every)
        numbers["table_guard_seconds"] = _run(home, "table", *asked, "--guard")["table_seconds"]
        numbers |= _table(home, rng, 1_000_000, 50, (64, 64), "million_rows")
        weights = Path(os.environ.get("FARFIELD_DATA", "")) / "hein2019" / "cifar10-plain.npz"
        return numbers | _images(home, rng, weights)


def _table(
    home: Path, rng: np.random.Generator, rows: int, width: int, hidden: tuple[int, ...], name: str
) -> dict[str, float]:
    X, y = write_table(home / f"{name}.parquet", rng, rows, width)
    torch.manual_seed(0)
    sizes = (width, *hidden)
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(sizes[-1], 2))
    save_model(model, X, y, home / f"{name}.pt2")
    return _run(home, name, "--data", home / f"{name}.parquet", "--label", "y")


def write_table(
    path: Path, rng: np.random.Generator, rows: int, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Write normal columns and a label, and return them."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingDependency("needs pyarrow: pip install 'farfield[data]'") from error
    X = rng.standard_normal((rows, width), dtype=np.float32)
    columns: dict[str, Any] = {f"f{k}": X[:, k] for k in range(width)}
    columns["y"] = (X[:, 0] + X[:, 1] * X[:, 2] > 0.3).astype(int)
    parquet.write_table(pyarrow.table(columns), path, row_group_size=50_000)
    return torch.from_numpy(X), torch.from_numpy(columns["y"])


def save_model(model: nn.Module, X: torch.Tensor, y: torch.Tensor, path: Path) -> None:
    """Train a little on the first rows, and save."""
    _fit(model, X[:10_000], y[:10_000])
    _save(model, torch.zeros(2, X.shape[1]), path)


def _fit(model: nn.Module, X: torch.Tensor, y: torch.Tensor) -> None:
    """Train a little, so that it is a classifier and not a random function."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(3):
        for rows, labels in zip(X.split(256), y.split(256), strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(rows), labels).backward()
            optimizer.step()


def _images(home: Path, rng: np.random.Generator, weights: Path) -> dict[str, float]:
    """The authors' network where it is there, otherwise one of its shape with random weights."""
    model = read_hein2019(weights) if weights.is_file() else PreActResNet20()
    images, labels = rng.random((500, 3, 32, 32), dtype=np.float32), rng.integers(0, 10, 500)
    np.savez(home / "images.npz", images=images, labels=labels)
    _save(model, torch.zeros(2, 3, 32, 32), home / "images.pt2")
    return _run(home, "images", "--data", home / "images.npz")


def _save(model: nn.Module, example: torch.Tensor, path: Path) -> None:
    rows = {0: torch.export.Dim("rows", min=1)}
    exported = torch.export.export(model.eval(), (example,), dynamic_shapes=(rows,))
    torch.export.save(exported, path)


def _run(home: Path, name: str, *arguments: Any) -> dict[str, float]:
    command = ["audit", home / f"{name}.pt2", *arguments, "--out", home / name, "--quiet"]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, command)], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    size = (home / name / "report.html").stat().st_size / 1e6
    return {
        f"{name}_seconds": round(seconds, 2),
        f"{name}_gigabytes": json.loads(done.stdout.splitlines()[-1])["gigabytes"],
        f"{name}_report_megabytes": round(size, 3),
    }
