"""SeparationClassifier: groups, routing, frames, sparse rows, several labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import separatrix as sx
from separatrix import SeparationClassifier
from separatrix.errors import InputError

pytestmark = pytest.mark.slow

pytest.importorskip("torch")

FEW = {"hidden": (8,), "epochs": 4, "min_steps": 0, "batch": 128, "learning_rate": 5e-3}


def people(n=1_200, seed=0, labels=("no", "yes"), groups=("f", "m")):
    rng = np.random.default_rng(seed)
    z = rng.choice(groups, n)
    X = rng.normal(size=(n, 4))
    X[:, 1] += 1.5 * (z == groups[-1])
    score = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n)
    y = np.array(labels)[np.digitize(score, np.quantile(score, np.linspace(0, 1, len(labels) + 1)[1:-1]))]
    return X, y, z


def violation(model, X, y, z):
    return sx.audit(y, model.predict_proba(X), sensitive_features=z).violation


def test_a_larger_trade_off_has_less_violation():
    X, y, z = people(4_000)
    found = [
        violation(
            SeparationClassifier(t, hidden=(16,), epochs=15, min_steps=0, learning_rate=5e-3).fit(
                X, y, sensitive_features=z
            ),
            X,
            y,
            z,
        )
        for t in (0.0, 0.9)
    ]
    assert found[1] < 0.3 * found[0]


@pytest.mark.parametrize("groups", [("f", "m"), ("a", "b", "c")])
@pytest.mark.parametrize("labels", [("no", "yes"), ("low", "mid", "high")])
@pytest.mark.parametrize("use_sensitive", [False, True])
def test_labels_and_groups_of_any_number(groups, labels, use_sensitive):
    X, y, z = people(600, labels=labels, groups=groups)
    model = SeparationClassifier(0.5, use_sensitive=use_sensitive, **FEW).fit(X, y, sensitive_features=z)
    q = model.predict_proba(X, sensitive_features=z)
    assert q.shape == (600, len(labels))
    assert set(model.predict(X, sensitive_features=z)) <= set(labels)
    assert model.groups_ == groups
    np.testing.assert_array_equal(model.classes_, sorted(labels))
    if use_sensitive:
        with pytest.raises(InputError, match="needs the group of every row: pass `sensitive_features`"):
            model.predict(X)
        with pytest.raises(InputError, match="holds 'x', which is not one of"):
            model.predict(X, sensitive_features=np.full(600, "x"))
    else:
        np.testing.assert_array_equal(q, model.predict_proba(X))


def test_frames_sparse_rows_and_arrays_are_the_same():
    X, y, z = people(400)
    names = ["a", "b", "c", "d"]
    expected = SeparationClassifier(0.3, **FEW).fit(X, y, sensitive_features=z).predict_proba(X)
    for rows, group in (
        (pd.DataFrame(X, columns=names), pd.Series(z)),
        (pl.DataFrame(X, schema=names), pl.Series(z)),
        (sparse.csr_array(X), pd.DataFrame({"sex": z})),
    ):
        model = SeparationClassifier(0.3, **FEW).fit(rows, y, sensitive_features=group)
        np.testing.assert_allclose(model.predict_proba(rows), expected, atol=1e-6)


def test_several_sensitive_columns_are_intersected():
    X, y, z = people(400)
    both = pd.DataFrame({"sex": z, "old": X[:, 2] > 0})
    model = SeparationClassifier(0.3, **FEW).fit(X, y, sensitive_features=both)
    assert model.groups_ == (("f", False), ("f", True), ("m", False), ("m", True))


def test_weights_count_and_a_weight_of_zero_is_no_row():
    X, y, z = people(300)
    options = FEW | {"batch": None, "epochs": 30}
    w = np.r_[np.zeros(100), np.full(200, 2.0)]
    a = SeparationClassifier(0.3, **options).fit(X, y, sensitive_features=z, sample_weight=w)
    b = SeparationClassifier(0.3, **options).fit(X[100:], y[100:], sensitive_features=z[100:])
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=2e-3)


def test_without_groups_it_warns_and_is_erm():
    X, y, z = people(300)
    with pytest.warns(UserWarning, match="plain ERM and controls no violation"):
        alone = SeparationClassifier(0.9, **FEW).fit(X, y)
    erm = SeparationClassifier(0.0, "erm", **FEW).fit(X, y, sensitive_features=z)
    np.testing.assert_allclose(alone.predict_proba(X), erm.predict_proba(X), atol=1e-6)


def test_groups_are_routed_through_pipelines_searches_and_cross_validation():
    X, y, z = people(600)
    with sklearn.config_context(enable_metadata_routing=True):
        model = SeparationClassifier(0.3, **FEW).set_fit_request(sensitive_features=True)
        pipe = make_pipeline(StandardScaler(), MinMaxScaler(), model)
        pipe.fit(X, y, sensitive_features=z)
        assert pipe.predict(X).shape == (600,)
        score = make_scorer(sx.metrics.violation_score, greater_is_better=False).set_score_request(
            sensitive_features=True
        )
        search = GridSearchCV(pipe, {"separationclassifier__trade_off": [0.0, 0.9]}, cv=2, scoring=score)
        search.fit(X, y, sensitive_features=z)
        assert search.best_params_["separationclassifier__trade_off"] in (0.0, 0.9)
        done = cross_validate(
            pipe, X, y, cv=2, params={"sensitive_features": z}, scoring={"v": score, "accuracy": "accuracy"}
        )
        assert np.isfinite(done["test_v"]).all()
        seen = SeparationClassifier(0.3, use_sensitive=True, **FEW)
        seen.set_fit_request(sensitive_features=True).set_predict_request(sensitive_features=True)
        both = make_pipeline(StandardScaler(), seen).fit(X, y, sensitive_features=z)
        assert both.predict(X, sensitive_features=z).shape == (600,)


def test_clone_and_the_randomised_policy():
    X, y, z = people(500)
    model = clone(SeparationClassifier(0.3, policy="randomized", **FEW)).fit(X, y, sensitive_features=z)
    a = model.predict(X, random_state=0)
    np.testing.assert_array_equal(a, model.predict(X, random_state=0))
    np.testing.assert_array_equal(model.predict(X), model.predict(X))  # its own seed repeats
    fresh = [model.predict(X, random_state=None) for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()
    assert np.mean(a == "yes") == pytest.approx(model.predict_proba(X)[:, 1].mean(), abs=0.06)
    assert (a != model.classes_[model.predict_proba(X).argmax(1)]).any()


def test_early_stopping_stops():
    X, y, z = people(500)
    options = FEW | {"epochs": 200, "patience": 2, "learning_rate": 0.05}
    losses = SeparationClassifier(0.3, **options).fit(X, y, sensitive_features=z).fitted_.losses[0]
    assert np.isfinite(losses).sum() < 200


def test_verbose_shows_a_bar(capsys):
    X, y, z = people(200)
    SeparationClassifier(0.3, **FEW).fit(X, y, sensitive_features=z)
    assert capsys.readouterr().err == ""
    SeparationClassifier(0.3, verbose=True, **FEW).fit(X, y, sensitive_features=z)
    assert capsys.readouterr().err != ""


@pytest.mark.parametrize(("use_sensitive", "piecewise_linear"), [(False, 0), (True, 0), (True, 8)])
def test_the_predictor_of_an_estimator_predicts_the_same_from_raw_features(tmp_path, use_sensitive, piecewise_linear):
    X, y, z = people(400)
    X = X * [1, 10, 100, 0.01] + [0, 50, 2000, 3]
    frame = pd.DataFrame(X, columns=list("abcd"))
    options = FEW | {"use_sensitive": use_sensitive, "piecewise_linear": piecewise_linear}
    model = SeparationClassifier(0.3, **options).fit(frame, y, sensitive_features=z)
    predictor = sx.Predictor.from_estimator(model)
    predictor.save(tmp_path / "model")
    for one in (predictor, sx.load(tmp_path / "model")):
        q = replace_policy(one).predict_proba(frame, sensitive_features=z)
        np.testing.assert_allclose(q, model.predict_proba(frame, sensitive_features=z), atol=1e-4)
        np.testing.assert_array_equal(one.predict(frame, z), model.predict(frame, z))


def replace_policy(predictor):
    from dataclasses import replace

    from separatrix.optimum.rules import DrawnLabel

    (branch,) = predictor.branches
    return replace(predictor, branches=(replace(branch, rule=DrawnLabel()),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "fair"}, "got 'fair'"),
        ({"method": "magic"}, "no method 'magic'"),
        ({"learning_rate": -1.0}, "must be positive, got -1"),
    ],
)
def test_errors(options, message):
    X, y, z = people(100)
    with pytest.raises(InputError, match=message):
        SeparationClassifier(**(FEW | options)).fit(X, y, sensitive_features=z)
    with pytest.raises(InputError, match=r"one group per row, 100, got 3"):
        SeparationClassifier(**FEW).fit(X, y, sensitive_features=["f", "m", "f"])
    with pytest.raises(InputError, match="which a SeparationClassifier has not"):
        SeparationClassifier(**FEW).fit(X, y, sensitive_features=z, groups=z)


def test_the_level_reaches_the_penalty():
    X, y, z = people()
    models = [
        SeparationClassifier(0.8, level=level, **FEW).fit(X, y, sensitive_features=z) for level in ("draw", "score")
    ]
    a, b = (model.predict_proba(X) for model in models)
    assert np.abs(a - b).max() > 1e-3
    with pytest.raises(InputError, match="'adversarial' has no penalty on the score"):
        SeparationClassifier(0.8, "adversarial", level="score", **FEW).fit(X, y, sensitive_features=z)
    with pytest.raises(InputError, match="'draw' or 'score', got 'rank'"):
        SeparationClassifier(0.8, level="rank", **FEW).fit(X, y, sensitive_features=z)


def test_a_network_takes_frames_with_text_and_ships_as_it_is(tmp_path):
    """Text, categories and missing numbers become columns; the saved model decides the same."""
    rng = np.random.default_rng(0)
    job, age = rng.choice(["cook", "nurse", "pilot"], 600), rng.normal(40, 10, 600)
    X = pd.DataFrame({"job": job, "level": pd.Categorical(job), "age": age})
    X.loc[3, "age"] = np.nan
    y, z = np.where(job == "pilot", "yes", "no"), rng.choice(["f", "m"], 600)
    model = sx.SeparationClassifier(0.1, hidden=(8,), epochs=20, min_steps=200)
    model.fit(X, y, sensitive_features=z)
    assert (model.n_features_in_, list(model.feature_names_in_)) == (3, list(X.columns))
    decided = model.predict(X)
    assert np.mean(decided == y) > 0.95
    sx.Predictor.from_estimator(model).save(tmp_path / "model")
    np.testing.assert_array_equal(sx.load(tmp_path / "model").predict(X), decided)
    with pytest.raises(ValueError, match="now missing:\n- job"):  # scikit-learn's sentence
        model.predict(X[["age", "level"]])
