"""The same two sensitive columns, in every form, from the audit to the deployed predictor."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import separatrix as sx
from separatrix.columns.groups import group_name
from separatrix.frontier.rows import as_data
from separatrix.production.streaming import predict_file

GROUPS = (("f", "old"), ("f", "young"), ("m", "old"), ("m", "young"))


def people(n=240):
    rng = np.random.default_rng(0)
    sex, age = rng.choice(["f", "m"], n), rng.choice(["old", "young"], n)
    x = rng.normal(size=(n, 2))
    score = x[:, 0] + 0.7 * (sex == "m") + 0.5 * (age == "old") + rng.normal(size=n)
    y = np.where(score > 0.5, "yes", "no")
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1]}), y, pd.DataFrame({"sex": sex, "age": age})


X, Y, FRAME = people()
FORMS = {
    "frame": FRAME,
    "polars": pl.from_pandas(FRAME),
    "array": FRAME.to_numpy(),
    "list": [FRAME["sex"].tolist(), FRAME["age"].to_numpy()],
}


@pytest.mark.parametrize("form", FORMS)
def test_audit_and_monitor(form):
    z = FORMS[form]
    u = np.where(X["a"] > 0.5, "yes", "no")
    a = sx.audit(Y, u, sensitive_features=z)
    assert a.table.groups == GROUPS
    assert ("sex=f & age=old" if a.sensitive_columns else "f & old") in str(a)
    assert json.loads(a.to_json())["groups"] == [list(group) for group in GROUPS]
    monitor = sx.Monitor(a, max_violation=0.5)
    for other in (*FORMS.values(), list(zip(FRAME["sex"], FRAME["age"], strict=True))):
        monitor = sx.Monitor.from_json(monitor.to_json())
        monitor.update(Y, u, sensitive_features=other)
    assert monitor.rows == 5 * len(Y)
    np.testing.assert_array_equal(monitor.table.counts, 5 * a.table.counts)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_limit(form):
    z = FORMS[form]
    p = LogisticRegression().fit(X, Y).predict_proba(X)
    best = sx.limit(Y, p, sensitive_features=z, points=5)
    assert best.groups == GROUPS
    q = best.rule(0.001).predict_proba(p, sensitive_features=FORMS["array"])
    np.testing.assert_array_equal(q, best.rule(0.001).predict_proba(p, sensitive_features=z))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["polars", "list"])
def test_the_classifier_around_any_model(form):
    z = FORMS[form]
    model = sx.FrontierClassifier(LogisticRegression(), max_violation=0.1, cv=2).fit(X, Y, sensitive_features=z)
    q = model.predict_proba(X, sensitive_features=z)
    np.testing.assert_array_equal(q, model.predict_proba(X, sensitive_features=FRAME))
    predictor = sx.Predictor.from_estimator(model)
    assert predictor.groups == GROUPS
    np.testing.assert_allclose(predictor.predict_proba(X, sensitive_features=z), q)


def test_the_estimators(tmp_path):
    pytest.importorskip("torch")
    small = {"hidden": (4,), "epochs": 1, "min_steps": 1}
    model = sx.SeparationClassifier(use_sensitive=True, policy="randomized", **small)
    model.fit(X, Y, sensitive_features=FORMS["list"])
    assert model.groups_ == GROUPS
    q = [model.predict_proba(X, sensitive_features=z) for z in FORMS.values()]
    for other in q[1:]:
        np.testing.assert_array_equal(other, q[0])
    saved = sx.Predictor.from_estimator(model).save(tmp_path / "model")
    assert sx.load(saved).groups == GROUPS


@pytest.mark.nightly
def test_trace_select_and_predict(tmp_path):
    pytest.importorskip("torch")
    known = as_data(X, Y, FRAME)
    for z in FORMS.values():
        data = as_data(X, Y, z)
        assert data.groups == GROUPS
        np.testing.assert_array_equal(data.z, known.z)
    asked = {"estimator": "logistic", "method": "cmi", "trade_offs": (0.5,), "cv": 3}
    frontier = sx.trace(X, Y, sensitive_features=FRAME, **asked)
    assert frontier.groups == GROUPS
    point = frontier.select(max_violation=1.0)
    model = sx.load(point.predictor.save(tmp_path / "model"))
    assert model.groups == GROUPS
    assert "f &amp; old" in (card := (tmp_path / "model" / "MODEL_CARD.md").read_text()) or (
        group_name(GROUPS[0]) in card
    )
    rows = pd.concat([X, FRAME], axis=1)
    q = model.predict_proba(rows)  # finds the groups by the names of their columns
    for z in FORMS.values():
        np.testing.assert_array_equal(model.predict_proba(X, sensitive_features=z), q)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    predict_file(model, tmp_path / "rows.csv", tmp_path / "out.csv", random_state=0)
    written = pl.read_csv(tmp_path / "out.csv")
    certain = q.max(1) == 1.0
    expected = np.array(model.labels)[q.argmax(1)][certain]
    np.testing.assert_array_equal(written["decision"].to_numpy()[certain], expected)
    np.testing.assert_array_equal(written["decided_by_coin"].to_numpy(), ~certain)
    page = frontier.report(tmp_path / "report.html").read_text()
    assert "f \\u0026 old" in page or "f & old" in page or "f &amp; old" in page
