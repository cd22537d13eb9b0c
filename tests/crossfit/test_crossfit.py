"""Scores of rows by models that did not see them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from separatrix import datasets
from separatrix.crossfit.out_of_fold import cross_fit
from separatrix.errors import InputError


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


class Counting(LogisticRegression):
    """Counts its fits."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        Counting.fits += 1
        return super().fit(X, y, sample_weight)


def test_no_row_is_scored_by_a_model_that_saw_it_and_one_model_ships():
    X, y, z = people()
    found = cross_fit(Memory(), X, y, z, cv=4)
    np.testing.assert_allclose(found.scores[:, 1], 0.1)
    np.testing.assert_allclose(found.model.predict_proba(X)[:, 1], 0.9)  # the refit saw all rows


def test_cv_plus_one_fits():
    X, y, z = people()
    Counting.fits = 0
    found = cross_fit(Counting(), X[:, 1:], y, z, cv=3, random_state=5)
    assert Counting.fits == 4
    whole = LogisticRegression().fit(X[:, 1:], y)
    np.testing.assert_allclose(found.model.predict_proba(X[:9, 1:]), whole.predict_proba(X[:9, 1:]))
    fold = datasets.folds(y, z, 3, 5)
    own = LogisticRegression().fit(X[fold != 1, 1:], y[fold != 1])
    np.testing.assert_allclose(found.scores[fold == 1], own.predict_proba(X[fold == 1, 1:]), atol=1e-9)


@pytest.mark.parametrize("cv", [KFold(3), GroupKFold(4), "list"])
def test_splitters_and_iterables(cv):
    X, y, z = people()
    groups = np.arange(300) // 5 if isinstance(cv, GroupKFold) else None
    own = list(KFold(3).split(X)) if cv == "list" else cv
    found = cross_fit(Memory(), X, y, z, cv=own, groups=groups)
    np.testing.assert_allclose(found.scores[:, 1], 0.1)


@pytest.mark.slow
def test_jobs_and_seeds_give_the_same_scores():
    X, y, z = people()
    one = cross_fit(LogisticRegression(), X, y, z, cv=2, random_state=np.random.RandomState(3))
    two = cross_fit(LogisticRegression(), X, y, z, cv=2, random_state=np.random.RandomState(3), n_jobs=2)
    np.testing.assert_array_equal(one.scores, two.scores)
    a, b = (cross_fit(LogisticRegression(), X, y, z, cv=2, random_state=None) for _ in range(2))
    assert (a.scores != b.scores).any()


def test_a_fitted_classifier_scores_as_it_is():
    X, y, z = people()
    model = LogisticRegression().fit(X[:100], y[:100])
    for one in (
        cross_fit(model, X[100:], y[100:], z[100:], cv="prefit"),
        cross_fit(FrozenEstimator(model), X[100:], y[100:], z[100:]),
    ):
        np.testing.assert_allclose(one.scores, model.predict_proba(X[100:]))
        assert one.model.predict_proba(X[:5]).shape == (5, 2)


def test_probabilities_may_be_one_column_or_two():
    _, y, z = people()
    p = np.random.default_rng(1).random(len(y))
    a = cross_fit("precomputed", p, y, z)
    b = cross_fit("precomputed", np.stack([1 - p, p], 1), y, z)
    np.testing.assert_allclose(a.scores, b.scores)
    assert a.model is b.model is None


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
    assert found.model.predict_proba(found.preprocessing.transform(frame[:4])).shape == (4, 2)


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        ("trees", {}, "must be a classifier, None or 'precomputed', got 'trees'"),
        (LogisticRegression(), {"cv": 1}, "at least 2"),
        (LogisticRegression(), {"cv": 200}, "too few for `cv=200`"),
        (LogisticRegression(), {"cv": "five"}, "got 'five'"),
        (LogisticRegression(), {"cv": [([0, 1], [2])]}, "exactly one split"),
        (LogisticRegression(), {"random_state": "x"}, "'x'"),
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
