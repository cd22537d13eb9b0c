"""AlignedRegressor: unseen rows, groups, numbers, frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from separatrix.core.conditional_cmi import rank_violation
from separatrix.errors import InfeasibleError, InputError
from separatrix.estimators.aligned import AlignedRegressor


def people(seed, n=4000):
    """One group earns more and is rated higher at the same outcome."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    y = z + rng.normal(size=n)
    return np.column_stack([y + 0.7 * rng.normal(size=n), z]), y, z


def r2(y, u):
    return 1 - np.mean((y - u) ** 2) / y.var()


@pytest.mark.slow
def test_a_budget_is_kept_on_unseen_rows_at_little_cost():
    X, y, z = people(0, 2000)
    X2, y2, z2 = people(1, 20_000)
    model = AlignedRegressor(LinearRegression(), 0.005, cv=3, random_state=0).fit(X, y, sensitive_features=z)
    plain = LinearRegression().fit(X, y).predict(X2)
    u = model.predict(X2, sensitive_features=z2)
    assert rank_violation(y2, plain, z2, 2) > 0.03
    assert rank_violation(y2, u, z2, 2) < 0.008
    assert r2(y2, u) > r2(y2, plain) - 0.05
    assert len(np.unique(u)) <= 16


def test_maps_are_fitted_to_rows_that_the_regressor_did_not_see():
    """A tree knows its own rows by heart, R² = 1."""
    X, y, z = people(2, 1500)
    model = AlignedRegressor(DecisionTreeRegressor(), penalty=0.0, cv=3, random_state=0)
    model.fit(X, y, sensitive_features=z)
    assert r2(y, model.crossfit_.scores) < 0.6
    assert model.score_.r2 < 0.75


@pytest.mark.slow
def test_a_number_instead_of_groups():
    rng = np.random.default_rng(3)
    age = rng.uniform(18, 80, 4000)
    y = rng.normal(size=4000) + age / 20
    X = np.column_stack([y + 0.7 * rng.normal(size=4000), age])
    model = AlignedRegressor(LinearRegression(), penalty=30.0, sensitive="continuous", random_state=0)
    model.fit(X, y, sensitive_features=age)
    raw = clone(model).set_params(penalty=0.0).fit(X, y, sensitive_features=age)
    assert model.groups_ == ()
    assert model.score_.violation < 0.2 * raw.score_.violation
    with pytest.raises(InputError, match="needs the number of every row"):
        model.predict(X)


def test_frames_with_text_and_weights():
    X, y, z = people(4, 1200)
    frame = pd.DataFrame({"x": X[:, 0], "town": np.where(X[:, 0] > 0, "a", "b")})
    sex = pd.Series(np.where(z, "m", "f"), name="sex")
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    model = AlignedRegressor(penalty=1.0, cv=2).fit(frame, y, sex, sample_weight=weight)
    assert model.groups_ == ("f", "m")
    assert np.isfinite(model.predict(frame.head(5), sex.head(5))).all()


def test_predictions_of_another_model():
    X, y, z = people(5, 1500)
    model = AlignedRegressor("precomputed", penalty=1.0).fit(X[:, 0], y, sensitive_features=z)
    wrapped = LinearRegression().fit(X[:, :1], X[:, 0])
    prefit = AlignedRegressor(wrapped, penalty=1.0, cv="prefit").fit(X[:, :1], y, z)
    away = model.predict(X[:, 0], z) - prefit.predict(X[:, :1], z)  # the last digits may differ
    assert np.abs(away).mean() < 0.02


def test_without_groups_it_is_the_regressor_at_few_values():
    X, y, _ = people(6, 1500)
    model = AlignedRegressor(LinearRegression(), levels=8).fit(X, y)
    u = model.predict(X)
    assert len(np.unique(u)) <= 8
    assert r2(y, u) > 0.6


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"estimator": LogisticRegression()}, "is a classifier: a numeric outcome needs"),
        ({"estimator": "trees"}, "`estimator` must be a regressor, None or 'precomputed'"),
        ({"cv": 1}, "`cv` must be a number of folds, at least 2 and at most the 200 rows"),
        ({"levels": 0}, "`levels` must be a whole number"),
        ({"max_violation": -1}, "`max_violation` must be finite and not negative"),
    ],
)
def test_bad_settings_are_one_sentence(change, sentence):
    X, y, z = people(7, 200)
    y = np.round(y) if "estimator" in change else y
    with pytest.raises(InputError, match=sentence):
        AlignedRegressor(**{"estimator": Ridge(), **change}).fit(X, y, sensitive_features=z)


@pytest.mark.nightly
def test_unseen_groups_and_budgets_are_refused():
    X, y, z = people(8, 500)
    model = AlignedRegressor(Ridge(), penalty=0.0).fit(X, y, sensitive_features=z)
    with pytest.raises(InputError, match="holds 5, which is not one of 0, 1"):
        model.predict(X[:1], sensitive_features=[5])
    with pytest.raises(InputError, match=r"needs the group of every row.*\(0, 1\)"):
        model.predict(X[:1])
    noisy = np.where(z == 1, y, y + 3 * np.random.default_rng(0).normal(size=len(y)))
    with pytest.raises(InfeasibleError, match="the least is"):
        AlignedRegressor("precomputed", 1e-6).fit(noisy, y, sensitive_features=z)
