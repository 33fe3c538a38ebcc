"""Audits in MLflow: numbers as metrics, the verdict as tags, reports as artifacts of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from farfield.errors import MissingDependency
from farfield.estimate import Estimate

if TYPE_CHECKING:
    from farfield.audit.record import Audit
    from farfield.report.formats import ReportFormat

# What a run keeps: the file's name to the format of the report in it.
REPORTS: dict[str, ReportFormat] = {
    "audit.json": "json",
    "report.html": "html",
    "model-card.md": "card",
    "farfield.sarif": "sarif",
}
# What no name of a metric may hold.
FORBIDDEN = re.compile(r"[^\w./ -]")


def log_audit(audit: Audit, *, run_id: str | None = None, folder: str = "farfield") -> str:
    """Log an audit to MLflow.

    Metrics are blind shares by family, numbers of quality (both with ``.low`` and ``.high`` where
    they carry an interval) and counts of findings; tags are whether it passed, and the codes that
    were found; artifacts are the audit, its page, a model card and a SARIF log.

    Args:
        audit: The audit.
        run_id: The run; the active one if ``None``, or a new one if there is none.
        folder: The folder of the artifacts.

    Returns:
        The run's id.

    Raises:
        MissingDependency: If MLflow is not installed.
    """
    mlflow = _mlflow()
    if run_id is None and mlflow.active_run() is None:
        with mlflow.start_run() as run:
            return log_audit(audit, run_id=run.info.run_id, folder=folder)
    run_id = run_id or str(mlflow.active_run().info.run_id)
    client = mlflow.MlflowClient()
    for name, value in metrics(audit):
        client.log_metric(run_id, name, value)
    codes = dict.fromkeys(each.code for each in audit.findings if each.accepted is None)
    client.set_tag(run_id, "farfield.passed", str(audit.passed).lower())
    client.set_tag(run_id, "farfield.findings", ", ".join(codes))
    for name, kind in REPORTS.items():
        client.log_text(run_id, audit.render(kind), f"{folder}/{name}")
    return run_id


def metrics(audit: Audit) -> Iterator[tuple[str, float]]:
    """The numbers of an audit by name; those that are not finite are left out."""
    numbers = {f"farfield.blind.{each.name}": each.share for each in audit.families}
    if audit.health is not None:
        numbers |= {f"farfield.{name}": value for name, value in audit.health.numbers.items()}
    for name, value in numbers.items():
        plain = FORBIDDEN.sub("_", name)
        if isinstance(value, Estimate):
            parts = {plain: value.value, f"{plain}.low": value.low, f"{plain}.high": value.high}
        else:
            parts = {plain: value}
        yield from ((key, part) for key, part in parts.items() if math.isfinite(part))
    for severity in ("error", "warning", "note"):
        found = [each for each in audit.findings if each.severity == severity]
        yield f"farfield.findings.{severity}", float(sum(each.accepted is None for each in found))


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise MissingDependency(
            "logging to MLflow needs it: pip install 'farfield[mlflow]'"
        ) from error
    return mlflow
