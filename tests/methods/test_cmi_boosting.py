"""Boosted trees with the penalty: what the objective is, what training does, what is saved."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

import separatrix as sx
from separatrix import methods
from separatrix.core.binned_cmi import cmi_of_draws, cmi_of_scores
from separatrix.errors import InputError, MissingExtraError
from separatrix.methods import Lane, Recipe, Sample

lgb = pytest.importorskip("lightgbm")

from separatrix.methods import cmi_boosting  # noqa: E402
from separatrix.methods.cmi_boosting import Boosted, SeparationObjective, falling_rates  # noqa: E402

SCORE = Recipe(level="score")
seeds = st.integers(0, 2**32 - 1)


def people(n=1500, seed=0, n_labels=2, n_groups=2) -> Sample:
    """A group that shifts both a feature and the label."""
    rng = np.random.default_rng(seed)
    z, a = rng.integers(0, n_groups, n), rng.normal(size=n)
    X = np.column_stack([a + 0.7 * z, a + rng.normal(size=n), z + rng.normal(size=n)])
    y = np.clip(np.floor(a + 0.5 * z + rng.normal(size=n) * 0.5 + n_labels / 2), 0, n_labels - 1)
    return Sample(X, y.astype(int), z, n_labels, n_groups)


def fitted(sample, *trade_offs, recipe=None, **options) -> Boosted:
    lanes = [Lane(t) for t in trade_offs]
    return methods.fit("cmi_boosting", sample, lanes, recipe=recipe or "default", **options)


def violation(q, sample, bins=0) -> float:
    """v of the draw, or of the posterior of the second label in hard quantile bins."""
    if bins:
        s = q[:, 1]
        u = np.searchsorted(np.quantile(s, np.arange(1, bins) / bins), s)
        q = np.eye(bins)[u]
    table = sx.theory.soft_counts(sample.y, q, sensitive_features=sample.z)
    return float(sx.theory.conditional_mutual_information(getattr(table, "counts", table)))


# the objective


def loss(scores, y, z, level, share, weight=None, at=None) -> float:
    """(1−λ) Σ CE + λ n v, written out."""
    shape, w = (int(y.max()) + 1, int(z.max()) + 1), np.ones(len(y)) if weight is None else weight
    cell = y * shape[1] + z
    if scores.ndim == 1:
        p = expit(scores)
        task = -np.where(y == 1, np.log(p), np.log1p(-p))
        v = cmi_of_scores(p, cell, shape, np.array([0.0, 1.0]) if at is None else at, weight).value
    else:
        p = softmax(scores, axis=1)
        task, v = -np.log(p[np.arange(len(y)), y]), cmi_of_draws(p, cell, shape, weight).value
        if level == "score":
            found = [cmi_of_scores(p[:, u], cell, shape, at[u], weight) for u in range(shape[0])]
            v = float(np.mean([one.value for one in found]))
    return (1 - share) * float(w @ task) + share * w.sum() * v


@settings(max_examples=25)
@given(seeds, st.sampled_from(["draw", "score"]), st.sampled_from([2, 3]), st.booleans())
def test_the_raw_gradient_is_that_of_the_loss(seed, level, labels, weighted):
    rng = np.random.default_rng(seed)
    n, share = 40, 0.6
    y, z = np.arange(n) % labels, rng.integers(0, 3, n)
    z[:3] = range(3)
    weight = rng.integers(1, 4, n).astype(float) if weighted else None
    scores = rng.normal(size=n) if labels == 2 else rng.normal(size=(n, labels))
    make = {"level": level, "bins": 8, "normalise": False, "sample_weight": weight}
    objective = SeparationObjective(y, sensitive_features=z, trade_off=share, **make)
    # check_weight may rescale; the gradient is that of the weights it keeps
    kept = objective.rows.weight
    p = expit(scores)[:, None] if labels == 2 else softmax(scores, axis=1)
    at = [objective.rows.centres(column, objective.bins) for column in p.T] if level == "score" else None
    at = at[0] if at is not None and labels == 2 else at
    found = objective(scores)[0].reshape(n, -1)
    for row in range(0, n, 9):
        for column in range(found.shape[1]):
            step = np.zeros((n, found.shape[1]))
            step[row, column] = 1e-6
            moved = step.reshape(scores.shape)
            corner = level == "score" and any(
                np.abs(p[row, u] - (at if labels == 2 else at[u])).min() < 1e-5 for u in range(p.shape[1])
            )
            if corner:
                continue
            up, down = (loss(scores + sign * moved, y, z, level, share, kept, at) for sign in (1, -1))
            assert found[row, column] == pytest.approx((up - down) / 2e-6, abs=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("level", ["draw", "score"])
def test_a_round_leaves_what_earlier_rounds_returned(level, share):
    """The objective keeps arrays from round to round; none of them may leave it."""
    sample, rng = people(300), np.random.default_rng(1)
    objective = SeparationObjective(sample.y, sensitive_features=sample.z, trade_off=share, level=level)
    scores = rng.normal(size=300)
    first = objective(scores)
    kept = [values.copy() for values in first]
    objective(rng.normal(size=300))
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_array_equal(objective(scores), kept)


@given(seeds, st.sampled_from(["draw", "score"]), st.floats(0.05, 0.95))
def test_the_two_gradients_are_balanced_by_their_norms_up_to_the_largest_weight(seed, level, share):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, 60)
    y = (rng.random(60) < 0.3 + 0.4 * z).astype(int)
    scores = rng.normal(size=60) + z
    make = {"sensitive_features": z, "level": level, "bins": 8}
    task = SeparationObjective(y, trade_off=0.0, **make)(scores)[0]
    raw = SeparationObjective(y, trade_off=1.0, normalise=False, **make)(scores)[0]
    objective = SeparationObjective(y, trade_off=share, **make)
    mixed, hessian = objective(scores)
    weight = objective.last.weight
    step = np.inf if level == "draw" else 10.0 * hessian  # one unit of log-odds
    penalty = np.clip(weight * raw, -step, step)
    np.testing.assert_allclose(mixed, (1 - share) * task + penalty, atol=1e-10)
    assert weight <= share * np.linalg.norm(task) / np.linalg.norm(raw) * (1 + 1e-9)
    if level == "draw":
        assert weight <= 10.0
    p = expit(scores)
    np.testing.assert_allclose(hessian, p * (1 - p))


@given(seeds, st.sampled_from(["draw", "score"]), st.sampled_from([2, 3]))
def test_weights_are_repetitions(seed, level, labels):
    rng = np.random.default_rng(seed)
    n = 50
    y, z, times = np.arange(n) % labels, rng.integers(0, 2, n), rng.integers(1, 4, n)
    scores = rng.normal(size=n) if labels == 2 else rng.normal(size=(n, labels))
    make = {"trade_off": 0.4, "level": level, "bins": 8}
    one = SeparationObjective(y, sensitive_features=z, sample_weight=times, **make)
    many = SeparationObjective(np.repeat(y, times), sensitive_features=np.repeat(z, times), **make)
    unit = one.rows.weight if labels == 2 else one.rows.weight[:, None]
    for a, b in zip(one(scores), many(np.repeat(scores, times, axis=0)), strict=True):
        np.testing.assert_allclose(np.repeat(a / unit, times, axis=0), b, atol=1e-9)


def test_it_runs_in_a_loop_of_the_user_and_lowers_the_violation():
    sample = people(800)
    q = []
    for share in (0.0, 0.5):
        objective = SeparationObjective(sample.y, sensitive_features=sample.z, trade_off=share)
        parameters = {"objective": objective, "num_threads": 1, "verbosity": -1}
        model = lgb.train(parameters, lgb.Dataset(sample.X, sample.y), 30)
        p = expit(model.predict(sample.X))
        q.append(np.stack([1 - p, p], axis=1))
    assert violation(q[1], sample) < 0.3 * violation(q[0], sample)


def test_a_loop_stops_early_on_rows_with_groups_of_their_own():
    """What is watched is (1−λ) CE + (λ/η) v of the held-out rows, whatever groups they have."""
    sample, held = people(800), people(600, 1, n_groups=3)
    make = {"sensitive_features": sample.z, "trade_off": 0.3}
    objective = SeparationObjective(np.array(["no", "yes"])[sample.y], **make)
    feval = objective.watch(np.array(["no", "yes"])[held.y], sensitive_features=held.z)
    scores = np.random.default_rng(0).normal(size=600) + held.z
    expected = loss(scores, held.y, held.z, "draw", 0.0) / 600 * 0.7
    expected += 3.0 * loss(scores, held.y, held.z, "draw", 1.0) / 600
    assert feval(scores, None)[1] == pytest.approx(expected, abs=1e-12)
    rows = lgb.Dataset(sample.X, sample.y)
    parameters = {"objective": objective, "num_threads": 1, "verbosity": -1, "metric": "none"}
    stop = lgb.early_stopping(3, verbose=False)
    watched = {"valid_sets": [lgb.Dataset(held.X, held.y, reference=rows)], "feval": feval}
    model = lgb.train(parameters, rows, 200, callbacks=[stop], **watched)
    assert 0 < model.best_iteration < 200
    with pytest.raises(InputError, match="has the label 'perhaps'"):
        objective.watch(["no", "perhaps"], sensitive_features=[0, 1])


# training


@pytest.mark.slow
def test_no_penalty_is_lightgbm_itself():
    for labels, name in ((2, "binary"), (3, "multiclass")):
        sample = people(600, n_labels=labels)
        own = {"objective": name, "num_threads": 1, "verbosity": -1, "deterministic": True}
        own |= {"force_row_wise": True} | ({"num_class": 3} if labels == 3 else {})
        plain = lgb.train(own, lgb.Dataset(sample.X, sample.y), 100).predict(sample.X)
        q = fitted(sample, 0.0, use_sensitive=False).posteriors(sample.X)[0]
        np.testing.assert_allclose(q[:, 1] if labels == 2 else q, plain, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["draw", "score"])
def test_the_penalty_lowers_its_violation_on_unseen_rows(level):
    sample, unseen = people(4000, 0), people(20000, 1)
    bins = 20 if level == "score" else 0  # a blind score, which only training can separate
    model = fitted(sample, 0.0, 0.2, 0.5, recipe=Recipe(level=level), use_sensitive=not bins)
    q = model.posteriors(unseen.X, unseen.z)
    v = [violation(one, unseen, bins) for one in q]
    assert v[1] < 0.7 * v[0]
    assert v[2] < 0.4 * v[0]


@pytest.mark.nightly
def test_the_penalty_fades_so_the_violation_falls_along_the_path():
    """A normalised penalty that does not fade swings around v = 0 and v rises for large λ."""
    sample, unseen = people(5000, 2), people(30000, 3)
    q = fitted(sample, 0.1, 0.3, 0.5, 0.7, 0.9).posteriors(unseen.X, unseen.z)
    v = [violation(one, unseen) for one in q]
    seen = 1 / len(unseen)  # what shuffled groups show: two degrees of freedom over 2n
    assert all(b < max(a, seen) for a, b in pairwise(v))
    assert v[-1] < 0.01 * v[0]


@pytest.mark.slow
def test_falling_rates_reach_a_smaller_violation_at_no_lower_utility(monkeypatch):
    sample, unseen = people(5000, 5), people(30000, 6)
    shown = []
    for rates in (falling_rates, lambda rounds: [0.1] * rounds):
        monkeypatch.setattr(cmi_boosting, "falling_rates", rates)
        q = fitted(sample, 0.3).posteriors(unseen.X, unseen.z)[0]
        shown.append((violation(q, unseen), q[np.arange(len(unseen)), unseen.y].mean()))
    (v, right), (v_flat, right_flat) = shown
    assert v < 0.9 * v_flat
    assert right > right_flat


def test_the_objective_follows_the_rates_round_by_round():
    sample, rates = people(300), [0.2, 0.05]
    scores = np.where(sample.y == 1, 1.0, -1.0) + sample.z
    made = {"sensitive_features": sample.z, "trade_off": 0.9, "level": "draw"}
    falling = SeparationObjective(sample.y, learning_rate=rates, **made)
    for rate in (0.2, 0.05, 0.05):  # the last rate stays
        alone = SeparationObjective(sample.y, learning_rate=rate, **made)
        np.testing.assert_array_equal(falling(scores)[0], alone(scores)[0])


@pytest.mark.nightly
def test_several_labels_and_groups_at_both_levels():
    sample = people(1500, 0, n_labels=3, n_groups=4)
    for level in ("draw", "score"):
        model = fitted(sample, 0.0, 0.5, recipe=Recipe(level=level))
        q = model.posteriors(sample.X, sample.z)
        np.testing.assert_allclose(q.sum(-1), 1.0)
        seen = [violation(one[:, [0, 1, 2]], sample) for one in q]
        assert seen[1] < 0.5 * seen[0]


def test_weights_of_two_are_rows_that_occur_twice():
    once = people(300)
    times = np.random.default_rng(0).integers(1, 3, 300)
    weighted = Sample(once.X, once.y, once.z, weight=times)
    rows = np.repeat(np.arange(300), times)
    twice = Sample(once.X[rows], once.y[rows], once.z[rows])
    # a leaf holds at least twenty rows, not twenty units of weight: shares of labels agree closely
    a, b = (fitted(s, 0.3).posteriors(once.X, once.z)[0, :, 1] for s in (weighted, twice))
    assert np.corrcoef(a, b)[0, 1] > 0.95


def test_early_stopping_watches_rows_held_out_and_needs_ten_of_a_kind():
    sample = people(1500)
    whole, stopped = fitted(sample, 0.3), fitted(sample, 0.3, recipe=Recipe(patience=3))
    assert stopped.models[0].count("\nTree=") < whole.models[0].count("\nTree=") == 100
    y, z = np.arange(60) % 2, (np.arange(60) < 5).astype(int)
    few = Sample(sample.X[:60], y, z)
    assert fitted(few, 0.3, recipe=Recipe(patience=3)).models[0].count("\nTree=") == 100


def test_a_path_equals_its_models_one_by_one():
    sample = people(400)
    path = fitted(sample, 0.0, 0.2, 0.6)
    alone = fitted(sample, 0.6)
    assert path[[2]].models == alone.models
    np.testing.assert_array_equal(path.posteriors(sample.X, sample.z)[2:], alone.posteriors(sample.X, sample.z))


# saving


@pytest.mark.slow
def test_a_classifier_saved_and_loaded_predicts_the_same_bits(tmp_path):
    sample = people(500)
    X = sample.X.astype(np.float64) * 3.3 + 0.1
    names, groups = np.array(["no", "yes"])[sample.y], np.array(["f", "m"])[sample.z]
    for blind in (True, False):
        model = sx.SeparationClassifier(
            0.3, method="cmi_boosting", level="score", use_sensitive=not blind, policy="randomized"
        ).fit(X, names, sensitive_features=groups)
        z = None if blind else groups
        folder = tmp_path / str(blind)
        sx.Predictor.from_estimator(model).save(folder)
        loaded = sx.load(folder)
        q = model.predict_proba(X, sensitive_features=z)
        np.testing.assert_array_equal(loaded.predict_proba(X, sensitive_features=z), q)
        assert set(model.predict(X, sensitive_features=z)) == {"no", "yes"}


def test_a_classifier_without_groups_is_plain_trees():
    sample = people(300)
    model = sx.SeparationClassifier(0.3, method="cmi_boosting")
    with pytest.warns(UserWarning, match="controls no violation"):
        model.fit(sample.X, sample.y)
    plain = fitted(sample, 0.0, use_sensitive=False).posteriors(sample.X)[0]
    np.testing.assert_allclose(model.predict_proba(sample.X), plain, atol=1e-12)


@pytest.fixture(scope="module")
def small() -> Boosted:
    return fitted(people(200), 0.2)


# errors


def test_errors(small, monkeypatch):
    sample = people(100)
    with pytest.raises(InputError, match=r"λ ≤ 1, got 1.5"):
        fitted(sample, 1.5)
    with pytest.raises(InputError, match="cannot train on these 5 rows"):
        fitted(people(5), 0.5)
    with pytest.raises(InputError, match="3 columns of training"):
        small.posteriors(np.zeros((2, 7)), [0, 1])
    with pytest.raises(InputError, match="pass the group codes"):
        small.posteriors(np.zeros((2, 3)))
    with pytest.raises(InputError, match="the code 5"):
        small.posteriors(np.zeros((2, 3)), np.array([0, 5]))
    with pytest.raises(InputError, match="'draw' or 'score'"):
        SeparationObjective([0, 1], sensitive_features=[0, 1], trade_off=0.1, level="both")
    with pytest.raises(InputError, match=r"λ in \[0, 1\], got 2"):
        SeparationObjective([0, 1], sensitive_features=[0, 1], trade_off=2)
    make = {"sensitive_features": [0, 1], "trade_off": 0.1}
    with pytest.raises(InputError, match="`learning_rate` positive"):
        SeparationObjective([0, 1], learning_rate=[0.1, 0.0], **make)
    with pytest.raises(InputError, match="Train on the rows"):
        SeparationObjective([0, 1], sensitive_features=[0, 1], trade_off=0.1)(np.zeros(3))
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.delitem(sys.modules, "separatrix.methods.cmi_boosting")
    with pytest.raises(MissingExtraError, match=r"pip install 'separatrix\[boosting\]'"):
        methods.get("cmi_boosting")


def test_lightgbm_without_openmp_is_one_sentence(monkeypatch):
    def no_openmp(name):
        raise OSError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(methods, "import_module", no_openmp)
    with pytest.raises(MissingExtraError, match=r"library of the system: libgomp\.so\.1"):
        methods.get("cmi_boosting")
