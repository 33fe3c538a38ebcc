"""farfield: what a classifier says far away from its data, exactly.

Arrays go in as numpy or torch; the core returns torch tensors. Everything probabilistic has the
shape ``(instances, points, classes)``; one network is one instance. Scores are uncertainties:
for every one of them, higher means more uncertain. A ray is ``origin + t * direction``, ``t >= 0``.

Names are imported when first used, so that the command line answers before PyTorch is loaded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Everything public, by where it lives: what may be imported, listed and completed follows from it.
# The packages ``audit`` and ``guard`` can be called.
_PUBLIC = {
    "farfield": (
        "audit", "data", "datasets", "errors", "estimators", "evaluate", "exact", "graph", "guard",
        "integrations", "networks", "objectives", "report", "reproduce", "scores",
    ),
    "farfield.audit.entry_errors": ("entry_errors",),
    "farfield.audit.fields.entry": ("EntryErrors",),
    "farfield.audit.record": ("Audit",),
    "farfield.audit.smallest_flip": ("smallest_flip",),
    "farfield.estimators": (
        "AnchoredEnsembleClassifier", "BayesByBackpropClassifier", "EnsembleClassifier",
        "EnsembleRegressor", "MCDropoutClassifier", "RBFClassifier", "ReLUClassifier",
        "TemperatureScaling", "load",
    ),
    "farfield.evaluate": ("SmallestFlip",),
    "farfield.exact": (
        "Assumptions", "BlindArcs", "BlindOrthants", "Box", "FarField", "FirstReaching", "Line",
        "Lines", "Monotonicity", "Passes", "Plane", "Region", "SureFrom", "along", "at_infinity",
        "blind_arcs", "blind_orthants", "check_monotonicity", "first_reaching", "iterate_pieces",
        "linearize", "slice_plane",
    ),
    "farfield.graph": ("Network", "capture"),
    "farfield.guard.envelope": ("Envelope", "envelope"),
    "farfield.guard.model": ("GuardedModel",),
}  # fmt: skip
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names}
__all__ = sorted(["__version__", *_HOMES])  # noqa: PLE0605 - made, so that it cannot disagree

if TYPE_CHECKING:
    # The same again for type checkers, which read and do not run; a test compares the two.
    from farfield import data as data
    from farfield import datasets as datasets
    from farfield import errors as errors
    from farfield import estimators as estimators
    from farfield import evaluate as evaluate
    from farfield import exact as exact
    from farfield import graph as graph
    from farfield import integrations as integrations
    from farfield import networks as networks
    from farfield import objectives as objectives
    from farfield import report as report
    from farfield import reproduce as reproduce
    from farfield import scores as scores
    from farfield.audit.entry_errors import entry_errors as entry_errors
    from farfield.audit.fields.entry import EntryErrors as EntryErrors
    from farfield.audit.record import Audit as Audit
    from farfield.audit.run import audit as audit
    from farfield.audit.smallest_flip import smallest_flip as smallest_flip
    from farfield.estimators import AnchoredEnsembleClassifier as AnchoredEnsembleClassifier
    from farfield.estimators import BayesByBackpropClassifier as BayesByBackpropClassifier
    from farfield.estimators import EnsembleClassifier as EnsembleClassifier
    from farfield.estimators import EnsembleRegressor as EnsembleRegressor
    from farfield.estimators import MCDropoutClassifier as MCDropoutClassifier
    from farfield.estimators import RBFClassifier as RBFClassifier
    from farfield.estimators import ReLUClassifier as ReLUClassifier
    from farfield.estimators import TemperatureScaling as TemperatureScaling
    from farfield.estimators import load as load
    from farfield.evaluate import SmallestFlip as SmallestFlip
    from farfield.exact import Assumptions as Assumptions
    from farfield.exact import BlindArcs as BlindArcs
    from farfield.exact import BlindOrthants as BlindOrthants
    from farfield.exact import Box as Box
    from farfield.exact import FarField as FarField
    from farfield.exact import FirstReaching as FirstReaching
    from farfield.exact import Line as Line
    from farfield.exact import Lines as Lines
    from farfield.exact import Monotonicity as Monotonicity
    from farfield.exact import Passes as Passes
    from farfield.exact import Plane as Plane
    from farfield.exact import Region as Region
    from farfield.exact import SureFrom as SureFrom
    from farfield.exact import along as along
    from farfield.exact import at_infinity as at_infinity
    from farfield.exact import blind_arcs as blind_arcs
    from farfield.exact import blind_orthants as blind_orthants
    from farfield.exact import check_monotonicity as check_monotonicity
    from farfield.exact import first_reaching as first_reaching
    from farfield.exact import iterate_pieces as iterate_pieces
    from farfield.exact import linearize as linearize
    from farfield.exact import slice_plane as slice_plane
    from farfield.graph import Network as Network
    from farfield.graph import capture as capture
    from farfield.guard.envelope import Envelope as Envelope
    from farfield.guard.envelope import envelope as envelope
    from farfield.guard.model import GuardedModel as GuardedModel
    from farfield.guard.protect import guard as guard


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'farfield' has no attribute {name!r}")
    if home == __name__:
        return importlib.import_module(f"{home}.{name}")
    found = globals()[name] = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return list(__all__)
