"""What is in production: predictors, saved models, monitors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from sklearn.linear_model import LogisticRegression

import hostile
import separatrix as sx
from fuzzing import SEEDS, cases, finite, seldom, told
from people import people
from separatrix import datasets
from separatrix.crossfit.base_models import Base
from separatrix.nn.networks import Networks
from separatrix.optimum.rules import DrawnLabel, OneThreshold
from separatrix.predictor.predictor import Branch, Predictor

pytestmark = pytest.mark.slow
SECRET = "kept by the operator, not in the model"


@pytest.fixture(scope="module")
def single():
    """A network with made-up weights, for raw rows."""
    data = datasets.from_frame(people(200), target="pay", sensitive="sex")
    rng, width = np.random.default_rng(0), 2 + data.X.shape[1]
    layers = [rng.normal(size=(1, width, 4)), rng.normal(size=(1, 4, 2))]
    networks = Networks(
        tuple(w.astype(np.float32) for w in layers),
        (np.zeros((1, 4), np.float32), np.zeros((1, 2), np.float32)),
        2,
        ("ok",),
        np.zeros((1, 1)),
    )
    branch = Branch(Base.from_lane("cmi", 0.0, networks), DrawnLabel())
    return Predictor(data.labels, data.groups, (branch,), preprocessing=data.preprocessing, grouping=data.grouping)


@pytest.fixture(scope="module")
def mixture(single):
    """Two branches of it."""
    hard = replace(single.branches[0], rule=OneThreshold(0.5))
    return replace(single, branches=(*single.branches, hard), weights=(0.3, 0.7))


@pytest.fixture(scope="module")
def frontier():
    """A trace of 240 rows around logistic regression."""
    rng = np.random.default_rng(0)
    z, y = rng.integers(0, 2, (2, 240))
    X = rng.normal(size=(240, 2)) + (y + z)[:, None]
    how = {"estimator": "logistic", "method": [], "cv": 3, "progress": False}
    return sx.trace(X, y, sensitive_features=z, **how)


def some_rows(rng):
    n = int(rng.integers(0, 12))
    rows = {
        "age": rng.normal(40, 9, n),
        "job": rng.choice(["cook", "pilot", "astronaut"], n),
        "sex": rng.choice(["f", "m"], n),
    }
    if n and rng.random() < 0.5:
        rows[hostile.pick(rng, list(rows))] = hostile.column(rng, n)
    return n, rows


def some_draws(rng, n):
    seeds = (0, None, -1, "x", np.nan)
    if rng.random() < 0.6:
        return {"random_state": hostile.pick(rng, seeds)} if rng.random() < 0.8 else {}
    salt = hostile.pick(rng, (SECRET, SECRET, SECRET, "", "a" * 30, None, 5, b"\0"))
    return {"ids": seldom(rng, np.arange(n), n), "salt": salt}


@given(seed=SEEDS)
@cases(50)
def test_predictions(seed, single, mixture):
    rng = np.random.default_rng(seed)
    n, rows = some_rows(rng)
    predictor, draws = hostile.pick(rng, (single, mixture)), some_draws(rng, n)
    labels = told(lambda: predictor.predict(rows, **draws))
    assert labels is None or set(labels) <= {"high", "low"}
    z = seldom(rng, None, n, 0.3)
    q = told(lambda: predictor.predict_proba(rows, sensitive_features=z))
    assert q is None or (finite(q) and np.allclose(q.sum(1), 1.0))


@pytest.mark.nightly
@given(seed=SEEDS)
@cases(60)
def test_choices(seed, frontier):
    rng = np.random.default_rng(seed)
    budget = (None, None, 0.1, 0.3, 0, -1, np.nan, np.inf, "x", [], True, 1e300, 1j, np.ones(1))
    options = {
        "max_violation": budget, "max_eo_gap": budget, "max_gap": budget,
        "maximize": ("accuracy", "utility", "auroc", sx.Cost(1, 5), "x", None, 3),
        "confidence": (0.9, 0, 1, -1, np.nan, "x", None),
        "guarantee": ("finite-sample", "large-sample", "x", None, 3),
        "blind": (True, False, None, "x"),
        "criterion": ("separation", "independence", "sufficiency", "x", None),
    }  # fmt: skip
    how = {k: hostile.pick(rng, v) for k, v in options.items() if rng.random() < 0.35}
    point = told(lambda: frontier.select(**how))
    assert point is None or (str(point) and finite([one[0] for one in point.promise.values()]))


@pytest.mark.nightly
@given(seed=SEEDS)
@cases(60)
def test_monitors(seed, single, tmp_path_factory):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    y, u, z = (rng.choice(["high", "low"], n) for _ in range(3))
    audit = told(lambda: sx.audit(y, u, sensitive_features=z))
    known = hostile.pick(rng, (audit, audit, audit, None, 3, "x"))
    budget = hostile.pick(rng, (0.01, 0.01, 0.1, 0, -1, np.nan, "x", None))
    sure = hostile.pick(rng, (0.95, 0.95, 0.5, 0, 1, np.nan, "x"))
    monitor = told(lambda: sx.Monitor(known, max_violation=budget, confidence=sure))
    if monitor is None:
        return
    for _ in range(3):
        seen = [seldom(rng, one, n) for one in (y, u, z)]
        told(lambda seen=seen: monitor.update(*seen[:2], sensitive_features=seen[2]))
    assert told(lambda: sx.Monitor.merge([monitor, hostile.pick(rng, (3, None, "x"))])) is None
    status = monitor.check()
    assert str(status)
    path = tmp_path_factory.getbasetemp() / "fuzz.monitor"
    monitor.save(path)
    assert str(sx.Monitor.load(path).check()) == str(status)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(rng.integers(len(whole)))])
    assert told(lambda: sx.Monitor.load(path)) is None


@given(seed=SEEDS)
@cases(40)
def test_a_damaged_model_is_never_loaded(seed, single, tmp_path_factory):
    """One byte, one file or one field of it changed."""
    rng = np.random.default_rng(seed)
    place = tmp_path_factory.getbasetemp() / "fuzz_model"
    if not place.exists():
        single.save(place)
    name = hostile.pick(rng, sorted(path.name for path in place.iterdir()))
    whole = (place / name).read_bytes()
    at, kind = int(rng.integers(len(whole))), int(rng.integers(4))
    damaged = (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], b"", whole + b"\0" * 9)[kind]
    try:
        (place / name).write_bytes(damaged)
        assert told(lambda: sx.load(place)) is None
    finally:
        (place / name).write_bytes(whole)


@given(seed=SEEDS)
@cases(15)
def test_wrapping(seed):
    rng = np.random.default_rng(seed)
    odd = (None, 3, "x", object(), LogisticRegression(), sx.FrontierClassifier(), [], sx)
    names = hostile.pick(rng, ((), ("a",), "ab", None, 5, (np.nan,)))
    assert told(lambda: sx.Predictor.from_estimator(hostile.pick(rng, odd), names)) is None
    places = ("", "none", None, 3, "\0", "/dev/null", b"x", [])
    assert told(lambda: sx.load(hostile.pick(rng, places))) is None
    assert told(lambda: sx.Frontier.load(hostile.pick(rng, places))) is None
