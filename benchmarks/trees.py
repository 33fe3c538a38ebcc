"""What do trees at infinity cost, next to the library's own predictions?"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import farfield as ff
from benchmarks.timing import in_turn

QUESTION = (
    "500 boosted trees of depth 6 on 50 columns: 10,000 rays to infinity, in units of the "
    "library's own predict_proba of 10,000 rows on one thread; and farfield audit of the model's "
    "file with 100,000 rows, report included, in seconds."
)
TARGETS = {"xgboost_ratio": "<= 2", "lightgbm_ratio": "<= 2", "audit_seconds": "<= 20"}


def measure(trees: int = 500, rows: int = 10_000, audited: int = 100_000) -> dict[str, float]:
    """Time predictions and far fields in turn, then an audit as a user runs it."""
    import lightgbm
    import xgboost

    rng = np.random.default_rng(0)
    X = rng.standard_normal((audited, 50))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(audited) > 0).astype(int)
    directions = rng.standard_normal((rows, 50))
    few = {"n_estimators": trees, "max_depth": 6, "n_jobs": 1, "random_state": 0}
    models: dict[str, Any] = {
        "xgboost": xgboost.XGBClassifier(**few),
        "lightgbm": lightgbm.LGBMClassifier(**few, verbose=-1),
    }
    found: dict[str, float] = {"threads": torch.get_num_threads()}
    for name, model in models.items():
        model.fit(X[:rows], y[:rows])
        start = time.perf_counter()
        network = ff.capture(model)
        found[f"{name}_capture_seconds"] = time.perf_counter() - start
        calls = {
            "library": lambda m=model: m.predict_proba(X[:rows]),
            "rays": lambda n=network: ff.at_infinity(n, X[:rows], directions),
        }
        best = in_turn(calls, repeats=5)
        found |= {f"{name}_{side}_seconds": seconds for side, seconds in best.items()}
        found[f"{name}_ratio"] = best["rays"] / best["library"]
    found["audit_seconds"] = _audit(models["xgboost"], X, y)
    return found


def _audit(model: Any, X: Any, y: Any) -> float:
    """Seconds of ``farfield audit`` of a model's own file."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        model.save_model(here / "model.json")
        np.savez(here / "rows.npz", X=X, y=y)
        command = [sys.executable, "-c", "from farfield.cli import program; program()", "audit"]
        files = [str(here / "model.json"), "--data", str(here / "rows.npz")]
        start = time.perf_counter()
        subprocess.run(
            [*command, *files, "--out", str(here / "out")], check=True, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - start


if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:28} {value:.4g}")
