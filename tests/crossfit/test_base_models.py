"""Base models by name: what they learn, how they are saved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from separatrix.crossfit import array_models, base_models
from separatrix.crossfit.array_models import BoostedTrees, Logistic
from separatrix.crossfit.base_models import base_model_named
from separatrix.errors import InputError, MissingExtraError
from separatrix.predictor import models

NAMES = ["trees", "logistic", pytest.param("network", marks=pytest.mark.slow)]


def people(n=400, seed=0):
    """One number, a category of four levels, two groups; the label follows all three."""
    rng = np.random.default_rng(seed)
    z, job, x = rng.integers(0, 2, n), rng.integers(0, 4, n), rng.normal(size=n)
    y = (x + (job == 2) - 0.5 * z + 0.3 * rng.logistic(size=n) > 0.2).astype(int)
    X = np.hstack([np.eye(2)[z], x[:, None], np.eye(4)[job]]).astype(np.float32)
    return X, y, z


def made(name):
    if name == "network":
        pytest.importorskip("torch")
    return base_model_named(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_learns_and_comes_back_from_its_arrays(name):
    X, y, _ = people()
    labels = np.array(["no", "yes"])[y]
    model = made(name).fit(X[:300], labels[:300])
    q = model.predict_proba(X[300:])
    assert np.abs(q.sum(1) - 1).max() < 1e-12
    assert (model.predict(X[300:]) == labels[300:]).mean() > 0.8
    arrays = model.arrays()
    assert all(isinstance(x, np.ndarray) and x.dtype.kind in "fiu" for x in arrays.values())
    again = model.restore(arrays, ["no", "yes"])
    assert (again.predict_proba(X[300:]) == q).all()
    assert (again.predict(X[300:]) == model.predict(X[300:])).all()
    kept = models.model_from_bytes(models.model_bytes(model))
    assert (kept.predict_proba(X[300:]) == q).all()
    assert kept.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("name", NAMES)
def test_three_labels(name):
    X, y, _ = people()
    y = y + (X[:, 2] > 1)
    model = made(name).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.7
    again = model.restore(model.arrays())
    assert (again.predict_proba(X) == model.predict_proba(X)).all()


@pytest.mark.parametrize("name", NAMES)
def test_missing_constant_and_single_label_rows_are_taken(name):
    X, y, _ = people(200)
    X = np.hstack([X, np.full((200, 1), 3.0, np.float32), np.full((200, 1), np.nan, np.float32)])
    X[::7, 2] = np.nan
    model = made(name).fit(X, y)
    X[0] = np.nan  # also where training rows had none
    assert np.isfinite(model.predict_proba(X)).all()
    single = made(name).fit(X, np.zeros(200, int))
    assert (single.predict_proba(X) == 1).all()
    again = single.restore(single.arrays())
    assert (again.predict_proba(X) == 1).all()


@pytest.mark.parametrize("name", ["trees", "logistic"])
def test_a_weight_of_two_is_the_row_twice(name):
    X, y, _ = people(100)
    twice = made(name).fit(np.vstack([X, X[:30]]), np.append(y, y[:30]))
    weight = np.where(np.arange(100) < 30, 2.0, 1.0)
    weighted = made(name).fit(X, y, sample_weight=weight)
    if name == "logistic":  # standardised by other rows, penalised alike: close, not equal
        assert np.abs(weighted.predict_proba(X) - twice.predict_proba(X)).max() < 0.02
    else:
        assert np.abs(weighted.predict_proba(X) - twice.predict_proba(X)).mean() < 0.05


def test_logistic_is_scikit_learns():
    """On columns without 0/1 values it is StandardScaler and LogisticRegression."""
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(300, 3)) * [1, 10, 0.1] + [0, 5, 9]).astype(np.float32)
    y = (X[:, 0] + X[:, 1] / 10 + rng.logistic(size=300) > 0.5).astype(int)
    scaled = StandardScaler().fit_transform(X.astype(float))
    wanted = LogisticRegression(C=0.3, tol=1e-8).fit(scaled, y).predict_proba(scaled)
    assert np.abs(Logistic().fit(X, y).predict_proba(X) - wanted).max() < 1e-4


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_joined_columns_tell_what_the_columns_told(seed):
    """One-hot columns joined into codes: two rows are equal afterwards iff they were before."""
    rng = np.random.default_rng(seed)
    parts = [np.eye(k)[rng.integers(0, k, 60)] for k in rng.integers(1, 6, 3)]
    parts.insert(int(rng.integers(0, 3)), rng.integers(0, 3, (60, 1)).astype(float))
    X = np.hstack(parts).astype(np.float32)
    model = BoostedTrees()
    model.bundle_, model.code_ = array_models._bundles(X)
    joined = model._joined(X)
    assert joined.shape[1] <= X.shape[1]
    same = (X[:, None] == X[None]).all(2)
    assert (same == (joined[:, None] == joined[None]).all(2)).all()


def test_damaged_trees_are_refused():
    X, y, _ = people(100)
    arrays = BoostedTrees().fit(X, y).arrays()
    for field, value in (("node_left", 10**6), ("node_feature_idx", 99), ("node_right", 0)):
        bad = dict(arrays) | {field: arrays[field].copy()}
        bad[field][0] = value
        with pytest.raises(InputError, match="damaged"):
            BoostedTrees.restore(bad)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("forest", "no base model 'forest'.*trees, logistic, network or MODULE:CLASS"),
        ("no_such_module:Thing", "'no_such_module'.*cannot be imported"),
        ("sklearn.linear_model:Nothing", "no class 'Nothing'"),
        ("sklearn.linear_model:LinearRegression", "no `predict_proba`"),
        ("numpy:pi", "is no class"),
        ("sklearn.multiclass:OneVsRestClassifier", "without arguments"),
    ],
)
def test_a_wrong_name_is_one_sentence(name, message):
    with pytest.raises(InputError, match=message):
        base_model_named(name)


def test_without_torch_the_network_is_named(monkeypatch):
    monkeypatch.setattr(base_models, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"separatrix\[torch\]"):
        base_model_named("network")
