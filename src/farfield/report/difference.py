"""What differs between two audits, as text and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from farfield.estimate import Estimate
from farfield.report.content.findings import counted
from farfield.report.content.words import harmless, number, percent
from farfield.report.html.page import asset, environment, policy

if TYPE_CHECKING:
    from farfield.audit.difference import Change, Difference
    from farfield.audit.findings.finding import Finding

MARKS = {"better": "+", "worse": "-", "same": "=", "unclear": "~", "new": "*", "gone": "x"}


def cells(change: Change) -> tuple[str, str, str]:
    """A number in words: what, before and after."""
    write = percent if change.share else number

    def written(value: float | Estimate | None) -> str:
        if value is None:
            return "not measured"
        if isinstance(value, Estimate):
            return f"{write(value.value)} ({write(value.low)} to {write(value.high)})"
        return write(value)

    return harmless(change.what, 100), written(change.old), written(change.new)


def summary(found: Difference) -> str:
    """The answer in one line."""
    ways = [each.way for each in found.changes]
    told = [f"{ways.count(way)} {way}" for way in ("worse", "better") if way in ways]
    told.append(f"new findings: {counted(found.appeared)}" if found.appeared else "")
    told.append(f"{len(found.vanished)} findings gone" if found.vanished else "")
    return "; ".join(filter(None, told)) or "nothing got better or worse"


def format_difference(found: Difference) -> str:
    """Write what got better and worse as text."""
    rows = [(MARKS[each.way], *cells(each), each.way) for each in found.changes]
    width = max((len(row[1]) for row in rows), default=0)
    lines = [
        f"{harmless(found.old, 160)}  ->  {harmless(found.new, 160)}",
        f"{summary(found)[0].upper()}{summary(found)[1:]}.",
        *(f"Note: {harmless(text, 300)}." for text in found.notes),
    ]
    if rows:
        lines.append("")
    lines += [
        f"{mark} {what:<{width}}  {old} -> {new}  {way}" for mark, what, old, new, way in rows
    ]
    for title, findings in (("New", found.appeared), ("Gone", found.vanished)):
        lines += [f"\n{title}:"] * bool(findings)
        lines += [f"  {_short(each)}" for each in findings]
    return "\n".join(lines) + "\n"


def _short(finding: Finding) -> str:
    accepted = ", accepted" if finding.accepted is not None else ""
    return (
        f"{harmless(finding.code)} {finding.severity}{accepted}: {harmless(finding.title)}. "
        f"{harmless(finding.detail, 300)}"
    )


def difference_page(found: Difference) -> str:
    """Make the page."""
    style, early = asset("page.css"), asset("theme.js")
    return (
        environment()
        .get_template("difference.html")
        .render(
            found=found,
            summary=summary(found),
            rows=[(each.way, *cells(each)) for each in found.changes],
            policy=policy(style, early),
            style=Markup(style),
            early=Markup(early),
        )
    )
