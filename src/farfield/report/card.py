"""A model card in Markdown: what the audit knows is filled in, and what it cannot know is marked.

The headings are those of Hugging Face's card, then those of a validation memo, so that readers of
either find what they look for. Nothing is claimed that is not in the audit.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from farfield.report.content.features import columns_told
from farfield.report.content.findings import counted, evidenced, lived_with
from farfield.report.content.headline import headline
from farfield.report.content.listings import (
    Listing,
    detection,
    entry_errors,
    families,
    features,
    guard,
    health,
)
from farfield.report.content.switches import made_of
from farfield.report.content.words import METRICS, harmless, plural

if TYPE_CHECKING:
    from farfield.audit.findings.finding import Finding
    from farfield.audit.record import Audit

UNKNOWN = "[More Information Needed]"
ROWS = 12
MARKED = frozenset("\\`*_{}[]<>#|~!&")


def card(audit: Audit) -> str:
    """Write the card."""
    parts = [_front(audit), _details(audit), _uses(audit), _risks(audit)]
    parts.append(f"## How to Get Started with the Model\n\n{UNKNOWN}")
    parts += [_training(audit), _evaluation(audit), _far_field(audit), _memo(audit)]
    return "\n\n".join(parts) + "\n"


def safe(text: str, limit: int = 600) -> str:
    r"""Text that Markdown shows as it is.

    >>> safe("a_b <script>")
    'a\\_b \\<script\\>'
    """
    return "".join(f"\\{each}" if each in MARKED else each for each in harmless(text, limit))


def _front(audit: Audit) -> str:
    """The block of YAML at the top; JSON is YAML, and quotes what must be quoted."""
    kind = "regression" if audit.task == "regression" else "classification"
    lines = ["---", f"tags: {json.dumps(['tabular-' + kind, 'farfield'])}"]
    if len(audit.model.inputs) > 1:
        lines[1] = f"tags: {json.dumps(['image-' + kind, 'farfield'])}"
    numbers = {} if audit.health is None else audit.health.numbers
    metrics = [name for name in numbers if name in METRICS]
    if metrics:
        lines.append(f"metrics: {json.dumps(metrics)}")
    return "\n".join([*lines, "---", "", f"# Model Card for {safe(audit.model.source, 160)}"])


def _details(audit: Audit) -> str:
    model = audit.model
    classes = ", ".join(safe(each, 60) for each in model.classes[:20])
    members = f", {plural(model.instances, 'member')}" if model.instances > 1 else ""
    sampled = audit.verdict.seen_to is not None
    return "\n".join(
        [
            "## Model Details",
            "",
            "### Model Description",
            "",
            f"* **Model type:** {safe(model.kind)}{members}, "
            f"{'evaluated only' if sampled else made_of(audit)}",
            f"* **Task:** {audit.task}",
            f"* **{'Classes' if audit.task == 'classification' else 'Outputs'}:** {classes}",
            f"* **SHA-256:** {safe(model.sha256, 80) if model.sha256 else UNKNOWN}",
            f"* **Developed by:** {UNKNOWN}",
            f"* **License:** {UNKNOWN}",
        ]
    )


def _uses(audit: Audit) -> str:
    return (
        f"## Uses\n\n### Direct Use\n\n{UNKNOWN}\n\n### Out-of-Scope Use\n\n"
        f"{safe(audit.verdict.sentence, 1000)} {' '.join(headline(audit).meaning)}"
    )


def _risks(audit: Audit) -> str:
    lines = ["## Bias, Risks, and Limitations", ""]
    lines += [f"* **Warning:** {safe(text, 1000)}" for text in audit.warnings]
    lines += [_short(each) for each in audit.findings] or ["No finding of the far-field audit."]
    actions = dict.fromkeys(each.action for each in audit.findings if each.action)
    lines += ["", "### Recommendations", ""]
    lines += [_code(action) for action in actions] or [UNKNOWN]
    return "\n".join(lines)


def _short(finding: Finding) -> str:
    told = lived_with(finding)
    return (
        f"* **{safe(finding.code)} {safe(finding.title)}** ({finding.severity}): "
        f"{safe(finding.detail, 1000)}{f' {safe(told, 500)}' if told else ''}"
    )


def _code(text: str) -> str:
    """A command on its own; fenced by more backticks than it holds."""
    kept = harmless(text, 1000)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", kept)), default=0))
    return f"{fence}sh\n{kept}\n{fence}"


def _training(audit: Audit) -> str:
    data = audit.data
    counts = ", ".join(f"{safe(k, 60)} {v:,}" for k, v in list(data.class_counts.items())[:20])
    lines = [
        "## Training Details",
        "",
        "### Training Data",
        "",
        f"The audit was given {safe(data.source, 160)}: {plural(data.rows, 'row')}, "
        f"{columns_told(audit)}{f'; {counts}' if counts else ''}. SHA-256: "
        f"{safe(data.sha256, 80) if data.sha256 else UNKNOWN}.",
    ]
    lines += [f"* {safe(note, 600)}" for note in data.notes]
    return "\n".join([*lines, "", f"### Training Procedure\n\n{UNKNOWN}"])


def _evaluation(audit: Audit) -> str:
    rows = 0 if audit.health is None else audit.health.rows
    on = (
        f"{plural(rows, 'row')} of the data that the audit was given. If the model was trained on "
        "them, it may do worse on others."
        if rows
        else UNKNOWN
    )
    told = [_table(each) for each in (health(audit), detection(audit, ROWS)) if each.rows]
    return "\n\n".join(
        ["## Evaluation", f"### Testing Data, Factors & Metrics\n\n{on}", "### Results",
         *(told or [UNKNOWN])]
    )  # fmt: skip


def _far_field(audit: Audit) -> str:
    top = headline(audit)
    listed = (families(audit), features(audit, ROWS), entry_errors(audit, ROWS), guard(audit))
    known = f" ({top.known})" if top.known else ""
    return "\n\n".join(
        [
            "## Far-field behaviour",
            f"**{top.number}** {top.of}{known}. {safe(audit.verdict.sentence, 1000)}",
            *(_table(each) for each in listed if each.rows),
        ]
    )


def _memo(audit: Audit) -> str:
    run = audit.provenance
    how = (
        "evaluated only, so that limits are sampled"
        if audit.verdict.seen_to
        else "followed exactly"
    )
    parts = [
        "## Validation memo",
        f"### Purpose and scope\n\nBehaviour of {safe(audit.model.source, 160)} far away from its "
        f"data, and under errors of data entry. Use and materiality: {UNKNOWN}",
        f"### Data\n\n{safe(audit.data.source, 160)}, {plural(audit.data.rows, 'row')}; "
        f"{audit.data.sampled:,} were sampled for distances and curves.",
        f"### Conceptual soundness\n\nThe model was {how}. Whether it suits its purpose: {UNKNOWN}",
        f"### Outcomes analysis\n\nSee Evaluation. Findings: {counted(audit.findings)}.",
        "### Findings\n\n" + ("\n\n".join(map(_full, audit.findings)) or "None."),
        f"### Ongoing monitoring\n\n{UNKNOWN}",
        "### Reproduction\n\n"
        + (_code(run.command) + "\n\n" if run.command else "")
        + f"farfield {safe(run.farfield)}, seed {run.seed}, {safe(run.made)}, {safe(run.machine)}.",
        f"### Approval\n\nValidator, date, decision: {UNKNOWN}",
    ]
    return "\n\n".join(parts)


def _full(finding: Finding) -> str:
    measures = map(evidenced, finding.evidence)
    told = (f"  * {safe(e.what, 200)}: {safe(e.value)} ({safe(e.known)})" for e in measures)
    return "\n".join([_short(finding), *told])


def _table(listing: Listing) -> str:
    """A listing as a table of Markdown."""
    rows = [listing.head, ("---",) * len(listing.head), *listing.rows]
    marks = [[cell if row[0] == "---" else safe(cell, 200) for cell in row] for row in rows]
    lines = [f"**{safe(listing.title, 200)}**", ""]
    lines += [f"| {' | '.join(row)} |" for row in marks]
    return "\n".join([*lines, *(["", safe(listing.note, 800)] if listing.note else [])])
