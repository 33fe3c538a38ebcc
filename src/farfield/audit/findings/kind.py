"""A kind of finding: its code, its page, and how it is told from the plain data of an audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.audit.findings.finding import Finding, Measure, Severity

if TYPE_CHECKING:
    from farfield.audit.record import Audit


@dataclass(frozen=True)
class Found:
    """What a kind of finding says of one audit; see :class:`Finding`."""

    detail: str
    evidence: tuple[Measure, ...]
    columns: tuple[str, ...] = ()
    action: str = ""


@dataclass(frozen=True)
class FindingKind:
    """One kind of finding.

    Attributes:
        code: ``FF`` and three digits; the first says what it is about.
        title: What is wrong, in a few words.
        severity: How bad it is unless ``farfield.toml`` says otherwise.
        why: Why it matters.
        how: How it is computed.
        todo: What to do about it.
        ignore: When it may be ignored.
        find: What it says of an audit; ``None`` if all is well.
    """

    code: str
    title: str
    severity: Severity
    why: str
    how: str
    todo: str
    ignore: str
    find: Callable[[Audit], Found | None]

    def on(self, audit: Audit) -> Finding | None:
        """Look for it in an audit."""
        found = self.find(audit)
        if found is None:
            return None
        return Finding(
            self.code,
            self.severity,
            self.title,
            found.detail,
            found.evidence,
            found.columns,
            found.action or f"farfield explain {self.code}",
        )


def registered(kinds: Iterable[FindingKind]) -> Mapping[str, FindingKind]:
    """Every kind by its code, in order; a code that is taken is refused."""
    table: dict[str, FindingKind] = {}
    for kind in kinds:
        if kind.code in table:
            raise ValueError(
                f"{kind.code} is {table[kind.code].title!r} already, and cannot be {kind.title!r} "
                "too; take the next free code"
            )
        table[kind.code] = kind
    return dict(sorted(table.items()))
