"""farfield: what a neural classifier says far away from its data, exactly.

Arrays go in as numpy or torch; the core returns torch tensors. Everything probabilistic has the
shape ``(instances, points, classes)``; one network is one instance. Scores are uncertainties:
for every one of them, higher means more uncertain. A ray is ``origin + t * direction``, ``t >= 0``.

Names are imported when first used, so that the command line answers before PyTorch is loaded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farfield import datasets, errors, estimators, evaluate, networks, objectives, scores
    from farfield.estimators import (
        AnchoredEnsembleClassifier,
        BayesByBackpropClassifier,
        EnsembleClassifier,
        EnsembleRegressor,
        MCDropoutClassifier,
        RBFClassifier,
        ReLUClassifier,
        TemperatureScaling,
        load,
    )
    from farfield.exact import FarField, at_infinity
    from farfield.graph import Network, capture

__version__ = "0.1.0"

_HOMES = {
    "AnchoredEnsembleClassifier": "farfield.estimators",
    "BayesByBackpropClassifier": "farfield.estimators",
    "EnsembleClassifier": "farfield.estimators",
    "EnsembleRegressor": "farfield.estimators",
    "FarField": "farfield.exact",
    "MCDropoutClassifier": "farfield.estimators",
    "Network": "farfield.graph",
    "RBFClassifier": "farfield.estimators",
    "ReLUClassifier": "farfield.estimators",
    "TemperatureScaling": "farfield.estimators",
    "at_infinity": "farfield.exact",
    "capture": "farfield.graph",
    "load": "farfield.estimators",
}
_MODULES = ("datasets", "errors", "estimators", "evaluate", "networks", "objectives", "scores")

__all__ = [
    "AnchoredEnsembleClassifier",
    "BayesByBackpropClassifier",
    "EnsembleClassifier",
    "EnsembleRegressor",
    "FarField",
    "MCDropoutClassifier",
    "Network",
    "RBFClassifier",
    "ReLUClassifier",
    "TemperatureScaling",
    "__version__",
    "at_infinity",
    "capture",
    "datasets",
    "errors",
    "estimators",
    "evaluate",
    "load",
    "networks",
    "objectives",
    "scores",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"farfield.{name}")
    raise AttributeError(f"module 'farfield' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
