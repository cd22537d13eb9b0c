"""What is logged to MLflow can be read there, and a served model answers as the predictor does."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest

import separatrix as sx
from separatrix.errors import MissingExtraError


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 800))
    X = np.column_stack([y + rng.normal(size=800), z + rng.normal(size=800)])
    return X, y, np.array(["f", "m"])[z]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # no database for two runs
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed ([mlflow])")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as started:
        yield started
    mlflow.set_tracking_uri(None)


def test_an_audit_is_metrics_and_a_page(rows, run):
    import mlflow

    X, y, z = rows
    audit = sx.audit(y, (X[:, 0] > 0.5).astype(int), sensitive_features=z)
    sx.integrations.mlflow.log_audit(audit)
    kept = mlflow.get_run(run.info.run_id)
    assert kept.data.metrics["audit.eo_gap"] == pytest.approx(audit.eo_gap)
    names = {f.path for f in mlflow.MlflowClient().list_artifacts(run.info.run_id, "audit")}
    assert names == {"audit/audit.html", "audit/audit.json"}


def test_a_served_model_answers_as_the_predictor_does(rows, run):
    import mlflow
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    X, y, z = rows
    frame = pd.DataFrame(X, columns=["skill", "taste"])
    model = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.2, blind=True)
    predictor = sx.Predictor.from_estimator(model.fit(frame, y, sensitive_features=z))
    logged = sx.integrations.mlflow.log_model(predictor)
    served = mlflow.pyfunc.load_model(logged.model_uri)
    assert np.allclose(served.predict(frame).to_numpy(), predictor.predict_proba(frame))


def test_without_mlflow_it_is_one_sentence(rows, monkeypatch):
    X, y, z = rows
    monkeypatch.setitem(sys.modules, "mlflow", None)
    audit = sx.audit(y, (X[:, 0] > 0.5).astype(int), sensitive_features=z)
    with pytest.raises(MissingExtraError, match=r"separatrix\[mlflow\]"):
        sx.integrations.mlflow.log_audit(audit)


@pytest.fixture
def logged(monkeypatch):
    """What a recorder was given that stands for MLflow, whose pins contradict ours."""
    given: list[tuple[str, str]] = []
    recorder = types.SimpleNamespace(log_artifact=lambda file, prefix: given.append((prefix, Path(file).name)))
    monkeypatch.setitem(sys.modules, "mlflow", recorder)
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", types.SimpleNamespace())
    return given


@pytest.mark.slow
def test_the_report_and_the_table_of_a_frontier_are_artifacts(traced, logged):
    sx.integrations.mlflow.log_frontier(traced)
    assert logged == [("frontier", "report.html"), ("frontier", "frontier.csv")]


@pytest.mark.slow
def test_the_report_of_a_numeric_frontier_is_an_artifact(traced_pay, logged):
    sx.integrations.mlflow.log_frontier(traced_pay, "numbers")
    assert logged == [("numbers", "report.html")]
