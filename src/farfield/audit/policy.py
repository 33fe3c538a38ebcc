"""What an audit is held to: ``farfield.toml`` with budgets, severities and accepted findings.

::

    fail_on = "error"              # besides budgets: any finding this bad fails the audit

    [budgets]
    blind = 0.5                    # of every family; or [budgets.blind] with axes = 0.1, ...
    entry_errors = 0.05            # rows that any one error of entry changes unnoticed
    accuracy = 0.9                 # at least
    ece = 0.05

    [severity]
    FF402 = "note"

    [[accepted]]
    code = "FF102"
    columns = ["age"]              # all columns if left out
    reason = "ages are checked at entry, see the validation plan"
    until = 2027-06-30
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from farfield.audit.findings import KINDS
from farfield.audit.findings.finding import Acceptance, Severity
from farfield.errors import InputError
from farfield.files import regular

if TYPE_CHECKING:
    from pydantic import TypeAdapter

NAME = "farfield.toml"


@dataclass(frozen=True)
class Budgets:
    """What a model may cost; ``None`` means no limit.

    Attributes:
        blind: The blind share that is allowed: of every family, or name of a family to its own.
        entry_errors: The share of rows whose class any one error of data entry may change without
            a sign.
        accuracy: The least share of rows that must be right.
        ece: The largest calibration error.
    """

    blind: float | Mapping[str, float] | None = None
    entry_errors: float | None = None
    accuracy: float | None = None
    ece: float | None = None

    def __post_init__(self) -> None:
        blind = self.blind if isinstance(self.blind, Mapping) else {"": self.blind}
        shares = {"entry_errors": self.entry_errors, "accuracy": self.accuracy, "ece": self.ece}
        shares |= {f"blind.{name}".rstrip("."): share for name, share in blind.items()}
        for name, share in shares.items():
            if share is not None and not 0 <= share <= 1:
                raise ValueError(f"{name} is a share from 0 to 1, got {share}")


@dataclass(frozen=True)
class Policy:
    """What an audit is held to.

    Attributes:
        budgets: Limits that fail the audit if they are broken.
        severity: Code of a finding to how bad it is, where that is not the usual.
        accepted: Findings that somebody lives with.
        fail_on: Findings this bad or worse fail the audit; ``None`` if budgets alone do.
        help: Where the pages of findings are, for reports that link to them.
        source: The file that it was read from.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    budgets: Budgets = field(default_factory=Budgets)
    severity: Mapping[str, Severity] = field(default_factory=dict)
    accepted: tuple[Acceptance, ...] = ()
    fail_on: Severity | None = None
    help: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for code in (*self.severity, *(each.code for each in self.accepted)):
            if code not in KINDS:
                raise ValueError(f"there is no finding {code}; there are {', '.join(KINDS)}")
        for each in self.accepted:
            if not each.reason.strip():
                raise ValueError(f"{each.code} is accepted without a reason; give one")


@cache
def _adapter() -> TypeAdapter[Policy]:
    from pydantic import TypeAdapter

    return TypeAdapter(Policy)


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read ``farfield.toml``.

    Raises:
        InputError: If it cannot be read, or says what nobody understands.
    """
    try:
        raw = tomllib.loads(regular(path).read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{os.fspath(path)} is not TOML: {error}") from None
    if "source" in raw:
        raise InputError(f"{os.fspath(path)}: source is where it is, and cannot be set")
    return _checked({**raw, "source": os.fspath(path)}, os.fspath(path))


def as_policy(given: Policy | str | os.PathLike[str] | Mapping[str, Any] | None) -> Policy | None:
    """A policy as the user names it: itself, a file, or what would stand in one."""
    if given is None or isinstance(given, Policy):
        return given
    if isinstance(given, Mapping):
        return _checked(given, "the policy")
    return read_policy(given)


def _checked(raw: Mapping[str, Any], where: str) -> Policy:
    from pydantic import ValidationError

    try:
        return _adapter().validate_python(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if part not in _TYPES)
        said = first["msg"].removeprefix("Value error, ")
        told = _ADVICE.get(first["type"], said)
        got = f", got {first['input']!r}" if first["type"] not in _ADVICE else ""
        more = error.error_count() - 1
        also = f" (and {more} more)" if more and not place.startswith("budgets.blind") else ""
        raise InputError(f"{where}: {place + ': ' if place else ''}{told}{got}{also}") from None


# What pydantic adds to the place of a problem, and what is said in its stead.
_TYPES = frozenset({"float", "dict[str,float]"})
_ADVICE = {
    "unexpected_keyword_argument": "there is no such setting; docs/policy.md lists them",
    "missing": "is missing, and must be given",
    "missing_argument": "is missing, and must be given",
}
