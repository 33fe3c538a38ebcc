"""The regression table of the deep ensembles paper: UCI sets, standard splits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from farfield.datasets import uci_regression
from farfield.estimators import EnsembleRegressor
from farfield.report.figure import new_figure
from farfield.reproduce.drawing import tidy
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value

NAME = "uci"
TITLE = "Deep ensembles on UCI regression: RMSE and NLL on the standard splits"
SOURCE = "Lakshminarayanan, Pritzel and Blundell 2017, Table 1"
# RMSE and NLL as the paper prints them, each with one standard error over splits.
PUBLISHED = {
    "boston": ((3.28, 1.00), (2.41, 0.25)),
    "energy": ((2.09, 0.29), (1.38, 0.22)),
    "kin8nm": ((0.09, 0.00), (-1.20, 0.02)),
    "naval": ((0.00, 0.00), (-5.63, 0.05)),
    "power": ((4.11, 0.17), (2.79, 0.04)),
    "protein": ((4.71, 0.06), (2.83, 0.02)),
    "wine_red": ((0.64, 0.04), (0.94, 0.12)),
    "yacht": ((1.58, 0.48), (1.18, 0.21)),
}
NEEDS = tuple(f"uci_regression/{name}.csv.gz" for name in PUBLISHED)
RATES = (0.003, 0.01, 0.03)


def settings(quick: bool, seed: int) -> Settings:
    """Five members, 50 hidden units, 40 epochs, batches of 100; 20 splits (protein has 5)."""
    return {
        "seed": seed,
        "members": 5,
        "hidden": [50],
        "epochs": 40,
        "batch_size": 100,
        "splits": {name: _splits(name, quick) for name in PUBLISHED},
        "rates": list(RATES),
    }


def _splits(name: str, quick: bool) -> int:
    if not quick:
        return 5 if name == "protein" else 20
    return {"protein": 1, "naval": 2, "kin8nm": 3, "power": 3}.get(name, 5)


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """For each set one step to choose the learning rate, then one for each split."""
    fixed = {key: settings[key] for key in ("seed", "members", "hidden", "epochs", "batch_size")}
    found: list[Stage] = []
    for name, count in settings["splits"].items():
        chooser = partial(_choose, name, settings, request)
        choosing = {**fixed, "set": name, "rates": settings["rates"]}
        found.append(Stage(f"{name}: rate", choosing, chooser))
        found += [
            Stage(
                f"{name}: split {split}",
                {**choosing, "split": split},
                partial(_split, name, split, settings, request),
                needs=(f"{name}: rate",),
            )
            for split in range(count)
        ]
    return found


def _choose(name: str, settings: Settings, request: RunRequest) -> Result:
    """Take the rate with the lowest NLL on a fifth of the first split's training rows."""
    X, y, _, _ = uci_regression(name, request.data_dir).split(0)
    order = np.random.default_rng(settings["seed"]).permutation(len(X))
    held, rest = np.split(order, [len(X) // 5])
    losses = [
        _model(rate, settings["seed"], settings).fit(X[rest], y[rest]).nll(X[held], y[held])
        for rate in settings["rates"]
    ]
    return {"rate": settings["rates"][int(np.argmin(losses))], "losses": losses}


def _split(
    name: str, split: int, settings: Settings, request: RunRequest, chosen: Result
) -> Result:
    X, y, X_test, y_test = uci_regression(name, request.data_dir).split(split)
    model = _model(chosen["rate"], settings["seed"] + split, settings).fit(X, y)
    error = math.sqrt(float(np.mean((model.predict(X_test) - y_test) ** 2)))
    return {"rmse": error, "nll": model.nll(X_test, y_test)}


def _model(rate: float, seed: int, settings: Settings) -> EnsembleRegressor:
    return EnsembleRegressor(
        members=settings["members"],
        hidden=tuple(settings["hidden"]),
        epochs=settings["epochs"],
        batch_size=settings["batch_size"],
        learning_rate=rate,
        random_state=seed,
    )


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Put means and standard errors beside the paper's."""
    rows: list[list[Value]] = []
    comparisons: list[PaperComparison] = []
    means: dict[str, tuple[float, float]] = {}
    for name, count in settings["splits"].items():
        scores = np.array(
            [[results[f"{name}: split {s}"][key] for key in ("rmse", "nll")] for s in range(count)]
        )
        mean, error = scores.mean(axis=0), _errors(scores)
        (rmse, rmse_error), (nll, nll_error) = PUBLISHED[name]
        means[name] = (float(mean[1]), float(error[1]))
        ours = [float(mean[0]), float(error[0]), rmse, rmse_error]
        ours += [float(mean[1]), float(error[1]), nll, nll_error]
        rows.append([name, count, results[f"{name}: rate"]["rate"], *ours])
        source, why = f"Table 1, {nll} ± {nll_error}", _why(float(mean[1]), nll, nll_error, count)
        comparisons += PaperComparison.each(
            {f"{name}: NLL": float(mean[1])}, nll, source, why, tolerance=nll_error
        )
    columns = [
        "set", "splits", "learning rate", "RMSE", "± error", "published RMSE", "± published",
        "NLL", "± error of NLL", "published NLL", "± published NLL",
    ]  # fmt: skip
    caption = (
        "Mean and one standard error over splits. The learning rate is chosen on rows held out "
        "from the first split's training rows."
    )
    better = [c for c in comparisons if c.agreement or (c.difference or 0) < 0]
    summary = [
        f"On {len(better)} of {len(comparisons)} sets the NLL is within one published standard "
        "error of the paper's, or better."
    ]
    picture = Figure("nll", _CAPTION, _figure(means))
    return Findings(summary, comparisons, [ResultTable("uci", caption, columns, rows)], [picture])


_CAPTION = (
    "NLL beside the published one: ours minus theirs, with one standard error each (purple ours, "
    "orange the paper's as printed)."
)


def _errors(scores: Any) -> Any:
    if len(scores) < 2:
        return np.full(scores.shape[1], np.nan)
    return scores.std(axis=0, ddof=1) / math.sqrt(len(scores))


def _why(ours: float, published: float, error: float, count: int) -> str:
    if ours < published - error:
        return "Better than published: the rate is chosen per set here, and inputs are scaled."
    few = f" {count} of the splits were run." if count < 5 else ""
    return f"Worse than published by more than one standard error.{few}"


def _figure(means: Mapping[str, tuple[float, float]]) -> Any:
    figure = new_figure(6.6, 3.2)
    axis = figure.subplots()
    for place, (name, (nll, error)) in enumerate(means.items()):
        published, theirs = PUBLISHED[name][1]
        axis.errorbar(nll - published, place + 0.13, xerr=np.nan_to_num(error), fmt="o", ms=4,
                      color="#54278f", capsize=2)  # fmt: skip
        axis.errorbar(0, place - 0.13, xerr=theirs, fmt="s", ms=4, color="#d95f02", capsize=2)
    axis.set_yticks(range(len(means)), list(means))
    axis.invert_yaxis()
    axis.axvline(0, color="0.6", lw=0.8)
    axis.set_xlabel("NLL minus the published mean")
    tidy(axis)
    return figure
