"""What can go wrong, as a tree.

::

    FarfieldError
    ├── InputError (ValueError)            a value that cannot be used: shape, dtype, NaN
    ├── CaptureError (ValueError)          a model that cannot be read
    │   └── NotFollowed                    a sound model that has no exact far field here (yet)
    │       └── UnsupportedOperation       every operation without a rule, listed at once
    ├── NumericalOverflow (OverflowError)  a number left the range of its floating-point type
    ├── UndecidedLimit (ArithmeticError)   a limit hangs on a jump whose side cannot be told
    └── MissingDependency (ImportError)    an optional package is needed; says which extra brings it

Every message says what is wrong, what was got, where, and what to do next.
"""

SAMPLED = (
    "ff.audit can still audit the model by evaluation, with sampled numbers: give it the "
    "estimator, the module or an .onnx file."
)

__all__ = [
    "CaptureError",
    "FarfieldError",
    "InputError",
    "MissingDependency",
    "NotFollowed",
    "NumericalOverflow",
    "UndecidedLimit",
    "UnsupportedOperation",
]


class FarfieldError(Exception):
    """Any error that farfield raises on purpose."""


class InputError(FarfieldError, ValueError):
    """A value that cannot be used."""


class CaptureError(FarfieldError, ValueError):
    """A model that cannot be read."""


class NotFollowed(CaptureError):  # noqa: N818 - reads as what it is
    """A model that can be evaluated, but not followed exactly; an audit can still sample it.

    Args:
        reason: Why it cannot be followed.
        advice: What can be done today.
    """

    def __init__(self, reason: str, advice: str = SAMPLED) -> None:
        super().__init__(reason, advice)

    @property
    def reason(self) -> str:
        """Why the model cannot be followed, without what can be done."""
        return str(self.args[0])

    @property
    def advice(self) -> str:
        """What can be done today; empty if evaluating the model does not help either."""
        return str(self.args[1])

    def __str__(self) -> str:
        reason, advice = self.args
        return f"{reason}{chr(10) if chr(10) in reason else ' '}{advice}".strip()


class UnsupportedOperation(NotFollowed):
    """Operations of a model that have no rule."""

    def met_in(self, operation: str, place: str) -> None:
        """Say which operation stands in the way, and where, unless that was said."""
        reason, advice = self.args
        if place not in reason:
            self.args = (f"{reason} ({operation}, in {place})", advice)


class NumericalOverflow(FarfieldError, OverflowError):  # noqa: N818 - reads as what it is
    """A number left the range of its floating-point type."""


class UndecidedLimit(FarfieldError, ArithmeticError):  # noqa: N818 - reads as what it is
    """A limit hangs on a jump that is approached from a side that cannot be told."""


class MissingDependency(FarfieldError, ImportError):  # noqa: N818 - reads as what it is
    """An optional package is not installed."""


# An attribute, whether its value can be used, and what it must be.
Check = tuple[str, bool, str]


def failures(owner: object, *checks: Check) -> list[str]:
    """List the attributes that fail their check, each as ``name must be ..., got ...``.

    >>> failures(1 + 2j, ("real", False, "an integer"), ("imag", True, "a number"))
    ['real must be an integer, got 1.0']
    """
    return [
        f"{name} must be {wanted}, got {getattr(owner, name)!r}"
        for name, fine, wanted in checks
        if not fine
    ]
