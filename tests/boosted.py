"""The three libraries of boosted trees as tests use them: data, small models, and what to vary."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import catboost
import lightgbm
import numpy as np
import xgboost
from hypothesis import strategies as st

import farfield as ff
from tree_rows import probabilities, telling_rows


def coded(frame):
    """The columns of a frame as numbers: categories as their codes, NaN where they are missing."""
    return np.column_stack(
        [
            column.cat.codes.where(column.notna(), np.nan) if hasattr(column, "cat") else column
            for _, column in frame.items()
        ]
    ).astype(float)


BAGGED = {"subsample": 0.5, "subsample_freq": 1}


@dataclass(frozen=True)
class Library:
    """How models of a library are made, and how close to it they must be read.

    Attributes:
        classifier: Its classifier.
        regressor: Its regressor, which is refused.
        few: Options of small models.
        close: How far probabilities may be from its own.
        options: What changes the format of a model, by name.
        drawn: What hypothesis draws for one.
        tiny: The size of the third column: LightGBM takes numbers below 1e-35 for zero.
    """

    classifier: Callable[..., Any]
    regressor: Callable[..., Any]
    few: dict[str, Any]
    close: float
    options: dict[str, dict[str, Any]]
    drawn: dict[str, Any] = field(repr=False)
    tiny: float = 1e-3

    def table(self, seed=0, rows=240, columns=4, classes=3, missing=True):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(rows, columns)) * [1, 100, self.tiny, 1][:columns]
        X[:, -1] = np.maximum(rng.integers(-3, 3, rows), 0 if self.tiny < 1e-35 else -2)
        score = np.sin(3 * X[:, 0]) + X[:, 1] / 80 + 0.3 * rng.normal(size=rows)
        score += X[:, -1] if self.tiny < 1e-35 else 0
        y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
        if missing:
            X[rng.random(X.shape) < 0.15] = np.nan
        return X, y

    def fitted(self, classes=3, X=None, y=None, gaps=True, **options):
        if X is None:
            X, y = self.table(classes=classes, missing=gaps)
        return self.classifier(**{**self.few, **options}).fit(X, y), X

    def agree(self, model, X, network=None, **options):
        network = network or ff.capture(model)
        rows = telling_rows(network, X, **options)
        found = probabilities(network, rows)
        assert np.abs(found - model.predict_proba(rows)).max() < self.close
        return network


XGBOOST = Library(
    xgboost.XGBClassifier,
    xgboost.XGBRegressor,
    {"n_estimators": 5, "max_depth": 3, "n_jobs": 1, "random_state": 0},
    1e-6,
    {
        "plain": {},
        "dart": {"booster": "dart", "rate_drop": 0.5, "n_estimators": 8},
        "parallel": {"num_parallel_tree": 3, "subsample": 0.6},
        "base": {"base_score": 0.2},
        "depth 0": {"max_depth": 1, "gamma": 1e6},
        "exact": {"tree_method": "exact"},
        "leaves": {"grow_policy": "lossguide", "max_leaves": 7},
        "pruned": {"tree_method": "exact", "gamma": 3.0, "max_depth": 6},
    },
    {
        "n_estimators": st.integers(1, 4),
        "max_depth": st.integers(1, 5),
        "booster": st.sampled_from(["gbtree", "dart"]),
        "tree_method": st.sampled_from(["exact", "hist", "approx"]),
        "min_child_weight": st.just(0),
        "max_bin": st.sampled_from([3, 256]),
    },
)
LIGHTGBM = Library(
    lightgbm.LGBMClassifier,
    lightgbm.LGBMRegressor,
    {"n_estimators": 6, "num_leaves": 6, "min_child_samples": 3, "verbose": -1, "n_jobs": 1},
    1e-9,
    {
        "plain": {},
        "none missing": {"gaps": False},
        "missing unused": {"use_missing": False},
        "zero missing": {"zero_as_missing": True},
        "dart": {"boosting_type": "dart", "drop_rate": 0.5},
        "goss": {"data_sample_strategy": "goss"},
        "rf": {"boosting_type": "rf", **BAGGED},
        "extra": {"extra_trees": True},
        "constant": {"min_child_samples": 10**4},
    },
    {
        "n_estimators": st.integers(1, 4),
        "num_leaves": st.integers(2, 12),
        "min_child_samples": st.just(1),
        "max_bin": st.sampled_from([3, 255]),
        "zero_as_missing": st.booleans(),
        "use_missing": st.booleans(),
        "extra_trees": st.booleans(),
        "min_data_in_bin": st.just(1),
        "boosting_type": st.sampled_from(["gbdt", "rf"]),
        **{name: st.just(value) for name, value in BAGGED.items()},
    },
    1e-36,
)
CATBOOST = Library(
    catboost.CatBoostClassifier,
    catboost.CatBoostRegressor,
    {
        "iterations": 6,
        "depth": 3,
        "verbose": 0,
        "allow_writing_files": False,
        "thread_count": 1,
        "random_seed": 0,
    },
    1e-9,
    {
        "plain": {},
        "none missing": {"gaps": False},
        "large missing": {"nan_mode": "Max"},
        "depthwise": {"grow_policy": "Depthwise"},
        "by loss": {"grow_policy": "Lossguide", "max_leaves": 7},
        "deep": {"depth": 6, "iterations": 2},
        "constant": {"iterations": 1, "l2_leaf_reg": 1e9},
    },
    {
        "iterations": st.integers(1, 4),
        "depth": st.integers(1, 5),
        "grow_policy": st.sampled_from(["SymmetricTree", "Depthwise"]),
        "nan_mode": st.sampled_from(["Min", "Max"]),
        "border_count": st.sampled_from([1, 5, 254]),
    },
)
LIBRARIES = {"XGBoost": XGBOOST, "LightGBM": LIGHTGBM, "CatBoost": CATBOOST}
