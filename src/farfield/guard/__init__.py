"""Guards: a post-hoc repair with a certificate, and its rivals from the literature.

The package is also the function: ``farfield.guard(model, X)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farfield.callable_module import make_callable
from farfield.guard.archive import load
from farfield.guard.ccu import CCU, ccu
from farfield.guard.certificate import Certificate, Coverage
from farfield.guard.envelope import Envelope, envelope
from farfield.guard.export import read_certificate
from farfield.guard.falsify import Falsification, falsify
from farfield.guard.function import GuardedFunction
from farfield.guard.guarded import Explanation, Look
from farfield.guard.laplace import LastLayerLaplace, last_layer_laplace
from farfield.guard.model import GuardedModel
from farfield.guard.protect import guard
from farfield.guard.regressor import GuardedRegressor
from farfield.guard.verify import Verification

if TYPE_CHECKING:
    from farfield.guard.classifier import GuardedClassifier

__all__ = [
    "CCU",
    "Certificate",
    "Coverage",
    "Envelope",
    "Explanation",
    "Falsification",
    "GuardedClassifier",
    "GuardedFunction",
    "GuardedModel",
    "GuardedRegressor",
    "LastLayerLaplace",
    "Look",
    "Verification",
    "ccu",
    "envelope",
    "falsify",
    "guard",
    "last_layer_laplace",
    "load",
    "read_certificate",
]


def __getattr__(name: str) -> Any:
    """Load scikit-learn, which takes a second, only for those who use its interface."""
    if name != "GuardedClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from farfield.guard.classifier import GuardedClassifier

    return GuardedClassifier


make_callable(__name__, "farfield.guard.protect")
