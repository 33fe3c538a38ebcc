"""The product: a model and its data in, an Audit (plain data) out.

The package is callable: ``farfield.audit(model, X)`` is :func:`farfield.audit.run.audit`.
"""

from farfield.audit.record import Audit
from farfield.callable_module import make_callable

__all__ = ["Audit"]

make_callable(__name__, "farfield.audit.run")
