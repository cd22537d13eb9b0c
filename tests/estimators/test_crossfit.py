"""Scores of rows by models that did not see them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from separatrix import datasets
from separatrix.errors import InputError
from separatrix.estimators.crossfit import cross_fit


class Memory(ClassifierMixin, BaseEstimator):
    """Says 0.9 for rows that it saw in training and 0.1 for others."""

    def fit(self, X, y):
        self.classes_, self.seen_ = np.unique(y), set(np.asarray(X)[:, 0].tolist())
        return self

    def predict_proba(self, X):
        p = np.array([0.9 if x in self.seen_ else 0.1 for x in np.asarray(X)[:, 0]])
        return np.stack([1 - p, p], axis=1)


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n), rng.integers(0, 3, n)
    return np.column_stack([np.arange(n), rng.normal(size=n) + y]), y, z


@pytest.mark.parametrize("ensemble", [1, 3])
def test_no_row_is_scored_by_a_model_that_saw_it(ensemble):
    X, y, z = people()
    found = cross_fit(Memory(), X, y, z, cv=4, ensemble=ensemble)
    np.testing.assert_allclose(found.scores[:, 1], 0.1)
    assert [len(team) for team in found.members] == [ensemble] * 4
    seen = np.mean([s[:, 1] for s in found.posteriors(X)])
    assert seen == pytest.approx(0.75 * 0.9 + 0.25 * 0.1)  # each member saw three rows of four


def test_a_new_row_has_a_score_of_each_member_and_the_deals_are_averaged():
    X, y, z = people()
    found = cross_fit(LogisticRegression(), X[:, 1:], y, z, cv=3, ensemble=2, random_state=5)
    fold = datasets.folds(y, z, 3, 6)  # the second deal
    own = LogisticRegression().fit(X[fold != 1, 1:], y[fold != 1])
    expected = own.predict_proba(X[:9, 1:])
    np.testing.assert_allclose(found.members[1][1].predict_proba(X[:9, 1:]), expected)
    mean = np.mean([m.predict_proba(X[:9, 1:]) for m in found.members[1]], axis=0)
    np.testing.assert_allclose(found.posteriors(X[:9, 1:])[1], mean)


def test_a_fitted_classifier_scores_as_it_is():
    X, y, z = people()
    model = LogisticRegression().fit(X[:100], y[:100])
    for one in (
        cross_fit(model, X[100:], y[100:], z[100:], cv="prefit"),
        cross_fit(FrozenEstimator(model), X[100:], y[100:], z[100:]),
    ):
        np.testing.assert_allclose(one.scores, model.predict_proba(X[100:]))
        assert len(one.posteriors(X[:5])) == 1


def test_probabilities_may_be_one_column_or_two():
    _, y, z = people()
    p = np.random.default_rng(1).random(len(y))
    a = cross_fit("precomputed", p, y, z)
    b = cross_fit("precomputed", np.stack([1 - p, p], 1), y, z)
    np.testing.assert_allclose(a.scores, b.scores)
    np.testing.assert_allclose(a.posteriors(p[:3])[0][:, 1], p[:3])


def test_weights_reach_the_last_step_of_a_pipeline():
    X, y, z = people()
    w = np.where(y == 1, 5.0, 1.0)
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    heavy, light = (cross_fit(pipe, X, y, z, sample_weight=one) for one in (w, None))
    assert heavy.scores[:, 1].mean() > light.scores[:, 1].mean() + 0.1


def test_frames_with_text_need_no_pipeline():
    X, y, z = people()
    frame = pd.DataFrame({"a": X[:, 1], "job": np.array(["cook", "nurse"])[y]})
    found = cross_fit(None, frame, y, z, cv=2)
    assert found.preprocessing is not None
    assert found.scores[y == 1, 1].min() > 0.9
    assert found.posteriors(frame[:4])[0].shape == (4, 2)


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        ("trees", {}, "must be a classifier, None or 'precomputed', got 'trees'"),
        (LogisticRegression(), {"cv": 1}, "at least 2"),
        (LogisticRegression(), {"cv": 200}, "too few for `cv=200`"),
        (
            LogisticRegression(),
            {"ensemble": 0},
            "`ensemble` must be a whole number from 1 on, got 0",
        ),
        (None, {"cv": "prefit"}, "needs a fitted `estimator`"),
        (LinearSVC(), {}, "LinearSVC has no `predict_proba`"),
        ("precomputed", {}, "probabilities"),
        (Memory(), {"sample_weight": np.ones(300)}, "Memory takes no `sample_weight`"),
    ],
)
def test_errors(estimator, options, message):
    X, y, z = people()
    with pytest.raises(InputError, match=message):
        cross_fit(estimator, X, y, z, **options)


def test_a_classifier_of_other_labels_is_refused():
    X, y, z = people()
    model = LogisticRegression().fit(X, np.array(["no", "yes"])[y])
    with pytest.raises(InputError, match="both must be the same"):
        cross_fit(model, X, y, z, cv="prefit")
