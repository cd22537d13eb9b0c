"""The scikit-learn estimators, the base of a trace, and the losses for training loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.linear_model import LogisticRegression

import hostile
import separatrix as sx
from fuzzing import SEEDS, cases, finite, seldom, told

pytestmark = pytest.mark.slow
SMALL = (0.2, 0.2, 0, -1, np.nan, "x", None, 1e9)


def rows(rng):
    """Forty rows with an effect; one argument in five is hostile."""
    n = int(rng.integers(2, 60))
    z, y = rng.integers(0, 2, (2, n))
    X = rng.normal(size=(n, 2)) + (y + z)[:, None]
    right = X, np.array(["no", "yes"])[y], np.array(["f", "m"])[z]
    return (n, *(seldom(rng, one, n) for one in right))


def maybe(rng, **options):
    """Some of the options, each one of its values."""
    return {k: hostile.pick(rng, v) for k, v in options.items() if rng.random() < 0.3}


@given(seed=SEEDS)
@cases(40)
def test_frontier_classifier(seed):
    rng = np.random.default_rng(seed)
    n, X, y, z = rows(rng)
    how = maybe(
        rng, maximize=("accuracy", "utility", "x", None, sx.Cost(1, 5)), cv=(2, 0, "x", 1, 10**6),
        max_eo_gap=SMALL, max_violation=SMALL, confidence=(0.9, 0, 1, "x"),
        budgets=(None, {}, {"parity_gap": 0.2}, {"x": 1}, 3), sensitive_columns=(None, 0, "x", 99),
        use_whole_budget=(True, False), random_state=(0, -1, "x"),
    )  # fmt: skip
    model = sx.FrontierClassifier(LogisticRegression(), **({"cv": 2} | how))
    if told(lambda: model.fit(X, y, sensitive_features=z), by_sklearn=True) is not None:
        new, group = seldom(rng, X, n), seldom(rng, z, n)
        q = told(lambda: model.predict_proba(new, sensitive_features=group), by_sklearn=True)
        assert q is None or (finite(q) and np.allclose(q.sum(1), 1.0))
        u = told(lambda: model.predict(new, sensitive_features=group), by_sklearn=True)
        assert u is None or set(u) <= set(model.classes_)


@given(seed=SEEDS)
@cases(25)
def test_separated_scorer(seed):
    rng = np.random.default_rng(seed)
    n, X, y, z = rows(rng)
    how = maybe(rng, penalty=(None, 1.0, -1, np.nan, "x"), cv=(3, 0, "x"), random_state=(-1, "x"))
    model = sx.SeparatedScorer(LogisticRegression(), **({"cv": 2} | how))
    if told(lambda: model.fit(X, y, sensitive_features=z), by_sklearn=True) is not None:
        new, group = seldom(rng, X, n), seldom(rng, z, n)
        assert finite(told(lambda: model.decision_function(new, sensitive_features=group), by_sklearn=True))


@pytest.mark.nightly
@given(seed=SEEDS)
@cases(12)
def test_aligned_regressor(seed):
    rng = np.random.default_rng(seed)
    n, X, _, z = rows(rng)
    y = seldom(rng, rng.normal(size=n), n)
    how = maybe(rng, levels=(4, 0, "x"), cv=(3, 0, "x"), random_state=(-1, "x"))
    model = sx.AlignedRegressor(**({"cv": 2} | how))
    if told(lambda: model.fit(X, y, sensitive_features=z), by_sklearn=True) is not None:
        group = seldom(rng, z, n)
        assert finite(told(lambda: model.predict(X, sensitive_features=group), by_sklearn=True))


@given(seed=SEEDS)
@cases(15)
def test_separation_classifier(seed):
    rng = np.random.default_rng(seed)
    n, X, y, z = rows(rng)
    how = maybe(
        rng, trade_off=(0.0, 0.5, 1.0, -1, np.nan, "x"), method=("cmi", "erm", "x", None, 3),
        policy=("randomized", "x", None), batch=(None, 8, 0, -1), random_state=(0, -1, "x"),
    )  # fmt: skip
    model = sx.SeparationClassifier(hidden=(4,), epochs=1, min_steps=0, **how)
    if told(lambda: model.fit(X, y, sensitive_features=z), by_sklearn=True) is not None:
        new = seldom(rng, X, n)
        assert finite(told(lambda: model.predict_proba(new), by_sklearn=True))
        u = told(lambda: model.predict(new), by_sklearn=True)
        assert u is None or set(u) <= set(model.classes_)


@given(seed=SEEDS)
@cases(25)
def test_losses(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 20))
    logits = torch.tensor(rng.normal(size=(n, 2)) * hostile.pick(rng, (1.0, 1e4)))
    y, z = (torch.tensor(rng.integers(0, 2, n)) for _ in range(2))
    odd = (None, 3, "x", torch.zeros(0), torch.tensor([7] * n), torch.zeros(n), torch.zeros(n, 3))
    logits, y, z = (hostile.pick(rng, odd) if rng.random() < 0.15 else x for x in (logits, y, z))
    level = hostile.pick(rng, (0.5, 0.0, 1.0, -1, np.nan, "x", None))
    sizes = [hostile.pick(rng, (2, 2, 2, 1, 0, "x")) for _ in range(2)]
    loss = told(lambda: sx.nn.SeparationLoss(level, *sizes))
    found = None if loss is None else told(lambda: loss(logits, y, z))
    assert found is None or bool(torch.isfinite(found))
    v = told(lambda: sx.nn.soft_cmi(logits, y, z))
    assert v is None or bool(torch.isfinite(v))


@given(seed=SEEDS)
@cases(12)
def test_traces_refuse_what_they_cannot_use(seed, tmp_path_factory):
    """Always one argument that no trace can use, so that nothing is trained."""
    rng = np.random.default_rng(seed)
    _, X, y, z = rows(rng)
    how = {"estimator": "logistic", "method": [], "cv": 2}
    how |= hostile.pick(
        rng,
        ({"estimator": "x"}, {"estimator": 3}, {"cv": 0}, {"cv": "x"}, {"cv": 10**6},
         {"method": "x"}, {"method": 3}, {"out": 3}, {"out": "\0"}, {"random_state": -1},
         {"random_state": "x"}, {"trade_offs": "x", "method": "erm"}),
    )  # fmt: skip
    assert told(lambda: sx.trace(X, y, sensitive_features=z, **how)) is None


@given(seed=SEEDS)
@cases(15)
def test_datasets_by_name(seed):
    rng = np.random.default_rng(seed)
    name = hostile.pick(rng, ("adult", "x", "", None, 3, "../x", ["adult"]))
    features = hostile.pick(rng, ("paper", "x", None, 3))
    data = told(lambda: sx.datasets.load(name, features=features))
    assert data is None or finite(data.X)
    assert told(lambda: sx.methods.get(hostile.pick(rng, ("x", "", None, 3, [])))) is None
