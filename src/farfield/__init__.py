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
    from farfield.audit.record import Audit
    from farfield.audit.run import audit
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
    from farfield.exact import (
        Assumptions,
        BlindArcs,
        Box,
        FarField,
        FirstReaching,
        Line,
        Lines,
        Monotonicity,
        Plane,
        Region,
        along,
        at_infinity,
        blind_arcs,
        check_monotonicity,
        first_reaching,
        iterate_pieces,
        linearize,
        slice_plane,
    )
    from farfield.graph import Network, capture
    from farfield.guard.model import GuardedModel
    from farfield.guard.protect import guard

__version__ = "0.1.0"

_HOMES = {
    "AnchoredEnsembleClassifier": "farfield.estimators",
    "Assumptions": "farfield.exact",
    "Audit": "farfield.audit.record",
    "BayesByBackpropClassifier": "farfield.estimators",
    "BlindArcs": "farfield.exact",
    "Box": "farfield.exact",
    "EnsembleClassifier": "farfield.estimators",
    "EnsembleRegressor": "farfield.estimators",
    "FarField": "farfield.exact",
    "FirstReaching": "farfield.exact",
    "GuardedModel": "farfield.guard.model",
    "Line": "farfield.exact",
    "Lines": "farfield.exact",
    "MCDropoutClassifier": "farfield.estimators",
    "Monotonicity": "farfield.exact",
    "Network": "farfield.graph",
    "Plane": "farfield.exact",
    "RBFClassifier": "farfield.estimators",
    "ReLUClassifier": "farfield.estimators",
    "Region": "farfield.exact",
    "TemperatureScaling": "farfield.estimators",
    "along": "farfield.exact",
    "at_infinity": "farfield.exact",
    "blind_arcs": "farfield.exact",
    "capture": "farfield.graph",
    "check_monotonicity": "farfield.exact",
    "first_reaching": "farfield.exact",
    "iterate_pieces": "farfield.exact",
    "linearize": "farfield.exact",
    "load": "farfield.estimators",
    "slice_plane": "farfield.exact",
}
# ``audit`` is a package that can be called.
_MODULES = (
    "audit",
    "datasets",
    "errors",
    "estimators",
    "evaluate",
    "networks",
    "objectives",
    "scores",
)

__all__ = [
    "AnchoredEnsembleClassifier",
    "Assumptions",
    "Audit",
    "BayesByBackpropClassifier",
    "BlindArcs",
    "Box",
    "EnsembleClassifier",
    "EnsembleRegressor",
    "FarField",
    "FirstReaching",
    "GuardedModel",
    "Line",
    "Lines",
    "MCDropoutClassifier",
    "Monotonicity",
    "Network",
    "Plane",
    "RBFClassifier",
    "ReLUClassifier",
    "Region",
    "TemperatureScaling",
    "__version__",
    "along",
    "at_infinity",
    "audit",
    "blind_arcs",
    "capture",
    "check_monotonicity",
    "datasets",
    "errors",
    "estimators",
    "evaluate",
    "first_reaching",
    "guard",
    "iterate_pieces",
    "linearize",
    "load",
    "networks",
    "objectives",
    "scores",
    "slice_plane",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"farfield.{name}")
    raise AttributeError(f"module 'farfield' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
