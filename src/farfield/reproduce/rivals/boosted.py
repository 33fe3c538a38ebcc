"""Gradient-boosted trees as black boxes, and the remedies that need nothing but probabilities."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from farfield.errors import MissingDependency
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.rival import Rival, Rows, of_probabilities

TREES, DEPTH, RATE = 100, 4, 0.1
CLASSIFIERS = {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier"}


def train(task: GuardTask, seed: int, part: slice = slice(None)) -> Any:
    """Fit trees with XGBoost or LightGBM, single-threaded."""
    assert task.boosted is not None, "a task of boosted trees names its library"
    settings: dict[str, Any] = {"n_estimators": TREES, "max_depth": DEPTH, "learning_rate": RATE}
    settings |= {"subsample": 0.8, "random_state": seed, "n_jobs": 1}
    if task.boosted == "lightgbm":
        settings |= {"verbose": -1, "subsample_freq": 1}
    try:
        library = importlib.import_module(task.boosted)
    except ImportError as reason:
        raise MissingDependency(
            f"boosted trees need {task.boosted}: pip install 'farfield[bench]'"
        ) from reason
    X, y = task.train
    return getattr(library, CLASSIFIERS[task.boosted])(**settings).fit(X[part], y[part])


def ask(model: Any) -> Callable[[Any], NDArray[np.float64]]:
    """The model's probabilities, by the booster where scikit-learn's wrapper would only check."""

    def probabilities(rows: Any) -> NDArray[np.float64]:
        found: NDArray[np.float64] = model.predict_proba(np.asarray(rows)).astype(np.float64)
        return found

    return probabilities


def as_rows(call: Callable[[Any], NDArray[np.float64]]) -> Rows:
    """A function of arrays as one of tensors."""
    return lambda rows: torch.from_numpy(call(rows.numpy()))


def plain(models: Sequence[Any]) -> Rival:
    """One model, or the mean of several."""
    calls = [as_rows(ask(model)) for model in models]

    def probabilities(rows: Tensor) -> Tensor:
        return torch.stack([call(rows) for call in calls]).mean(dim=0)

    return of_probabilities(probabilities, None, smooth=False)


def temperature(task: GuardTask, seed: int) -> Rival:
    """Scale log-probabilities by a number that a fifth of the training rows chooses."""
    X, y = task.train
    held = len(X) // 5
    call = as_rows(ask(train(task, seed, slice(held, None))))
    rows, codes = torch.from_numpy(X[:held]), torch.from_numpy(y[:held])

    def scaled(values: Tensor, factor: float) -> Tensor:
        return torch.softmax(call(values).clamp(min=1e-12).log() / factor, dim=1)

    def loss(logarithm: float) -> float:
        p = scaled(rows, float(np.exp(logarithm)))
        return -float(p[torch.arange(held), codes].clamp(min=1e-12).log().mean())

    factor = float(np.exp(minimize_scalar(loss, bounds=(-2.0, 2.0), method="bounded").x))
    extra = {"temperature": factor}
    return of_probabilities(lambda values: scaled(values, factor), None, smooth=False, extra=extra)
