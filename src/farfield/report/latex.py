"""The tables of an audit as LaTeX, to be read into a paper or a validation report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.report.content.listings import (
    Listing,
    detection,
    entry_errors,
    families,
    features,
    guard,
    health,
    spread,
)
from farfield.report.content.words import harmless

if TYPE_CHECKING:
    from farfield.audit.record import Audit

# Errors of data entry that a table has room for.
ERRORS = 40
# Letters that a line of an article has room for; the space between two columns; letters that stay
# on one line; more of them than this do not make a column any wider.
LINE, GAP, SHORT, MOST = 66, 3, 10, 22
SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"{\textquotedbl}",
    # After the end of a row these would begin an argument.
    "[": "{[}",
    "*": "{*}",
    "\N{MINUS SIGN}": "$-$",
    "\N{INFINITY}": r"$\infty$",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{EN DASH}": "--",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{SUPERSCRIPT TWO}": r"\textsuperscript{2}",
    "\N{SUPERSCRIPT THREE}": r"\textsuperscript{3}",
    "\N{MICRO SIGN}": r"\textmu{}",
    "\N{DEGREE SIGN}": r"\textdegree{}",
    "\N{REPLACEMENT CHARACTER}": "?",
}


def audit_tables(audit: Audit) -> dict[str, str]:
    r"""Write the tables of an audit, each a whole environment.

    They use ``\toprule`` and its like from the ``booktabs`` package; the table of features, which
    may be long, uses ``longtable``. Columns with more text than a line has room for wrap, which
    takes the package ``array``. Names in letters beyond Latin need XeLaTeX or LuaLaTeX.

    Args:
        audit: The audit.

    Returns:
        Name of a table (``findings``, ``families``, ``features``, ``entry_errors``, ``spread``,
        ``health``, ``detection``, ``guard``) to its LaTeX; tables that would be empty are left out.
    """
    made = {
        "findings": _findings(audit),
        "families": families(audit),
        "features": features(audit),
        "entry_errors": entry_errors(audit, ERRORS),
        "spread": spread(audit),
        "health": health(audit),
        "detection": detection(audit),
        "guard": guard(audit),
    }
    return {
        name: _table(listing, long=name in ("features", "entry_errors", "spread"))
        for name, listing in made.items()
        if listing.rows
    }


def _findings(audit: Audit) -> Listing:
    """Every finding in a line."""
    rows = tuple(
        (
            f"{harmless(each.code)} {harmless(each.title)}",
            "accepted" if each.accepted is not None else each.severity,
            str(len(each.columns) or ""),
        )
        for each in audit.findings
    )
    return Listing("Findings", ("Finding", "Severity", "Columns"), rows)


def escape(text: str) -> str:
    r"""Write text so that LaTeX shows it and does nothing else.

    >>> escape("50% of $x_1$ & more")
    '50\\% of \\$x\\_1\\$ \\& more'
    """
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def _table(listing: Listing, *, long: bool) -> str:
    columns, wraps = _columns(listing)
    head, *rows = (_row(row, wraps) for row in (listing.head, *listing.rows))
    if long:
        lines = [
            rf"\begin{{longtable}}{{{columns}}}",
            *(r"\toprule", head, r"\midrule", r"\endhead"),
            *(r"\bottomrule", r"\endfoot"),
            *rows,
            r"\end{longtable}",
        ]
    else:
        lines = [
            rf"\begin{{tabular}}{{{columns}}}",
            *(r"\toprule", head, r"\midrule"),
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    return "\n".join(lines) + "\n"


def _columns(listing: Listing) -> tuple[str, bool]:
    """How columns are set, and whether some of them wrap: if a line has no room for all."""
    longest = [max(map(len, cells)) for cells in zip(listing.head, *listing.rows, strict=True)]
    room = LINE - GAP * len(longest)
    if sum(longest) <= room:
        return "l" + "r" * (len(longest) - 1), False
    wide = [min(each, MOST) if each > SHORT else 0 for each in longest]
    left = max(LINE / 3, room - sum(each for each in longest if each <= SHORT))
    shares = [left * each / sum(wide) / LINE if sum(wide) else 0.0 for each in wide]
    return "".join(
        rf">{{\raggedright\arraybackslash}}p{{{share:.3f}\linewidth}}" if share else plain
        for share, plain in zip(shares, "l" + "r" * len(longest), strict=False)
    ), True


def _row(cells: tuple[str, ...], wraps: bool) -> str:
    text = " & ".join(map(escape, cells)) + r" \\"
    return text.replace(r"\_", r"\_\allowbreak{}") if wraps else text
