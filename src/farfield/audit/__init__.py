"""The product: a model and its data in, an Audit (plain data) out.

The package is callable: ``farfield.audit(model, X)`` is :func:`farfield.audit.run.audit`.
"""

from typing import TYPE_CHECKING, Any

from farfield.callable_module import make_callable

if TYPE_CHECKING:
    from farfield.audit.record import Audit

__all__ = ["Audit"]


def __getattr__(name: str) -> Any:
    """Load what is public when it is used: the command line lists its options before that."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from farfield.audit.record import Audit

    return Audit


make_callable(__name__, "farfield.audit.run")
