"""An audit: plain data that can be written to JSON, read back, and rendered without recomputing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from farfield.audit.at_hand import AtHand
from farfield.audit.fields.arithmetic import Arithmetic
from farfield.audit.fields.depth import FarDepth
from farfield.audit.fields.directions import Family
from farfield.audit.fields.drawings import Picture, Ray, Surface
from farfield.audit.fields.entry import EntryErrors
from farfield.audit.fields.facts import DataFacts, ModelFacts, Provenance
from farfield.audit.fields.features import Collapse, Feature
from farfield.audit.fields.flips import Flip
from farfield.audit.fields.kinds import Share, Task
from farfield.audit.fields.quality import Detected, Health, OutSet
from farfield.audit.fields.repair import BeforeAfter, Remedy
from farfield.audit.fields.verdict import BY_GUARD, Verdict
from farfield.audit.fields.what_if import WhatIf
from farfield.audit.findings import KINDS
from farfield.audit.findings.finding import Finding
from farfield.audit.judging import judged
from farfield.audit.policy import Policy
from farfield.errors import InputError
from farfield.files import regular, replacing

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from farfield.report.formats import ReportFormat

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What a model does far away from its data. Made by :func:`farfield.audit`.

    Attributes:
        warnings: What casts doubt on everything below, gravest first; shown before the verdict.
        findings: What is wrong, worst first, each with a code, numbers and what to do.
        verdict: The answer in one number and one sentence.
        task: Whether the model classifies or regresses.
        model: What was audited.
        data: On what data.
        families: Families of directions with their blind shares.
        features: One entry per feature, in the order of the columns; empty for images.
        curve_steps: The signed distances of every feature's ``curve``, in standard deviations.
        flips: How little of a column changes the class, those that need least first.
        what_if: Typical rows with one column moved at a time; ``None`` for images and regressors.
        entry_errors: What errors of data entry do; ``None`` for images and regressors.
        rays: Rays through to infinity.
        surfaces: Two features at a time.
        health: How good the model is on labelled data; ``None`` without labels.
        detection: Every score on every out-of-distribution set.
        out_sets: The out-of-distribution sets.
        pictures: For image models, examples.
        collapses: For regressors, where the predicted scale collapses.
        arithmetic: Where the model's own arithmetic gives out; ``None`` if it was not asked.
        depth: How many weights have no part in the limits; ``None`` where that was not tried.
        remedies: What can be done.
        guard: Before and after the guard; ``None`` if it was not asked for.
        provenance: What is needed to do it again.
        at_hand: The files that it was made from.
        policy: What it is held to; ``None`` if there was no ``farfield.toml``.
        schema_version: Version of this layout.
    """

    __pydantic_config__: ClassVar = {"ser_json_inf_nan": "strings", "extra": "forbid"}

    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    verdict: Verdict
    task: Task
    model: ModelFacts
    data: DataFacts
    families: tuple[Family, ...]
    features: tuple[Feature, ...] = ()
    curve_steps: tuple[float, ...] = ()
    flips: tuple[Flip, ...] = ()
    what_if: WhatIf | None = None
    entry_errors: EntryErrors | None = None
    rays: tuple[Ray, ...] = ()
    surfaces: tuple[Surface, ...] = ()
    health: Health | None = None
    detection: tuple[Detected, ...] = ()
    out_sets: tuple[OutSet, ...] = ()
    pictures: tuple[Picture, ...] = ()
    collapses: tuple[Collapse, ...] = ()
    arithmetic: Arithmetic | None = None
    depth: FarDepth | None = None
    remedies: tuple[Remedy, ...]
    guard: BeforeAfter | None = None
    provenance: Provenance
    at_hand: AtHand = field(default_factory=AtHand)
    policy: Policy | None = None
    schema_version: int = field(default=SCHEMA_VERSION)

    @property
    def blindness(self) -> Mapping[str, Share]:
        """Family of directions to the share that the model is blind in."""
        return {family.name: family.share for family in self.families}

    @property
    def passed(self) -> bool:
        """Whether the audit passed; true if no limit was asked for."""
        return self.verdict.passed is not False and not any(each.breaks for each in self.findings)

    @property
    def model_is_guarded(self) -> bool:
        """Whether the model came with a guard around it."""
        return self.verdict.family == BY_GUARD

    def to_json(self, path: str | Path | None = None) -> str:
        """Write the audit as JSON; infinity and NaN become strings.

        Args:
            path: Where to write it, whole or not at all; nowhere if ``None``.

        Returns:
            The text.
        """
        text = _adapter().dump_json(self, indent=1).decode()
        if path is not None:
            with replacing(Path(path)) as file:
                file.write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> Audit:
        """Read an audit that :meth:`to_json` wrote.

        Args:
            source: A path.

        Raises:
            InputError: If it is not an audit, or one of another layout.
        """
        path = Path(source)
        try:
            text = regular(path).read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from None
        return parse(text, str(path))

    def to_html(self, path: str | Path) -> Path:
        """Write the report: one self-contained page.

        Returns:
            The path.
        """
        from farfield.report.html.page import write_report

        return write_report(self, Path(path))

    def render(self, kind: ReportFormat) -> str:
        """Make a report in any format: for people, for machines, or a model card.

        Args:
            kind: ``html``, ``text``, ``json``, ``latex``, ``sarif``, ``junit``, ``card`` or
                ``github``.
        """
        from farfield.report.formats import REPORT_FORMATS

        if kind not in REPORT_FORMATS:
            raise InputError(
                f"there is no report format {kind!r}; there are {', '.join(REPORT_FORMATS)}"
            )
        return REPORT_FORMATS[kind](self, KINDS)

    def _repr_html_(self) -> str:
        """Show the essentials in a notebook."""
        from farfield.report.html.page import notebook_summary

        return notebook_summary(self)

    def __str__(self) -> str:
        from farfield.report.text import format_audit

        return format_audit(self)


@cache
def _adapter() -> TypeAdapter[Audit]:
    """The reader and writer of the layout."""
    from pydantic import TypeAdapter

    return TypeAdapter(Audit)


def parse(text: bytes, where: str) -> Audit:
    """Read an audit from JSON bytes."""
    from pydantic import ValidationError

    raw = _raw(text, where)
    version = raw["schema_version"]
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{where} has schema version {version!r}, this farfield reads {SCHEMA_VERSION}; make "
            "the audit again or use the version that wrote it"
        )
    try:
        audit = _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the top"
        raise InputError(
            f"{where} is not a farfield audit: {first['msg']} at {place} "
            f"({error.error_count()} problems in all); pass an audit.json that farfield wrote"
        ) from None
    # Audits of older versions have no findings yet.
    return audit if "findings" in raw else judged(audit, audit.policy)


def _raw(text: bytes, where: str) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}; pass an audit.json") from None
    if not isinstance(raw, dict) or "schema_version" not in raw:
        raise InputError(f"{where} is JSON, but not a farfield audit: it has no schema_version")
    return raw
