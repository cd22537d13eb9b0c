"""The choice of a base model: every outer fold by its training rows alone."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix import datasets
from separatrix.crossfit import nested as base_choice
from separatrix.crossfit.base_models import base_model_named
from separatrix.crossfit.nested import Fit, choose_bases
from separatrix.errors import InputError


def people(n, seed=0):
    """A number and a category of four levels; the label follows both, in a straight line."""
    rng = np.random.default_rng(seed)
    z, job, x = rng.integers(0, 2, n), rng.integers(0, 4, n), rng.normal(size=n)
    y = (x + (job == 2) - 0.5 * z + 0.3 * rng.logistic(size=n) > 0.2).astype(int)
    X = np.hstack([np.eye(2)[z], x[:, None], np.eye(4)[job]]).astype(np.float32)
    return X, y, z, datasets.folds(y, z, 5, 0)


@pytest.mark.slow
def test_the_choice_is_the_smallest_loss_and_repeats():
    X, y, z, fold = people(500)
    rng = np.random.default_rng(2)
    y = (X @ [0, 1, 1, 0, 0, 0, 0] + rng.logistic(size=500) > 0.5).astype(int)
    linear = choose_bases(X, y, z, fold)
    assert linear.names[-1] == "logistic" == min(linear.log_loss, key=linear.log_loss.get)
    assert linear.log_loss == choose_bases(X, y, z, fold).log_loss
    X = rng.normal(size=(500, 3)).astype(np.float32)
    curved = choose_bases(X, (X[:, 0] * X[:, 1] > 0).astype(int), z, fold)
    assert curved.names == ("trees",) * 6
    assert str(curved).startswith("Base model: boosted trees (log-loss 0.")
    assert "; logistic regression 0." in str(curved)
    one = choose_bases(X, y, z, fold, candidates=["sklearn.naive_bayes:GaussianNB"])
    assert str(one).startswith("Base model: sklearn.naive_bayes:GaussianNB (log-loss")
    with pytest.raises(InputError, match="empty"):
        choose_bases(X, y, z, fold, candidates=[])


def test_an_outer_fold_does_not_see_its_own_rows():
    """Other labels in fold i change what every outer fold judges by, except that of fold i."""
    X, y, _, fold = people(300)
    other = np.where(fold == 2, 1 - y, y)
    losses = []
    for labels in (y, other):
        pieces = base_choice._pairs("logistic", X, labels, fold, 2)
        losses.append(base_choice._losses(pieces, labels, fold))
    same = np.isclose(losses[0].sum(1), losses[1].sum(1))
    np.testing.assert_array_equal(same, np.arange(5) == 2)


def test_the_loss_of_every_pair_is_that_of_a_model_that_saw_neither_fold():
    X, y, _, fold = people(300)
    loss = base_choice._losses(base_choice._pairs("logistic", X, y, fold, 2), y, fold)
    seen, test = (fold != 1) & (fold != 3), fold == 3
    q = base_model_named("logistic").fit(X[seen], y[seen]).predict_proba(X[test])
    np.testing.assert_allclose(loss[1, 3], -np.log(q[np.arange(test.sum()), y[test]]).sum())


def test_what_was_fitted_on_the_way_is_what_a_fold_needs():
    X, y, z, fold = people(400)
    chosen = choose_bases(X, y, z, fold, candidates=["logistic"])
    assert len(chosen.pieces) == 10
    scores, model = chosen.pieces[Fit("logistic", (0, 4))]
    np.testing.assert_allclose(scores, model.predict_proba(X[np.isin(fold, (0, 4))]))


def test_the_loss_is_that_of_unseen_rows():
    """On labels that are coin flips no candidate is better than log 2."""
    rng = np.random.default_rng(3)
    X, y, z = rng.normal(size=(400, 5)), rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    found = choose_bases(X, y, z, datasets.folds(y, z, 5, 0))
    assert min(found.log_loss.values()) > np.log(2) - 0.01


def test_a_label_of_one_row_and_a_group_of_one_row():
    X, y, z, fold = people(120)
    y[0], z[1] = 2, 2
    found = choose_bases(X, y, z, fold)
    assert all(np.isfinite(list(found.log_loss.values())))


def test_without_torch_the_network_is_not_tried(monkeypatch):
    X, y, z, fold = people(1_600)
    monkeypatch.setattr(base_choice, "find_spec", lambda name: None)
    assert set(choose_bases(X, y, z, fold).log_loss) == {"trees", "logistic"}


@pytest.mark.nightly
def test_the_network_is_tried_on_larger_tables():
    pytest.importorskip("torch")
    found = choose_bases(*people(3_000))
    assert set(found.log_loss) == {"trees", "logistic", "network"}
    assert found.log_loss["network"] < found.log_loss["trees"] + 0.05


def test_a_sample_keeps_the_shares():
    rng = np.random.default_rng(0)
    y, z = (rng.random(20_000) < 0.1).astype(int), rng.integers(0, 3, 20_000)
    rows = base_choice._sample(y, z, 0)
    assert len(rows) == 6_000
    assert abs(y[rows].mean() - y.mean()) < 1e-3
