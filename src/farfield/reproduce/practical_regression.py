"""The practical's regression: likelihoods, adversarial training and members on a noisy cubic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from farfield.datasets import cubic
from farfield.estimators import EnsembleRegressor
from farfield.estimators.mixture import Mixture
from farfield.evaluate import regression
from farfield.objectives import Adversarial
from farfield.report.ensembles import draw_mixture
from farfield.reproduce.drawing import legend_outside, panels, tidy
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value

NAME = "practical-regression"
TITLE = "A noisy cubic: four likelihoods, adversarial training on and off, 1 to 20 members"
SOURCE = "Uncertainty Estimation Practical, Part I: regression on a toy dataset, and its questions"
NEEDS: tuple[str, ...] = ()
LIKELIHOODS = ("mse", "mae", "gaussian", "laplace")
# What the notebook prints: the six members' losses after 600 steps, Gaussian.
PUBLISHED_LOSSES = (9.232912, 3.532995, 5.225137, 3.0285718, 8.246596, 6.4121294)
EDGE, FAR = 4.0, 6.0


def settings(quick: bool, seed: int) -> Settings:
    """Hidden 10-6-30, 600 full-batch steps of Adam; our rate is for standardised targets."""
    return {
        "seed": seed,
        "members": [1, 2, 6] if quick else [1, 2, 3, 6, 10, 20],
        "repeats": 5 if quick else 20,
        "steps": 600,
        "learning_rate": 0.02,
        "hidden": [10, 6, 30],
        "test_points": 2000,
        "epsilon": 0.01,
    }


def steps(settings: Settings, _request: RunRequest) -> Sequence[Stage]:
    """One step for each likelihood and objective: the largest ensemble holds the smaller ones."""
    return [
        Stage(
            f"{likelihood}, {objective}",
            {**settings, "likelihood": likelihood, "objective": objective},
            partial(_evaluate, likelihood, objective, settings),
        )
        for likelihood in LIKELIHOODS
        for objective in ("nll", "adversarial")
    ]


def _evaluate(likelihood: Any, objective: Any, settings: Settings) -> Result:
    """Train repeats of the largest ensemble; its first members are the smaller ensembles."""
    data = cubic()
    grid = np.linspace(-FAR, FAR, 241)
    generator = np.random.default_rng(settings["seed"])
    count: int = settings["test_points"]
    inside = generator.uniform(-EDGE, EDGE, count)
    sides = np.where(generator.random(count) < 0.5, -1, 1)
    outside = sides * generator.uniform(EDGE, FAR, count)
    rows = []
    losses: list[float] = []
    first: dict[str, Any] = {}
    for repeat in range(settings["repeats"]):
        model = EnsembleRegressor(
            likelihood=likelihood,
            objective=Adversarial(settings["epsilon"]) if objective == "adversarial" else "nll",
            members=max(settings["members"]),
            hidden=tuple(settings["hidden"]),
            epochs=settings["steps"],
            batch_size=None,
            learning_rate=settings["learning_rate"],
            random_state=settings["seed"] + repeat,
        ).fit(data.X, data.y)
        for members in settings["members"]:
            near = _measure(model, inside, members, generator)
            away = _measure(model, outside, members, generator)
            rows.append([members, *near, *away])
        fit = model.predict_mixture(data.X)
        losses += _member_losses(fit, data.y)
        if repeat == 0:
            shown = model.predict_mixture(grid[:, None])
            first = {"means": shown.means[:6], "scales": shown.member_std[:6]}
    return {"rows": np.array(rows), "losses": np.array(losses), "grid": grid, **first}


def _measure(model: Any, x: Any, members: int, generator: Any) -> list[float]:
    """RMSE, NLL, 95% coverage and mean standard deviation of the first members."""
    y = x**3 + generator.normal(0, 3, len(x))
    mixture = model.predict_mixture(x[:, None])
    mean, std = mixture.means[:members], mixture.member_std[:members]
    found = regression(y, mean, std, family=mixture.family)
    spread = np.sqrt((std**2).mean(axis=0) + mean.var(axis=0))
    return [found.rmse, found.mixture_nll, found.coverage, float(spread.mean())]


def _member_losses(mixture: Any, y: Any) -> list[float]:
    """Each member's NLL on the training points."""
    return [
        float(regression(y, mean, std, family=mixture.family).nll)
        for mean, std in zip(mixture.means, mixture.member_std, strict=True)
    ]


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Tabulate everything and draw the notebook's figure."""
    table = _table(results)
    losses = results["gaussian, nll"]["losses"]
    published = float(np.mean(PUBLISHED_LOSSES))
    comparisons = [
        PaperComparison(
            "final loss of a member (Gaussian NLL on the 40 points), mean",
            round(published, 3),
            float(losses.mean()),
            "cell 7: 3.03 to 9.23 over six members",
            "The notebook trains on targets as they are, at a rate of 0.08 and from weights of "
            "deviation 0.02 to 0.19, so its members stop far from the optimum; ours standardise "
            "the targets inside. Noise of deviation 3 allows 2.52.",
            tolerance=0.1,
        ),
        PaperComparison(
            "band of a member in the figure",
            "sqrt(sigma)",
            "sigma",
            "cell 8",
            "The head is a scale, sigma = softplus(rho) + 1e-6, and the loss uses sigma^2 as "
            "variance, so the deviation is sigma; the notebook's left panels draw sqrt(sigma).",
            agrees=False,
        ),
        PaperComparison(
            "variance of the Laplace distribution L(mu, sigma)",
            "sigma",
            "2 sigma^2",
            "text before equation 4",
            "The density in equation 4 has the scale sigma, so its variance is 2 sigma^2, which "
            "equation 8 uses rightly.",
            agrees=False,
        ),
    ]
    pictures = [
        Figure("figure", _CAPTION, _bands(results["gaussian, nll"])),
        Figure("members", _CAPTION_MEMBERS, _members(results)),
    ]
    return Findings(_answers(settings, results), comparisons, [table], pictures)


