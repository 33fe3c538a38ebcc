"""Which models know when they do not know: twenty kinds on eight tables, before and after a guard.

Every model is followed to infinity where that is possible, and says so where it is not. Blind is a
direction in which it ends 99% sure or more.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from farfield.audit.run import audit
from farfield.errors import FarfieldError
from farfield.estimate import Estimate
from farfield.estimators import (
    AnchoredEnsembleClassifier,
    EnsembleClassifier,
    MCDropoutClassifier,
    RBFClassifier,
    ReLUClassifier,
)
from farfield.evaluate import calibration, detection
from farfield.guard.classifier import GuardedClassifier
from farfield.report.figure import new_figure
from farfield.reproduce.drawing import tidy
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value
from farfield.reproduce.shifted_tables import FILES, TABLES, ShiftedTable

NAME = "every-model"
TITLE = "Which models know when they do not know?"
SOURCE = "farfield's own study; see docs/papers.md"
NEEDS: tuple[str, ...] = ()
QUICK = ("half-moons", "breast cancer")
FAMILIES = ("axes", "random", "data")
THEOREMS = {
    "ReLU network": ("all", "Hein et al. 2019, Theorem 3.1"),
    "RBF network": ("none", "Hein et al. 2019, Theorem 3.2"),
}
# Gaussian processes cost the cube of the rows.
MOST_OF_PROCESS = 500


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def _network(kind: Any, seed: int, **more: Any) -> Any:
    return kind(hidden=(50, 50), epochs=20, random_state=seed, **more)


def _foreign(module: str, name: str, seed: int, **more: Any) -> Any:
    made = getattr(importlib.import_module(module), name)
    return made(random_state=seed, **more)


MODELS: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda _: _scaled(LogisticRegression(max_iter=2000)),
    "QDA": lambda _: _scaled(QuadraticDiscriminantAnalysis(reg_param=0.1)),
    "naive Bayes": lambda _: _scaled(GaussianNB()),
    "nearest neighbours": lambda _: _scaled(KNeighborsClassifier(15)),
    "RBF-SVM": lambda _: _scaled(CalibratedClassifierCV(SVC(), ensemble=False)),
    "Gaussian process": lambda seed: _scaled(
        GaussianProcessClassifier(RBF(3.0), random_state=seed)
    ),
    "decision tree": lambda seed: DecisionTreeClassifier(min_samples_leaf=10, random_state=seed),
    "random forest": lambda seed: RandomForestClassifier(200, random_state=seed),
    "extra trees": lambda seed: ExtraTreesClassifier(200, random_state=seed),
    "gradient boosting": lambda seed: GradientBoostingClassifier(random_state=seed),
    "histogram boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "XGBoost": lambda seed: _foreign("xgboost", "XGBClassifier", seed, n_jobs=1),
    "LightGBM": lambda seed: _foreign("lightgbm", "LGBMClassifier", seed, n_jobs=1, verbose=-1),
    "CatBoost": lambda seed: _foreign(
        "catboost", "CatBoostClassifier", seed, verbose=0, thread_count=1, iterations=300,
        allow_writing_files=False,
    ),
    "ReLU network": lambda seed: _network(ReLUClassifier, seed),
    "ensemble of ten": lambda seed: _network(EnsembleClassifier, seed, members=10),
    "anchored ensemble": lambda seed: _network(AnchoredEnsembleClassifier, seed, members=10),
    "MC dropout": lambda seed: _network(MCDropoutClassifier, seed, samples=20),
    "RBF network": lambda seed: RBFClassifier(random_state=seed),
}  # fmt: skip
PACKAGES = {"XGBoost": "xgboost", "LightGBM": "lightgbm", "CatBoost": "catboost"}


def settings(quick: bool, seed: int) -> Settings:
    """All models and tables; in quick mode two tables and fewer rows."""
    return {
        "seed": seed,
        "tables": list(QUICK if quick else TABLES),
        "models": [
            name
            for name in MODELS
            if name not in PACKAGES or importlib.util.find_spec(PACKAGES[name])
        ],
        "rows": 400 if quick else 4000,
        "directions": 200 if quick else 1000,
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """One step for each model on each table whose file is there."""
    shared = {key: settings[key] for key in ("seed", "rows", "directions")}
    return [
        Stage(
            f"{table}: {model}",
            {**shared, "table": table, "model": model},
            partial(_measure, table, model, settings, request.data_dir),
        )
        for table in settings["tables"]
        if _available(table, request.data_dir)
        for model in settings["models"]
    ]


def _available(table: str, folder: Path | None) -> bool:
    return table not in FILES or (folder is not None and (folder / FILES[table]).exists())


def _measure(table: str, name: str, settings: Settings, folder: Path | None) -> Result:
    """Fit a model, follow it to infinity, and look at rows that are not its own."""
    data = TABLES[table](folder)
    rows = MOST_OF_PROCESS if name == "Gaussian process" else settings["rows"]
    X, y = (part[:rows] for part in data.train)
    model = MODELS[name](settings["seed"])
    with warnings.catch_warnings():
        # Libraries warn of columns that never vary and of fits that could go on.
        warnings.simplefilter("ignore")
        model.fit(X, y)
        found = _far(model, X, y, settings)
        before = _near(model.predict_proba, data)
        try:
            safe = GuardedClassifier(model, prefit=True, random_state=settings["seed"]).fit(X, y)
        except FarfieldError as error:
            return {**found, "before": before, "refused": str(error)}
        after = _near(safe.predict_proba, data)
    return {**found, "before": before, "after": after, "proven": bool(safe.guard_.verify())}


def _far(model: Any, X: Any, y: Any, settings: Settings) -> Result:
    found = audit(
        model,
        X,
        y,
        samples=200,
        directions=settings["directions"],
        random_state=settings["seed"],
    )
    families = {family.name: family for family in found.families}
    blind = {
        name: share.value if isinstance(share := families[name].share, Estimate) else float(share)
        for name in FAMILIES
        if name in families
    }
    settled = families["axes"].settled
    return {
        "blind": blind,
        "exact": found.verdict.seen_to is None,
        "sure from": settled[1] if settled else None,
    }


def _near(predict: Callable[[Any], Any], data: ShiftedTable) -> Result:
    """Accuracy and likelihood on test rows; AUROC of one minus confidence on what is foreign."""
    own = np.asarray(predict(data.test[0]))
    judged = calibration(own, data.test[1])
    inside = 1 - own.max(axis=1)
    foreign = {"one column scaled": data.scaled(), **data.near}
    return {
        "accuracy": judged.accuracy,
        "nll": judged.nll,
        "auroc": {
            name: detection(inside, 1 - np.asarray(predict(rows)).max(axis=1)).auroc
            for name, rows in foreign.items()
        },
    }


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Say which models know, in a table for each question and one picture."""
    cells = {tuple(name.split(": ", 1)): result for name, result in results.items()}
    tables = [t for t in settings["tables"] if any(key[0] == t for key in cells)]
    models = [m for m in settings["models"] if any(key[1] == m for key in cells)]
    absent = [table for table in settings["tables"] if table not in tables]
    summary = _summary(cells, models)
    if absent:
        summary.append(f"Left out, because their files were not given: {', '.join(absent)}.")
    return Findings(
        summary,
        [_compare(cells, model) for model in models if model in THEOREMS],
        [_overview(cells, models), _shifts(cells, models)],
        [Figure("every-model", _CAPTION, _draw(cells, models))],
    )


