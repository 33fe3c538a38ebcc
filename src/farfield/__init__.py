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
    from farfield import datasets, errors, evaluate, scores
    from farfield.exact import FarField, at_infinity
    from farfield.graph import Network, capture

__version__ = "0.1.0"

_HOMES = {
    "FarField": "farfield.exact",
    "Network": "farfield.graph",
    "at_infinity": "farfield.exact",
    "capture": "farfield.graph",
}
_MODULES = ("datasets", "errors", "evaluate", "scores")

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"farfield.{name}")
    raise AttributeError(f"module 'farfield' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