_CAPTION = (
    "The notebook's figure: six Gaussian members with bands of one standard deviation (sigma, not "
    "its root), and their mixture; x^3 dashed."
)
_CAPTION_MEMBERS = (
    "Negative log-likelihood and coverage of the 95% interval on fresh points, inside of the "
    "data's range and beyond (4 < |x| < 6), by number of members; mean and standard error."
)


def _bands(result: Result) -> Any:
    data = cubic()
    bands = Mixture("gaussian", result["means"], result["scales"])
    truth, limits = (lambda x: x**3), (-300.0, 300.0)
    return draw_mixture(result["grid"], bands, data.X[:, 0], data.y, truth, limits)


def _of(result: Result, members: int) -> Any:
    """The rows of one number of members, ``(repeats, 8)``."""
    rows = result["rows"]
    return rows[rows[:, 0] == members][:, 1:]


def _table(results: Mapping[str, Result]) -> ResultTable:
    rows: list[list[Value]] = []
    for name, result in results.items():
        likelihood, objective = name.split(", ")
        for members in np.unique(result["rows"][:, 0]).astype(int):
            values = _of(result, members).mean(axis=0)
            adversarial = "on" if objective == "adversarial" else "off"
            rows.append([likelihood, adversarial, int(members), *map(float, values)])
    columns = [
        "likelihood", "adversarial", "members", "RMSE inside", "NLL inside", "coverage inside",
        "std inside", "RMSE beyond", "NLL beyond", "coverage beyond", "std beyond",
    ]  # fmt: skip
    caption = (
        "Means over repeats; fresh points inside of [-4, 4] and with 4 < |x| < 6. Coverage is of "
        "the central 95% interval."
    )
    return ResultTable("cubic", caption, columns, rows)


def _answers(settings: Settings, results: Mapping[str, Result]) -> list[str]:
    """The practical's discussion questions, answered with numbers."""
    one = _of(results["gaussian, nll"], 1).mean(axis=0)
    trained = _of(results["gaussian, adversarial"], 1).mean(axis=0)
    most = max(settings["members"])
    gain = _of(results["gaussian, nll"], 1)[:, 1] - _of(results["gaussian, adversarial"], 1)[:, 1]
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("inf")
    constant = _of(results["mse, nll"], 1).mean(axis=0)[6]
    several = _of(results["gaussian, nll"], most).mean(axis=0)
    path = ", ".join(
        f"{members}: {_of(results['gaussian, nll'], members).mean(axis=0)[5]:.1f}"
        for members in settings["members"]
    )
    return [
        "What does adversarial training do to one Gaussian network? Inside, NLL goes from "
        f"{one[1]:.2f} to {trained[1]:.2f} and the mean deviation from {one[3]:.2f} to "
        f"{trained[3]:.2f} (the noise has 3); beyond the data, NLL from {one[5]:.1f} to "
        f"{trained[5]:.1f}. The notebook answers that it improves robustness significantly; the "
        f"gain inside is {gain.mean():.2f} ± {error:.2f} (standard error, {len(gain)} repeats), so "
        + ("it does here." if gain.mean() > 2 * error else "that is not seen here."),
        f"What do {most} members do? Inside, NLL goes from {one[1]:.2f} to {several[1]:.2f}; "
        f"beyond, from {one[5]:.1f} to {several[5]:.1f}, and the 95% interval holds "
        f"{several[6]:.0%} of the points there in place of {one[6]:.0%}.",
        f"How does their number matter? NLL beyond the data by members: {path}.",
        "MSE and MAE have no head for the scale, but one constant per member, fitted to residuals: "
        f"the 95% interval of one holds {constant:.0%} of the points beyond the data.",
    ]


def _members(results: Mapping[str, Result]) -> Any:
    shown = {"NLL, inside": 1, "NLL, beyond": 5, "coverage, inside": 2, "coverage, beyond": 6}
    figure, axes = panels(list(shown), (4.8, 2.5), 2, sharex=True)
    colours = dict(zip(LIKELIHOODS, ("#666666", "#d95f02", "#54278f", "#1b9e77"), strict=True))
    for axis, (title, column) in zip(axes, shown.items(), strict=True):
        for name, result in results.items():
            likelihood, objective = name.split(", ")
            numbers = np.unique(result["rows"][:, 0]).astype(int)
            values = [_of(result, each)[:, column] for each in numbers]
            style = "--" if objective == "adversarial" else "-"
            label = likelihood + (", adversarial" if objective == "adversarial" else "")
            axis.errorbar(
                numbers,
                [each.mean() for each in values],
                [each.std() / np.sqrt(len(each)) for each in values],
                ls=style, color=colours[likelihood], lw=1.2, capsize=2, label=label,
            )  # fmt: skip
        axis.set_xticks(numbers)
        if column == 5:
            axis.set_yscale("log")
        if title.startswith("coverage"):
            axis.axhline(0.95, color="0.4", lw=0.8, ls=":")
            axis.set_ylim(0, 1.02)
            axis.set_xlabel("members")
        tidy(axis)
    legend_outside(figure, axes[0], "right center")
    return figure
