"""Kinds of models that people have on tables, each with the settings that are usual for it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

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

from farfield.estimators import (
    AnchoredEnsembleClassifier,
    EnsembleClassifier,
    MCDropoutClassifier,
    RBFClassifier,
    ReLUClassifier,
)


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
# Of kinds whose cost grows with the cube of the rows, how many they are trained on at most.
MOST_ROWS = {"Gaussian process": 500}


def installed() -> list[str]:
    """The kinds whose packages are here."""
    return [
        name for name in MODELS if name not in PACKAGES or importlib.util.find_spec(PACKAGES[name])
    ]
