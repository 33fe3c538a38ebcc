"""What can go wrong, as a tree.

::

    FarfieldError
    ├── InputError (ValueError)            a value that cannot be used: shape, dtype, NaN
    ├── CaptureError (ValueError)          a model that cannot be read
    │   └── UnsupportedOperation           every operation without a rule, listed at once
    ├── NumericalOverflow (OverflowError)  a number left the range of its floating-point type
    └── MissingDependency (ImportError)    an optional package is needed; says which extra brings it

Every message says what is wrong, what was got, where, and what to do next.
"""


class FarfieldError(Exception):
    """Any error that farfield raises on purpose."""


class InputError(FarfieldError, ValueError):
    """A value that cannot be used."""


class CaptureError(FarfieldError, ValueError):
    """A model that cannot be read."""


class UnsupportedOperation(CaptureError):  # noqa: N818 - reads as what it is
    """Operations of a model that have no rule."""


class NumericalOverflow(FarfieldError, OverflowError):  # noqa: N818 - reads as what it is
    """A number left the range of its floating-point type."""


class MissingDependency(FarfieldError, ImportError):  # noqa: N818 - reads as what it is
    """An optional package is not installed."""