def _compare(cells: Mapping[Any, Result], model: str) -> PaperComparison:
    """What a theorem says of a kind of model, beside what was found."""
    claimed, source = THEOREMS[model]
    share = _mean(cells, model, partial(_blind, "axes"))
    held = share is not None and (share > 0.999 if claimed == "all" else share < 0.001)
    return PaperComparison(
        f"{model}: features that alone make it 99% sure, mean over tables",
        claimed,
        share,
        source,
        "The theorem assumes more of the model than some of these fulfil.",
        agrees=held,
    )


_CAPTION = (
    "Left: the share of features that alone make a model 99% sure, each dot a table, bars the "
    "mean. Right: how well confidence tells rows with one column times 10 to a million from the "
    "test rows (AUROC, mean over tables): hollow as trained, filled with a guard around it."
)


def _mean(cells: Mapping[Any, Result], model: str, read: Callable[[Result], Any]) -> float | None:
    values = [read(result) for (_, name), result in cells.items() if name == model]
    known = [float(value) for value in values if value is not None and np.isfinite(value)]
    return float(np.mean(known)) if known else None


def _blind(family: str, result: Result) -> float | None:
    share: float | None = result["blind"].get(family)
    return share


def _scaled_auroc(result: Result, when: str) -> float | None:
    found = result.get(when)
    return None if found is None else found["auroc"]["one column scaled"]


