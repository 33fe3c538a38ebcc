"""Tables 1 and 2 of Know Your Limits: a random search over hyperparameters.

The configurations of a search are drawn from the seed, and any number of processes claim and
evaluate them, so the result is the same however many there are. Finished ones are trials of an
Optuna study in a sqlite file, where a search that was stopped goes on; what a killed process had
claimed is done by another.
"""

from __future__ import annotations

import importlib
import math
import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from farfield.datasets import half_moons
from farfield.errors import MissingDependency
from farfield.reproduce.claims import Claims
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage, step_per_model
from farfield.reproduce.models import SHARED, make_model
from farfield.reproduce.search_findings import present

__all__ = ["NAME", "NEEDS", "SOURCE", "TITLE", "present", "settings", "steps"]
NAME = "know-your-limits-search"
TITLE = "Hyperparameters on half-moons: 200 random configurations for each model"
SOURCE = "Ulmer and Cinà, Know Your Limits, Appendix B, Tables 1 and 2"
NEEDS: tuple[str, ...] = ()
MODELS = ("NN", "MC dropout", "Bayes by backprop")
# What one model has and another has not.
OWN = ("dropout", "rho_init", "kl_weight")


def settings(quick: bool, seed: int) -> Settings:
    """200 evaluations per model, as the paper has it, or 25."""
    return {
        "seed": seed,
        "evaluations": 25 if quick else 200,
        "models": list(MODELS),
        "layers": [1, 5],
        "widths": [15, 20, 25],
        "log10_learning_rate": [-4.0, -1.0],
        "dropout": [0.0, 0.5],
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """One step for each model; its study resumes by itself."""
    return step_per_model(settings, partial(_search, request))


def _search(request: RunRequest, name: str, settings: Settings) -> Result:
    """Run all configurations of one model in as many processes as allowed."""
    optuna = load_optuna()
    request.folder.mkdir(parents=True, exist_ok=True)
    # Made here once; processes that make the tables at the same time would collide.
    study = open_study(optuna, request.folder, name, settings)
    jobs = max(1, min(request.jobs, settings["evaluations"] - len(_done(optuna, study))))
    if jobs == 1:
        _evaluate_all(optuna, study, request.folder, name, settings)
    else:
        context = multiprocessing.get_context("spawn")
        arguments = (request.folder, name, settings)
        _run([context.Process(target=work, args=arguments) for _ in range(jobs)])
    trials = _done(optuna, study)
    done = [trials[number] for number in sorted(trials)]
    return {
        "trials": [_plain(trial) for trial in done],
        "importance": _importances(optuna, done),
    }


def _run(workers: Sequence[Any]) -> None:
    """Run processes to their end, each on one thread so that they do not slow each other down."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        for worker in workers:
            worker.start()
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise RuntimeError(f"a process of the search ended with exit code {worker.exitcode}")


def draw_configurations(name: str, settings: Settings) -> list[dict[str, Any]]:
    """Draw the configurations of a search from the paper's Table 2.

    Args:
        name: One of ``MODELS``.
        settings: As :func:`settings` returns them.

    >>> drawn = draw_configurations("NN", settings(True, 0))
    >>> len(drawn), sorted(drawn[0])[0], 1e-4 <= drawn[0]["learning_rate"] <= 0.1
    (25, 'dropout', True)
    """
    generator = np.random.default_rng([settings["seed"], MODELS.index(name)])
    configurations = []
    for _ in range(settings["evaluations"]):
        layers = int(generator.integers(settings["layers"][0], settings["layers"][1] + 1))
        chosen: dict[str, Any] = {"layers": layers}
        for layer in range(layers):
            chosen[f"width {layer + 1}"] = int(generator.choice(settings["widths"]))
        chosen["learning_rate"] = float(10 ** generator.uniform(*settings["log10_learning_rate"]))
        if name == "Bayes by backprop":
            chosen["rho_init"] = float(generator.uniform(-8, -2))
            chosen["kl_weight"] = float(10 ** generator.uniform(-3, 0))
        else:
            chosen["dropout"] = float(generator.uniform(*settings["dropout"]))
        configurations.append(chosen)
    return configurations


def load_optuna() -> Any:
    """Import Optuna, or say how to install it."""
    try:
        optuna = importlib.import_module("optuna")
    except ImportError as error:
        raise MissingDependency(
            "searches need optuna; install it with: pip install 'farfield[search]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def open_study(optuna: Any, folder: Path, name: str, settings: Settings) -> Any:
    """Open a study; other numbers or another seed make another one in the same file."""
    title = f"{name}, seed {settings['seed']}, {settings['evaluations']} evaluations"
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{(folder / 'study.db').resolve()}",
        engine_kwargs={"connect_args": {"timeout": 60}},
    )
    return optuna.create_study(
        storage=storage, study_name=title, direction="maximize", load_if_exists=True
    )


def _done(optuna: Any, study: Any) -> dict[int, Any]:
    """Trials of the study by the number of their configuration."""
    complete = [optuna.trial.TrialState.COMPLETE]
    trials = study.get_trials(deepcopy=False, states=complete)
    return {trial.user_attrs["number"]: trial for trial in trials}


def work(folder: Path, name: str, settings: Settings) -> None:
    """Evaluate configurations until all are done; safe in any number of processes."""
    optuna = load_optuna()
    _evaluate_all(optuna, open_study(optuna, folder, name, settings), folder, name, settings)


def _evaluate_all(optuna: Any, study: Any, folder: Path, name: str, settings: Settings) -> None:
    """Evaluate what is not done yet, nor claimed by others, until nothing is left."""
    claims = Claims(folder / "claims.db", study.study_name)
    configurations = draw_configurations(name, settings)
    space = _space(optuna, settings)
    while len(done := _done(optuna, study)) < len(configurations):
        for number, configuration in enumerate(configurations):
            if number in done or not claims.take(number):
                continue
            try:
                found = _evaluate(name, configuration, number, settings)
            except BaseException:
                # Stopped or failed: the next process, or the next run, shall do it.
                claims.release(number)
                raise
            distributions = {each: space[each] for each in configuration}
            study.add_trial(
                optuna.trial.create_trial(
                    params=configuration, distributions=distributions, **found
                )
            )
        # What is left is in the hands of others; it is taken over if they are killed.
        time.sleep(0.2)


def _space(optuna: Any, settings: Settings) -> dict[str, Any]:
    """The distributions of the paper's Table 2, and ours for Bayes by backprop."""
    ranges = optuna.distributions
    low, high = settings["log10_learning_rate"]
    layers = settings["layers"]
    return {
        "layers": ranges.IntDistribution(*layers),
        "learning_rate": ranges.FloatDistribution(10**low, 10**high, log=True),
        "dropout": ranges.FloatDistribution(*settings["dropout"]),
        "rho_init": ranges.FloatDistribution(-8, -2),
        "kl_weight": ranges.FloatDistribution(1e-3, 1, log=True),
        **{
            f"width {layer}": ranges.CategoricalDistribution(settings["widths"])
            for layer in range(1, layers[1] + 1)
        },
    }


def _evaluate(
    name: str, configuration: Mapping[str, Any], number: int, settings: Settings
) -> dict[str, Any]:
    """Train one configuration and judge it on the validation points."""
    moons = half_moons(settings["seed"])
    model = _build(name, configuration, settings["seed"])
    model.fit(moons.X, moons.y, validation=(moons.X_validation, moons.y_validation))
    probabilities = model.predict_proba(moons.X_validation)
    chosen = probabilities[np.arange(len(probabilities)), moons.y_validation]
    attributes = {
        "number": number,
        "accuracy": float(model.score(moons.X_validation, moons.y_validation)),
        "nll": float(-np.log(np.maximum(chosen, 1e-300)).mean()),
    }
    auc = float(roc_auc_score(moons.y_validation, probabilities[:, 1]))
    return {"value": auc, "user_attrs": attributes}


def _build(name: str, chosen: Mapping[str, Any], seed: int) -> Any:
    hidden = tuple(chosen[f"width {layer + 1}"] for layer in range(chosen["layers"]))
    rate = chosen["learning_rate"]
    own = {key: chosen[key] for key in OWN if key in chosen}
    shared = {**SHARED, **own, "hidden": hidden, "learning_rate": rate, "random_state": seed}
    return make_model(name, shared)


def _plain(trial: Any) -> dict[str, Any]:
    """What is kept of a trial."""
    params, found = trial.params, trial.user_attrs
    widths = [params[f"width {layer + 1}"] for layer in range(params["layers"])]
    rate = math.log10(params["learning_rate"])
    layers = {"hidden": widths, "units": sum(widths), "log10_rate": rate}
    return {
        **params, **layers,
        "auc": trial.value, "accuracy": found["accuracy"], "nll": found["nll"],
    }  # fmt: skip


def _importances(optuna: Any, trials: Sequence[Any]) -> dict[str, float]:
    """How much of the spread of the AUC each parameter explains, among those all trials have.

    Trials come in the order of their numbers, whichever process was done first.
    """
    study = optuna.create_study(direction="maximize")
    study.add_trials(trials)
    names = ["layers", "learning_rate", *(name for name in OWN if name in study.best_params)]
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    found = optuna.importance.get_param_importances(study, evaluator=evaluator, params=names)
    return {name: float(value) for name, value in found.items()}
