"""Arrays, lists and series: audits, scores, limits, comparisons."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given

import hostile
import separatrix as sx
from fuzzing import SEEDS, cases, finite, seldom, shows, told

pytestmark = pytest.mark.slow


def columns(rng, k=None):
    """Rows, labels and groups; a fifth of the columns is hostile."""
    n = int(rng.integers(1, 60))
    k = int(rng.integers(2, 4)) if k is None else k
    y = seldom(rng, hostile.labels(rng, n, k), n)
    how = {"sensitive_features": seldom(rng, hostile.labels(rng, n, int(rng.integers(1, 4))), n)}
    if rng.random() < 0.3:
        how["sample_weight"] = hostile.weights(rng, n)
    return n, k, y, how


def prediction(rng, n, k):
    """Labels, a posterior, or a column of probabilities."""
    kind = int(rng.integers(3))
    if kind == 0:
        return hostile.labels(rng, n, k)
    return hostile.posteriors(rng, n, k) if kind == 1 else hostile.scores(rng, n)


def audit_options(rng):
    more = {}
    if rng.random() < 0.2:
        more["confidence"] = hostile.pick(rng, (0.9, 0.0, 1.0, -1, np.nan, "x", None, 0.5))
    if rng.random() < 0.2:
        more["random_state"] = hostile.pick(rng, (-1, 0, 2**64, None, "x", 1.5, np.nan))
    if rng.random() < 0.2:
        more["labels"] = hostile.pick(rng, ([0, 1], [], [0, 0], "ab", 5, [np.nan], ["x"], [[]]))
    if rng.random() < 0.2:
        more["guarantee"] = hostile.pick(rng, ("large-sample", "x", None, 3))
    if rng.random() < 0.2:
        more["composition"] = hostile.pick(rng, ("observed", "population", "x", 3))
    return more


@pytest.mark.nightly
@given(seed=SEEDS)
@cases(170)
def test_audit(seed):
    rng = np.random.default_rng(seed)
    n, k, y, how = columns(rng)
    u, more = seldom(rng, prediction(rng, n, k), n), audit_options(rng)
    result = told(lambda: sx.audit(y, u, **how, **more))
    if result is not None:
        assert shows(result)
        assert finite([result.violation, result.utility, *result.violation_interval])
        large = result.guarantee == "large-sample"  # its limit takes the bias off
        assert result.violation >= 0
        assert large or result.violation <= result.violation_upper + 1e-9


@given(seed=SEEDS)
@cases(60)
def test_audit_of_numbers(seed):
    rng = np.random.default_rng(seed)
    n, _, _, how = columns(rng)
    y = seldom(rng, rng.normal(size=n) * 10.0 ** float(rng.choice([0, 0, 0, -300, 300])), n)
    u = seldom(rng, hostile.scores(rng, n), n)
    if rng.random() < 0.3:
        how |= {"numeric_sensitive": True, "sensitive_features": seldom(rng, rng.normal(size=n), n)}
    numeric = hostile.pick(rng, (True, True, True, False, "x", None))
    result = told(lambda: sx.audit_regression(y, u, numeric_target=numeric, **how))
    assert result is None or shows(result)


@given(seed=SEEDS)
@cases(50)
def test_single_numbers_and_soft_counts(seed):
    rng = np.random.default_rng(seed)
    n, k, y, how = columns(rng)
    u = seldom(rng, prediction(rng, n, k), n)
    assert finite(told(lambda: sx.metrics.violation_score(y, u, **how)))
    assert finite(told(lambda: sx.metrics.utility_score(y, u, **how)))
    q = seldom(rng, hostile.posteriors(rng, n, k), n)
    counts = told(lambda: sx.theory.soft_counts(y, q, **how))
    assert counts is None or finite(np.asarray(counts))


@given(seed=SEEDS)
@cases(50)
def test_audit_score(seed):
    rng = np.random.default_rng(seed)
    n, _, y, how = columns(rng)
    s = seldom(rng, hostile.scores(rng, n), n)
    bins = hostile.pick(rng, (20, 20, 5, 1, 0, -1, 10**6, "x", 2.5))
    start = hostile.pick(rng, (0, 0, 0, -1, None, "x", np.nan))
    result = told(lambda: sx.audit_score(y, s, bins=bins, random_state=start, **how))
    assert result is None or shows(result)


@given(seed=SEEDS)
@cases(60)
def test_limit(seed):
    rng = np.random.default_rng(seed)
    n, _, y, how = columns(rng, k=2)
    s = seldom(rng, hostile.scores(rng, n), n)
    how["maximize"] = hostile.pick(rng, ("utility", "accuracy", "balanced_accuracy", "x", None, 3))
    how["budget"] = hostile.pick(rng, ("violation", "eo_gap", "eo_max", "tpr_gap", "x", None))
    how["levels"] = hostile.pick(rng, ([0.01], [0.0, 0.1], [-1], [np.nan], [], "x", 0.1, [np.inf]))
    found = told(lambda: sx.limit(y, s, **how))
    assert found is None or (finite(np.asarray(found.values)) and str(found))


@given(seed=SEEDS)
@cases(60)
def test_separate(seed):
    rng = np.random.default_rng(seed)
    n, _, y, how = columns(rng, k=2)
    s = seldom(rng, hostile.scores(rng, n), n)
    penalty = hostile.pick(rng, (None, None, 1.0, -1, np.nan, "x", 1e300))
    score = told(lambda: sx.theory.separate(y, s, penalty=penalty, **how))
    if score is not None:
        assert finite([score.levels, score.auroc, score.utility])
        some = seldom(rng, hostile.scores(rng, n), n)
        z = seldom(rng, how["sensitive_features"], n)
        drawn = told(lambda: score.transform(some, sensitive_features=z))
        assert drawn is None or np.isin(drawn, score.levels).all()


@pytest.mark.nightly
@given(seed=SEEDS)
@cases(40)
def test_align(seed):
    rng = np.random.default_rng(seed)
    n, _, _, how = columns(rng)
    y = seldom(rng, rng.normal(size=n), n)
    s = seldom(rng, hostile.scores(rng, n), n)
    how["levels"] = hostile.pick(rng, (4, 16, 1, 0, -1, 10**9, "x", 2.5, None))
    how["penalty"] = hostile.pick(rng, (None, 1.0, 0.0, -1, np.nan, "x", np.inf))
    if rng.random() < 0.3:
        how["max_violation"] = hostile.pick(rng, (0.5, 0, -1, np.nan, "x"))
    how["cv"] = hostile.pick(rng, (2, 5, 0, 1, -3, "x", 10**6))
    found = told(lambda: sx.theory.align(y, s, **how))
    if found is not None:
        assert finite(found.levels)
        z = how["sensitive_features"]
        assert finite(told(lambda: found.transform(s, sensitive_features=z)))
    for name in ("penalty", "max_violation", "cv"):
        how.pop(name, None)
    path = told(lambda: sx.theory.alignment_path(y, s, **how))
    assert path is None or len(path) > 0


@pytest.mark.nightly
@given(seed=SEEDS)
@cases(50)
def test_comparisons(seed):
    rng = np.random.default_rng(seed)
    n, k, y, how = columns(rng)
    how.pop("sample_weight", None)
    a, b = (seldom(rng, hostile.labels(rng, n, k), n) for _ in range(2))
    sure = hostile.pick(rng, (0.95, 0.95, 0.5, 0, 1, np.nan, "x", None))
    paired = told(lambda: sx.compare(a, b, y_true=y, confidence=sure, **how))
    assert paired is None or (finite([paired.change, *paired.interval]) and str(paired))
    audits = [told(lambda u=u: sx.audit(y, u, **how)) for u in (a, b)]
    other = hostile.pick(rng, (audits[1], audits[1], audits[1], None, 3, "x"))
    both = told(lambda: sx.compare(audits[0], other))
    assert both is None or (finite([both.change, *both.interval]) and str(both))


def plug_in(y, u, z):
    """v = I(U;Z|Y) of lists, by counting with dictionaries."""
    n = len(y)
    cells = Counter(zip(y, z, u, strict=True))
    yz, yu = Counter(zip(y, z, strict=True)), Counter(zip(y, u, strict=True))
    one = Counter(y)
    return sum(c / n * math.log(c * one[a] / (yz[a, b] * yu[a, d])) for (a, b, d), c in cells.items())


@given(seed=SEEDS)
@cases(60)
def test_plain_columns_have_the_right_answer(seed):
    """Against counting with dictionaries."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 60))
    y, u, z = (rng.integers(0, 2, n).tolist() for _ in range(3))
    if len(set(y)) == len(set(z)) == 2:
        assert sx.metrics.violation_score(y, u, sensitive_features=z) == pytest.approx(plug_in(y, u, z), abs=1e-12)
