"""Findings with codes, told from the plain data of an audit; nothing is computed again.

A kind of finding is an entry in the ``KINDS`` of a file here; a new file is one more line below.
``docs/findings/`` and ``farfield explain`` are made from the same entries.
"""

from __future__ import annotations

from farfield.audit.findings import (
    arithmetic,
    budgets,
    directions,
    entry,
    grounds,
    members,
    quality,
)
from farfield.audit.findings.kind import registered

KINDS = registered(
    kind
    for part in (budgets, directions, entry, members, quality, arithmetic, grounds)
    for kind in part.KINDS
)
