"""Around a scikit-learn classifier: the same decisions law after a save, through skops and nothing
else.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import separatrix as sx
from people import people
from separatrix.crossfit.array_models import Logistic
from separatrix.crossfit.base_models import Base
from separatrix.errors import InputError
from separatrix.estimators.frontier import FrontierClassifier
from separatrix.optimum.rules import ThresholdChannel
from separatrix.predictor.predictor import Branch, Predictor

pytest.importorskip("skops")


@pytest.mark.slow
@pytest.mark.parametrize("labels", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_a_rule_around_a_pipeline_of_raw_columns_survives_the_disk(tmp_path, labels):
    rows = pd.DataFrame(people(1_200, seed=60))
    y = rows["pay"] if labels == 2 else rows["pay"].where(rows["age"] < 45, "unknown")
    base = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["job", "sex"]), remainder="drop"), LogisticRegression()
    )
    model = FrontierClassifier(base, maximize="utility", max_violation=0.01 if labels == 2 else 0.1, cv=3).fit(
        rows, y, sensitive_features=rows["sex"]
    )
    predictor = sx.Predictor.from_estimator(model)
    expected = model.predict_proba(rows, sensitive_features=rows["sex"])
    before = predictor.predict_proba(rows, sensitive_features=rows["sex"])
    np.testing.assert_allclose(before, expected, rtol=1e-12, atol=1e-15)
    predictor.save(tmp_path / "model")
    for one in (predictor, sx.load(tmp_path / "model")):
        np.testing.assert_array_equal(one.predict_proba(rows, sensitive_features=rows["sex"]), before)
        assert one.labels == tuple(sorted(set(y)))
        assert one.groups == ("f", "m")
        if not one.uses_groups:
            continue  # the plain model keeps the budget
        with pytest.raises(InputError, match="holds 'x'"):
            one.predict(rows[:1], sensitive_features=["x"])
    assert (tmp_path / "model" / "base0.skops").is_file()
    assert "- decision: thresholds by group" in (tmp_path / "model" / "MODEL_CARD.md").read_text()


@pytest.mark.slow
def test_the_default_model_of_text_columns_survives_the_disk(tmp_path):
    rows = pd.DataFrame(people(600, seed=61))[["job", "sex", "age", "pay"]]
    X, y, z = rows[["job", "sex", "age"]], rows["pay"], rows["sex"]
    model = FrontierClassifier(max_eo_gap=0.5, cv=2).fit(X, y, sensitive_features=z)
    sx.Predictor.from_estimator(model).save(tmp_path / "model")
    loaded = sx.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_proba(X, z), model.predict_proba(X, z), atol=1e-12)
    assert loaded.about["choice"]["max_eo_gap"] == 0.5
    assert loaded.about["choice"]["expected eo_gap on unseen rows"] <= 0.5


def test_only_a_fitted_rule_around_a_classifier_can_be_wrapped():
    with pytest.raises(InputError, match="got LogisticRegression"):
        sx.Predictor.from_estimator(LogisticRegression())
    rng = np.random.default_rng(0)
    bare = FrontierClassifier("precomputed").fit(rng.random(300), rng.integers(0, 2, 300), rng.integers(0, 2, 300))
    with pytest.raises(InputError, match="FrontierClassifier was fitted around bare scores"):
        sx.Predictor.from_estimator(bare)


def _two_columns(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    z, y = rng.choice(["f", "m"], n), rng.choice(["no", "yes"], n)
    X = rng.normal(size=(n, 2)) + np.stack([(y == "yes") * (1 + (z == "m")), z == "m"], 1)
    return X, y, z


@pytest.mark.slow
def test_a_blind_classifier_is_saved_and_never_asks_for_the_group(tmp_path):
    X, y, z = _two_columns()
    model = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.2, blind=True, cv=2)
    model.fit(X, y, sensitive_features=z)
    sx.Predictor.from_estimator(model).save(tmp_path / "model")
    loaded = sx.load(tmp_path / "model", trusted=[])
    assert not loaded.uses_groups
    np.testing.assert_allclose(loaded.predict_proba(X[:50]), model.predict_proba(X[:50]))


@pytest.mark.slow
@pytest.mark.parametrize("blind", [False, True])
def test_a_separated_scorer_is_saved(tmp_path, blind):
    X, y, z = _two_columns()
    model = sx.SeparatedScorer(LogisticRegression(), blind=blind, cv=2)
    model.fit(X, y, sensitive_features=z)
    sx.Predictor.from_estimator(model).save(tmp_path / "model")
    loaded = sx.load(tmp_path / "model")
    groups = None if blind else z
    shown = loaded.predict_proba(X, groups, random_state=0)[:, 1]
    own = model.decision_function(X, groups, random_state=0)
    if blind:
        np.testing.assert_allclose(shown, own)
    else:  # other coins, the same law
        assert set(np.round(shown, 9)) <= set(np.round(model.score_.levels, 9))
        assert abs(shown.mean() - own.mean()) < 0.05


def test_an_estimator_and_its_saved_model_give_a_person_the_same_coin(tmp_path):
    X, y, z = _two_columns(800)
    model = FrontierClassifier(Logistic(), max_eo_gap=0.05, cv=2, random_state=0)
    model.fit(X, y, sensitive_features=z)
    loaded = sx.load(model.save(tmp_path / "model"))
    assert loaded.randomized
    assert loaded.model_hash == model.predictor_.model_hash
    who = {"ids": np.arange(len(y)), "salt": "a secret of the operator"}
    np.testing.assert_array_equal(loaded.predict(X, z, **who), model.predict(X, z, **who))
    np.testing.assert_array_equal(loaded.predict_proba(X, z), model.predict_proba(X, z))


@pytest.mark.parametrize("blind", [False, True])
def test_a_column_that_the_model_does_not_see_is_left_out_after_loading_too(tmp_path, blind):
    """Also by a model of our own, which is kept as arrays."""
    rng = np.random.default_rng(2)
    z, x = rng.integers(0, 2, 2000), rng.normal(size=2000)
    y = (x + 0.3 * z + rng.logistic(size=2000) > 0.4).astype(int)
    X = np.column_stack([x, z])
    model = FrontierClassifier(Logistic(), max_eo_gap=0.08, blind=blind, cv=2, random_state=0)
    model.fit(X, y, sensitive_features=z)
    assert model.predictor_.branches[0].base.left_out == (1,)
    loaded = sx.load(model.save(tmp_path / "model"))
    want = model.predict_proba(X)
    np.testing.assert_array_equal(loaded.predict_proba(X), want)
    X[:, 1] = 1 - X[:, 1]
    np.testing.assert_array_equal(loaded.predict_proba(X), want)


def test_levels_of_zero_and_one_need_no_coin():
    """But for the last digits that a solver leaves in them."""
    levels = np.array([1.0 - 1e-15, 1e-16])
    rule = ThresholdChannel((0,), (np.array([0.5, 0.2]),), (levels,))
    branch = Branch(Base(None), rule)
    found = Predictor(("no", "yes"), ("a",), (branch,))
    assert not found.randomized
    law = found.predict_proba([0.7, 0.3], ["a", "a"])
    assert law.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert found.predict([0.7, 0.3], ["a", "a"]).tolist() == ["yes", "no"]
