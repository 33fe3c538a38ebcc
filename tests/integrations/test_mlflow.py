"""Audits in a real local store of MLflow."""

from dataclasses import replace

import pytest

from farfield.audit.judging import judged
from farfield.audit.record import Audit
from farfield.integrations.mlflow import REPORTS, log_audit, metrics
from report import sample_audits as samples


@pytest.mark.parametrize("name", samples.EVERY)
def test_metrics_have_names_and_numbers_that_stores_take(name):
    found = dict(metrics(judged(samples.EVERY[name](), None)))
    assert all(abs(value) < float("inf") for value in found.values())
    assert not [key for key in found if set(key) & set("<>\"'\\{}\n:")]
    assert found["farfield.findings.error"] >= 0


@pytest.fixture
def store(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is an extra of its own")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield mlflow
    mlflow.set_tracking_uri(None)


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")
def test_a_run_keeps_numbers_verdict_and_files(store, tmp_path):
    audit = judged(samples.tabular(), None)
    run_id = log_audit(audit)
    run = store.MlflowClient().get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["farfield.blind.features"] == audit.families[0].share
    accuracy = audit.health.numbers["accuracy"]
    assert run.data.metrics["farfield.accuracy.low"] == accuracy.low
    assert run.data.tags["farfield.passed"] == "false"
    assert "FF101" in run.data.tags["farfield.findings"]
    listed = store.MlflowClient().list_artifacts(run_id, "farfield")
    assert {each.path for each in listed} == {f"farfield/{name}" for name in REPORTS}
    saved = store.artifacts.download_artifacts(
        run_id=run_id, artifact_path="farfield/audit.json", dst_path=str(tmp_path / "again")
    )
    assert Audit.from_json(saved).to_json() == audit.to_json()


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")
def test_an_active_run_is_used_and_stays_open(store):
    audit = judged(replace(samples.tabular(), health=None), None)
    with store.start_run() as run:
        assert log_audit(audit) == run.info.run_id
        assert store.active_run() is not None
    assert "farfield.accuracy" not in store.MlflowClient().get_run(run.info.run_id).data.metrics
