"""How much slower is a command when all cores but one are taken by somebody else?"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.audit import save_model, write_table

QUESTION = (
    "Commands on 10,000 rows x 30 features with an MLP 30-256-256-2, training of small networks on "
    "them, and the demo, beside busy loops on all cores but one, in units of the same commands on "
    "a quiet machine; the better of two runs each."
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "audit": ("audit", "model.pt2", "--data", "table.parquet", "--label", "y", "--quiet"),
    "audit_guard": (
        *("audit", "model.pt2", "--data", "table.parquet", "--label", "y", "--quiet"),
        *("--guard", "--out", "guarded"),
    ),
    "guard": ("guard", "model.pt2", "--data", "table.parquet", "--label", "y", "-o", "safe.pt2"),
    "verify": ("verify", "safe.pt2"),
    "train": (
        *("train", "relu", "--data", "table.parquet", "--label", "y", "--epochs", "20"),
        *("--quiet", "-o", "relu.safetensors"),
    ),
    "train_acet": (
        *("train", "relu", "--objective", "acet", "--data", "table.parquet", "--label", "y"),
        *("--epochs", "3", "--quiet", "-o", "acet.safetensors"),
    ),
    "demo": ("demo", "--quiet", "--out", "demo"),
}
TARGETS = {f"{name}_ratio": "<= 2.2" for name in COMMANDS}
RUN = "from farfield.cli import program; program()"
REPEATS = 2


def measure() -> dict[str, Any]:
    """Run every command alone, then every command beside busy loops."""
    numbers: dict[str, Any] = {"cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        X, y = write_table(home / "table.parquet", np.random.default_rng(0), 10_000, 30)
        torch.manual_seed(0)
        layers = nn.Linear(30, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)
        save_model(nn.Sequential(*layers), X, y, home / "model.pt2")
        alone = {name: _seconds(home, command) for name, command in COMMANDS.items()}
        with _busy((os.cpu_count() or 2) - 1):
            beside = {name: _seconds(home, command) for name, command in COMMANDS.items()}
    for name in COMMANDS:
        numbers[f"{name}_seconds"] = round(alone[name], 2)
        numbers[f"{name}_beside_seconds"] = round(beside[name], 2)
        numbers[f"{name}_ratio"] = round(beside[name] / alone[name], 3)
    return numbers


def _seconds(home: Path, command: tuple[str, ...]) -> float:
    """The better of a few runs; a command that exits with 1 has found something."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", RUN, *command],
            cwd=home, check=False, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode > 1:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        best = min(best, time.perf_counter() - start)
    return best


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    """Keep cores busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()
