"""FF2xx: errors of data entry that nothing notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from farfield.audit.findings.directions import known
from farfield.audit.findings.finding import Measure
from farfield.audit.findings.kind import FindingKind, Found
from farfield.estimate import Estimate, value_of
from farfield.report.content.words import percent, plural

if TYPE_CHECKING:
    from farfield.audit.fields.entry import Mistake
    from farfield.audit.fields.kinds import Share
    from farfield.audit.record import Audit

# An error counts if it changes, unnoticed, at least this share of the rows; its interval says so.
FEW = 0.01
SHOWN = 5
# 1900-01-01 as a number.
DATE = "1900-01-01"
ERRORS = ("error of data entry", "errors of data entry")
CODES = ("code for a missing value", "codes for missing values")


def unnoticed(mistake: Mistake, audit: Audit) -> Share:
    """Rows whose class an error changes without a sign; the guard of a guarded model is one."""
    return mistake.slips if audit.model_is_guarded else mistake.silent


def _at_least(share: Share) -> float:
    """What a share is for sure."""
    return share.low if isinstance(share, Estimate) else share


def is_sentinel(mistake: Mistake) -> bool:
    """Whether an error is a code for *missing* that is taken for a value."""
    try:
        float(mistake.error)
    except ValueError:
        return mistake.error.startswith(DATE)
    return True


def _found(audit: Audit, wanted: Callable[[Mistake], bool], what: tuple[str, str]) -> Found | None:
    if audit.entry_errors is None:
        return None
    bad = [
        each
        for each in audit.entry_errors.mistakes
        if wanted(each) and _at_least(unnoticed(each, audit)) > FEW
    ]
    if not bad:
        return None
    bad.sort(key=lambda each: -value_of(unnoticed(each, audit)))
    worst, columns = bad[0], tuple(dict.fromkeys(each.column for each in bad))
    watched = " or from the guard" if audit.model_is_guarded else ""
    example = f" For example: {worst.example}." if worst.example else ""
    return Found(
        f"{plural(len(bad), *what)} in {plural(len(columns), 'column')} can change the "
        f"predicted class without a sign in any score{watched}. The worst: {worst.column}, "
        f"{worst.error}, for {percent(value_of(unnoticed(worst, audit)))} of the rows.{example}",
        tuple(
            Measure(f"{each.column}, {each.error}: rows changed without a sign",
                    unnoticed(each, audit), known(unnoticed(each, audit)), share=True)
            for each in bad[:SHOWN]
        ),
        columns,
        "" if audit.model_is_guarded else audit.at_hand.guard("--envelope"),
    )  # fmt: skip


def _errors(audit: Audit) -> Found | None:
    return _found(audit, lambda each: not is_sentinel(each), ERRORS)


def _sentinels(audit: Audit) -> Found | None:
    return _found(audit, is_sentinel, CODES)


KINDS = (
    FindingKind(
        code="FF201",
        title="an entry error goes unnoticed",
        severity="error",
        why=(
            "A slipped decimal point, another unit, two fields swapped: such errors happen in "
            "every data set. Some of them change what the model predicts while it stays as sure "
            "as ever, so nobody will look."
        ),
        how=(
            "Each error that fits a column is made in rows of the data, one field at a time, "
            "and the model is asked again. An error goes unnoticed in a row if the "
            "predicted class changes and none of the model's scores is higher than in 1% of the "
            "correct rows; with a guard around the model, if it takes the row for familiar too. "
            f"The finding lists errors for which the interval of that share lies above "
            f"{percent(FEW)}. Shares are exact if errors were made in all rows "
            "(--entry-rows all); else they carry Clopper-Pearson intervals."
        ),
        todo=(
            "Check ranges and units at entry for the columns named; an envelope "
            "(`farfield guard --envelope`) adds an alarm beside the model's outputs. The table of "
            "entry errors says which errors a plain range check or the guard would have noticed."
        ),
        ignore=(
            "If the column is filled by a machine that cannot make this error; accept the finding "
            "for that column, with the reason."
        ),
        find=_errors,
    ),
    FindingKind(
        code="FF202",
        title="a sentinel is taken for a value",
        severity="warning",
        why=(
            "Files say *missing* with 0, -1, 999 or 1900-01-01. A model that was not told takes "
            "them for measurements, and answers with confidence."
        ),
        how=(
            "As FF201, for codes that stand for missing values and that do not occur among the "
            "sampled rows of the column."
        ),
        todo=(
            "Turn the codes of your sources into real gaps before the model sees them, and let it "
            "impute or refuse; an envelope gives an alarm where they slip through."
        ),
        ignore="If the pipeline in front of the model turns such codes into gaps already.",
        find=_sentinels,
    ),
)
