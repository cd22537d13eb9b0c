"""Nested cross-fitting: no score is of a model that saw its row, and every role has its score."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix.crossfit.nested import Fit, assemble, fit_piece, plan_fits

FOLD = np.array([0, 1, 2, 3, 0, 1, 2, 3, 1])


def _nested(bases):
    """Models that remember which rows they saw; a score is that set as a bit pattern."""
    X = np.arange(len(FOLD))[:, None]

    def train(rows, places):
        assert (rows[:, 0] == places).all()
        return int((1 << places).sum())

    def score(model, rows):
        return np.full((len(rows), 1), float(model))

    pieces = {fit: fit_piece(fit, X, FOLD, train, score) for fit in plan_fits(bases)}
    return assemble(FOLD, bases, pieces)


def _saw(pattern):
    return {r for r in range(len(FOLD)) if int(pattern) >> r & 1}


@pytest.mark.parametrize("bases", [["a"] * 5, ["a", "b", "a", "a", "b"]])
def test_no_model_scores_a_row_that_it_saw(bases):
    found = _nested(bases)
    for k in found.folds:
        test, tested = found.tested(k)
        train, scores = found.training(k)
        assert set(test) | set(train) == set(range(len(FOLD)))
        for row, pattern in zip(train, scores[:, 0], strict=True):
            own = set(np.flatnonzero((k == FOLD) | (FOLD[row] == FOLD)))
            assert _saw(pattern) == set(range(len(FOLD))) - own
        for pattern in tested[:, 0]:  # M(k): one model, all rows but the fold
            assert _saw(pattern) == set(range(len(FOLD))) - set(test)


def test_what_the_shipped_rule_is_fitted_to_saw_all_rows_but_one_fold():
    found = _nested(["a"] * 5)
    rows, scores = found.training(None)
    for row, pattern in zip(rows, scores[:, 0], strict=True):
        assert _saw(pattern) == set(np.flatnonzero(FOLD[row] != FOLD))


def test_a_base_of_one_fold_alone_is_fitted_for_that_fold_only():
    fits = plan_fits(["a", "b", "a", "a"])
    own = {Fit("b", (0, 1)), Fit("b", (1,)), Fit("b", (1, 2))}
    assert {fit for fit in fits if fit.base == "b"} == own


def test_five_folds_take_sixteen_fits_and_one_of_them_saw_all_rows():
    fits = plan_fits(["a"] * 6)
    assert len(fits) == len(set(fits)) == 16
    assert Fit("a", ()) in fits