def _overview(cells: Mapping[Any, Result], models: Sequence[str]) -> ResultTable:
    columns = [
        "model", "exact on", "accuracy", "NLL", "blind axes", "blind random", "blind data",
        "99.9% sure from (sd)", "scaled column", "scaled, guarded", "NLL change", "blind, guarded",
    ]  # fmt: skip
    rows: list[list[Value]] = []
    for model in models:
        own = [result for (_, name), result in cells.items() if name == model]
        mean = partial(_mean, cells, model)
        proven = [result["proven"] for result in own if "proven" in result]
        rows.append(
            [
                model,
                f"{sum(result['exact'] for result in own)} of {len(own)}",
                mean(lambda r: r["before"]["accuracy"]),
                mean(lambda r: r["before"]["nll"]),
                *(mean(partial(_blind, family)) for family in FAMILIES),
                mean(lambda r: r["sure from"]),
                mean(lambda r: _scaled_auroc(r, "before")),
                mean(lambda r: _scaled_auroc(r, "after")),
                mean(lambda r: r["after"]["nll"] - r["before"]["nll"] if "after" in r else None),
                f"0 (proven on {sum(proven)} of {len(own)})" if proven else None,
            ]
        )
    caption = (
        "Means over tables. Blind: the share of directions in which a model ends 99% sure or more, "
        "for each feature alone, random directions, and from the mean through rows. A guard makes "
        "it 0 by its certificate."
    )
    return ResultTable("models", caption, columns, rows)


def _shifts(cells: Mapping[Any, Result], models: Sequence[str]) -> ResultTable:
    """AUROC on every shift, before and with a guard."""
    kinds = dict.fromkeys(
        (table, name) for (table, _), result in cells.items() for name in result["before"]["auroc"]
    )
    rows: list[list[Value]] = []
    for table, shift in kinds:
        row: list[Value] = [table, shift]
        for model in models:
            result = cells.get((table, model))
            before, after = (
                None if result is None or when not in result else result[when]["auroc"][shift]
                for when in ("before", "after")
            )
            row.append(None if before is None else f"{before:.3f} / {_text(after)}")
        rows.append(row)
    caption = "AUROC of one minus the confidence, as trained / guarded."
    return ResultTable("shifts", caption, ["table", "foreign rows", *models], rows)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _summary(cells: Mapping[Any, Result], models: Sequence[str]) -> list[str]:
    """Plain words, made from the numbers."""
    blind = {m: _mean(cells, m, lambda r: r["blind"].get("axes")) or 0.0 for m in models}
    sure = [m for m in models if blind[m] >= 0.9]
    open_ = [m for m in models if blind[m] <= 0.1]
    between = [m for m in models if m not in sure and m not in open_]
    sentences = []
    for group, words in (
        (sure, "become certain for an extreme value of nearly every single feature"),
        (between, "do so for some features"),
        (open_, "hardly ever do"),
    ):
        if group:
            listed = ", ".join(f"{m} ({blind[m]:.0%})" for m in group)
            sentences.append(f"{listed}: {words}.")
    before = {m: _mean(cells, m, lambda r: _scaled_auroc(r, "before")) for m in models}
    known = {m: value for m, value in before.items() if value is not None}
    if known:
        best = max(known, key=lambda m: known[m])
        worst = min(known, key=lambda m: known[m])
        after = [_mean(cells, m, lambda r: _scaled_auroc(r, "after")) for m in models]
        least = min(value for value in after if value is not None)
        sentences.append(
            f"A column that is ten to a million times too large is told from test rows best by "
            f"{best} (AUROC {known[best]:.3f}) and worst by {worst} ({known[worst]:.3f}); with a "
            f"guard every model reaches at least {least:.3f}."
        )
    return sentences


def _draw(cells: Mapping[Any, Result], models: Sequence[str]) -> Any:
    blind = {m: _mean(cells, m, lambda r: r["blind"].get("axes")) or 0.0 for m in models}
    order = sorted(models, key=lambda m: blind[m])
    figure = new_figure(9.0, 0.32 * len(order) + 1.2)
    left, right = figure.subplots(1, 2, sharey=True)
    for place, model in enumerate(order):
        dots: NDArray[Any] = np.array(
            [r["blind"].get("axes", np.nan) for (_, name), r in cells.items() if name == model]
        )
        left.barh(place, blind[model], color="#dadaeb", height=0.7)
        left.plot(dots, np.full(len(dots), place), "o", ms=3.5, color="#54278f", alpha=0.7)
        ends = [
            _mean(cells, model, partial(_scaled_auroc, when=when)) for when in ("before", "after")
        ]
        if ends[0] is not None and ends[1] is not None:
            right.plot(ends, [place, place], color="0.75", lw=1.2, zorder=1)
            right.plot(ends[0], place, "o", ms=5, mfc="white", mec="#d95f02", zorder=2)
            right.plot(ends[1], place, "o", ms=5, color="#1b9e77", zorder=2)
    left.set_yticks(range(len(order)), order)
    left.set_xlim(-0.02, 1.02)
    left.set_xlabel("blind: features that alone make it 99% sure")
    right.set_xlim(-0.02, 1.02)
    right.axvline(0.5, color="0.8", lw=0.8, ls=":")
    right.set_xlabel("finds a wrongly scaled column (AUROC)")
    for axis in (left, right):
        tidy(axis)
    return figure
