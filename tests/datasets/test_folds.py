"""Cross-validation folds keep the (label, group) cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.datasets import folds
from separatrix.errors import InputError


@given(st.integers(0, 10**6), st.integers(10, 300), st.integers(2, 7), st.integers(1, 5), st.integers(1, 4))
def test_no_fold_loses_a_cell_that_has_enough_rows(seed: int, n: int, k: int, labels: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    y, z = rng.integers(labels, size=n) ** 2, rng.integers(groups, size=n)
    fold = folds(y, z, k, random_state=seed)
    assert np.ptp(np.bincount(fold, minlength=k)) <= 1
    for cell in {*zip(y.tolist(), z.tolist(), strict=True)}:
        of_cell = np.bincount(fold[(y == cell[0]) & (z == cell[1])], minlength=k)
        assert np.ptp(of_cell) <= 1  # as even as whole rows allow; so ≥ 1 in each where there are ≥ k rows


def test_the_seed_decides() -> None:
    y, z = np.arange(100) % 3, np.arange(100) % 2
    assert np.array_equal(folds(y, z, random_state=1), folds(y, z, random_state=1))
    assert not np.array_equal(folds(y, z, random_state=1), folds(y, z, random_state=2))


def test_text_labels_give_the_same_folds_as_their_codes() -> None:
    y, z = np.arange(60) % 3, np.arange(60) % 4
    assert np.array_equal(folds(y, z), folds(np.array(["a", "b", "c"])[y], np.array(["k", "l", "m", "n"])[z]))


def test_rows_of_a_cell_are_shuffled() -> None:
    fold = folds(np.zeros(1000, int), np.zeros(1000, int), 2)
    assert 0.3 < np.mean(fold[:-1] == fold[1:]) < 0.7  # alternating rows would give 0


@pytest.mark.parametrize("k", [1, 0, 7])
def test_an_impossible_number_of_folds_is_refused(k: int) -> None:
    with pytest.raises(InputError, match=f"between 2 and the number of rows .6., got {k}"):
        folds([0, 1] * 3, [0] * 6, k)
