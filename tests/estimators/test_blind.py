"""Blind estimators: the group is needed to fit, and never read to predict."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import separatrix as sx
from separatrix.crossfit.base_models import JointModel
from separatrix.crossfit.out_of_fold import cross_fit
from separatrix.errors import InputError


def draw(n=1_500, seed=0):
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, 2, (2, n))
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.5 * y + z
    X[:, 1] += 1.5 * z
    return X, y, np.array(["f", "m"])[z]


class Untouchable:
    """A sensitive column that fails when anything is done with it."""

    def __getattr__(self, name):
        raise AssertionError(f"the sensitive column was read: {name}")

    def __len__(self):
        raise AssertionError("the sensitive column was read")

    def __iter__(self):
        raise AssertionError("the sensitive column was read")


@pytest.fixture(scope="module")
def classifier():
    X, y, z = draw()
    model = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.05, blind=True, cv=3)
    return model.fit(X, y, sensitive_features=z)


@pytest.fixture(scope="module")
def scorer():
    X, y, z = draw(800)
    return sx.SeparatedScorer(LogisticRegression(), penalty=1.0, blind=True).fit(X, y, sensitive_features=z)


def test_decisions_do_not_change_with_the_sensitive_column_and_it_is_never_read(classifier):
    X, _, z = draw(400, 1)
    alone = classifier.predict_proba(X)
    for column in (z, z[::-1], np.full(400, "nobody"), Untouchable()):
        np.testing.assert_array_equal(classifier.predict_proba(X, column), alone)
        decided = classifier.predict(X, column, random_state=3)
        np.testing.assert_array_equal(decided, classifier.predict(X, random_state=3))


@pytest.mark.slow
def test_scores_do_not_change_with_the_sensitive_column_and_it_is_never_read(scorer):
    X, _, z = draw(400, 1)
    alone = scorer.decision_function(X)
    for column in (z, z[::-1], Untouchable()):
        np.testing.assert_array_equal(scorer.decision_function(X, column), alone)
    np.testing.assert_array_equal(scorer.decision_function(X, random_state=5), alone)  # no coin
    assert ((alone >= 0) & (alone <= 1)).all()
    with pytest.raises(InputError, match="not drawn from levels"):
        scorer.level_proba(X, z)


def test_the_budget_is_kept_on_unseen_rows_and_the_plain_classifier_breaks_it(classifier):
    X, y, z = draw(20_000, 2)
    found = sx.audit(y, classifier.predict_proba(X), sensitive_features=z)
    plain = LogisticRegression().fit(*draw()[:2]).predict(X)
    assert found.eo_gap < 0.09
    assert sx.audit(y, plain, sensitive_features=z).eo_gap > 0.12
    assert found.accuracy > 0.65


def test_a_group_unseen_at_fit_is_decided_and_scores_are_the_joint_law(classifier):
    assert classifier.scores_.shape == (1_500, 2, 2)
    np.testing.assert_allclose(classifier.scores_.sum((1, 2)), 1.0)
    assert classifier.predict(draw(5, 3)[0]).shape == (5,)


def test_the_joint_law_survives_missing_cells_and_a_group_of_one_row():
    X, y, z = draw(600)
    code = (z == "m").astype(np.intp)
    y = np.where(code == 1, 0, y)  # the second label never occurs in the second group
    code[0] = 2
    found = cross_fit(LogisticRegression(), X, y, code, "joint", cv=3)
    assert found.scores.shape == (600, 2, 3)
    np.testing.assert_allclose(found.scores.sum((1, 2)), 1.0)
    assert found.model.joint_proba(X).shape == (600, 2, 3)


def test_the_joint_model_learns_the_law_of_known_cells():
    rng = np.random.default_rng(0)
    x, y, z = rng.integers(0, 2, (3, 40_000))
    keep = rng.random(40_000) < np.where((x == 1) & (y == 1), 0.3 + 0.6 * z, 0.5)
    x, y, z = x[keep], y[keep], z[keep]
    model = JointModel().fit(x[:, None].astype(float), y, z)
    table = np.array([[((y == a) & (z == b))[x == 1].mean() for b in (0, 1)] for a in (0, 1)])
    np.testing.assert_allclose(model.joint_proba([[1.0]])[0], table, atol=0.01)


def test_frames_and_q_itself_are_rows_too():
    pandas = pytest.importorskip("pandas")
    X, y, z = draw(400)
    code = (z == "m").astype(np.intp)
    options = {"max_eo_gap": 0.2, "blind": True, "cv": 3}
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = sx.FrontierClassifier(LogisticRegression(), **options).fit(frame, y, z)
    assert model.predict(frame[:3]).shape == (3,)
    q = cross_fit(LogisticRegression(), X, y, code, "joint", cv=3).scores
    given = sx.FrontierClassifier("precomputed", **options).fit(q, y, z)
    assert given.predict_proba(q).shape == (400, 2)
    whole = JointModel(LogisticRegression()).fit(X, y, code)
    prefit = sx.FrontierClassifier(whole, **options | {"cv": "prefit"}).fit(X, y, z)
    assert prefit.predict(X).shape == (400,)
    with pytest.raises(InputError, match="needs a fitted `JointModel`"):
        sx.FrontierClassifier(LogisticRegression(), **options | {"cv": "prefit"}).fit(X, y, z)
