"""Any classifier from trace to audit: what a trace fitted ships, loads, predicts and is audited."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import separatrix as sx
from separatrix.datasets import from_frame
from separatrix.frontier.base_models import WITHOUT, base_of, fit_base
from separatrix.frontier.rows import few_rows, leaking_columns, useless_model


def applicants(n, seed):
    rng = np.random.default_rng(seed)
    sex, job, age = rng.choice(["f", "m"], n), rng.choice(["a", "b"], n), rng.normal(40, 10, n)
    logit = (age - 40) / 8 + (job == "a") + 1.5 * (sex == "m") - 1
    hired = np.where(rng.random(n) < 1 / (1 + np.exp(-logit)), "yes", "no")
    return pd.DataFrame({"age": age, "job ": job, "sex": sex, "hired": hired})


def pipeline():
    """A user's pipeline that finds its columns by name."""
    columns = [("n", StandardScaler(), ["age"]), ("w", OneHotEncoder(), ["job ", "sex"])]
    return make_pipeline(ColumnTransformer(columns), LogisticRegression())


@pytest.mark.nightly
@pytest.mark.parametrize("estimator", ["logistic", "lightgbm:LGBMClassifier", pipeline()])
def test_what_a_trace_fitted_ships_loads_predicts_and_is_audited(estimator, tmp_path):
    if isinstance(estimator, str) and estimator.startswith("lightgbm"):
        pytest.importorskip("lightgbm")
    rows, fresh = applicants(300, 0), applicants(200, 1)
    frontier = sx.trace(
        rows.drop(columns="hired"), rows["hired"], sensitive_features=rows[["sex"]], cv=3,
        estimator=estimator, progress=False,
    )  # fmt: skip
    point = frontier.select(max_eo_gap=0.25, method="postprocessing")
    point.predictor.with_key("Zk3x!pQ9w7Lr2mT5vB8n").save(tmp_path / "model")
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "| – | thresholds by group" in card  # no λ, and nothing is drawn from a posterior
    model = sx.load(tmp_path / "model")
    decided = model.predict(fresh, random_state=0)
    assert 0 <= sx.audit(fresh["hired"], decided, sensitive_features=fresh["sex"]).eo_gap <= 1
    from separatrix.production.streaming import predict_file

    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    assert predict_file(model, tmp_path / "fresh.csv", tmp_path / "out.csv", random_state=0) == 200
    assert pd.read_csv(tmp_path / "out.csv")["decision"].tolist() == decided.tolist()
    with pytest.raises(sx.SeparatrixError, match="age"):
        model.predict(fresh.drop(columns="age"), random_state=0)


def any_columns():
    """A user's pipeline that takes whatever columns there are."""
    text = OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")
    return make_pipeline(make_column_transformer(text, remainder="passthrough"), LogisticRegression())


def test_a_model_without_the_group_never_saw_its_column(tmp_path):
    rows = applicants(120, 0)
    X = rows.drop(columns="hired")
    data = from_frame(rows, target="hired", sensitive="sex")
    fold = np.arange(120) % 3
    base = base_of(data, any_columns(), X, fold, 0)
    assert base.left_out == (2,)
    found = fit_base(tmp_path, data, base, fold, kind=WITHOUT).honest
    alone = X.drop(columns="sex")
    for k in range(3):
        model = any_columns().fit(alone[fold != k], data.y[fold != k])
        expected = model.predict_proba(alone[fold == k])
        np.testing.assert_allclose(found[fold == k], expected, atol=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("blind", [False, True])
def test_a_pipeline_that_reads_the_group_is_traced_without_it_too(blind, tmp_path):
    rows = applicants(240, 0)
    X, sex = rows.drop(columns="hired"), rows[["sex"]]
    frontier = sx.trace(
        X, rows["hired"], sensitive_features=sex, cv=3, estimator=any_columns(), blind=blind,
        progress=False,
    )  # fmt: skip
    without = frontier.candidates["without the group"].promise["eo_gap"].value
    point = frontier.select(max_eo_gap=without + 0.01, blind=blind)
    assert point.name.startswith("without the group")
    point.save(tmp_path / "model")
    alone = X.drop(columns="sex")  # rows that do not know the group
    decided = point.predictor.predict_proba(X, sensitive_features=sex)
    np.testing.assert_array_equal(sx.load(tmp_path / "model").predict_proba(alone), decided)


@pytest.mark.nightly
def test_a_pipeline_that_cannot_be_fitted_without_the_group_is_said():
    rows = applicants(240, 0)
    frontier = sx.trace(
        rows.drop(columns="hired"), rows["hired"], sensitive_features=rows[["sex"]], cv=3,
        estimator=pipeline(), progress=False,
    )  # fmt: skip
    (without,) = (one for one in frontier.candidates if one.name == "without the group")
    assert not without.possible
    assert "sex" in without.note
    assert any("not possible" in note for note in frontier.manifest["notes"])


def test_a_leak_a_handful_of_rows_and_a_useless_model_are_named():
    rng = np.random.default_rng(0)
    y, sex = np.repeat(["no", "yes"], 60), rng.choice(["f", "m"], 120)
    sex[[0, 1, 2, 60, 61, 62]] = "x"
    table = {"age": rng.normal(size=120), "code": (y == "yes") + 3.0, "sex": sex, "hired": y}
    data = from_frame(table, target="hired", sensitive="sex")
    (told,) = leaking_columns(data)
    assert "`code` alone predicts 'hired'" in told
    (told,) = few_rows(data)
    assert "'sex=x' (3)" in told
    guess = np.full((120, 2), 0.5)
    (told,) = useless_model(guess, data.y)
    assert "no better than the share of each label" in told
    assert not useless_model(0.8 * np.eye(2)[data.y] + 0.1, data.y)


@pytest.mark.nightly
def test_each_recipe_of_a_method_ships_what_it_promises(tmp_path):
    pytest.importorskip("torch")
    rows = applicants(300, 0)
    frontier = sx.trace(
        rows.drop(columns="hired"), rows["hired"], sensitive_features=rows[["sex"]], cv=3,
        estimator="logistic", method=["cmi", "cmi:score"], trade_offs=(0.0, 0.5), progress=False,
    )  # fmt: skip
    for name, recipe in (("cmi:default", "default"), ("cmi:score", "score")):
        point = frontier.select(max_eo_gap=1.0, method=name, allow_constant=True)
        assert {part.key.recipe for part in point.mixture.points} == {recipe}
        (branch,) = point.predictor.branches
        kept, _ = frontier.saved_run(name, branch.base.trade_off)
        assert kept.first.recipe == recipe
