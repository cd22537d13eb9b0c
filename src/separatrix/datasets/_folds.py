"""Cross-validation folds, stratified on (label, group), the same for every method."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.draws import check_seed
from separatrix.columns.groups import as_groups
from separatrix.columns.values import as_levels, check_lengths, encode
from separatrix.errors import InputError

__all__ = ["folds"]


def folds(
    y: ArrayLike,
    z: ArrayLike,
    n_folds: int = 5,
    random_state: int = 0,
    units: ArrayLike | None = None,
) -> NDArray[np.intp]:
    """The fold of each row, stratified on the cells (y, z).

    Rows are shuffled, sorted by cell and dealt out in turn. So the folds' sizes differ by at most
    one, a cell's rows are spread as evenly as whole rows allow, and a cell with at least `n_folds`
    rows is in every fold.

    Args:
        y, z: labels and groups.
        n_folds: how many, at least two.
        random_state: seed of the shuffle; the same seed gives the same folds.
        units: who each row is about: all rows of a unit are in one fold, stratified by the first.

    Returns:
        Integers 0 … n_folds - 1. Fold k tests on `fold == k` and trains on `fold != k`.

    >>> folds(["no", "no", "no", "yes", "yes", "yes"], ["f", "f", "m", "f", "m", "m"], n_folds=2)
    array([1, 0, 1, 0, 0, 1])
    """
    (y_codes, _), (z_codes, groups) = as_levels(y, "y"), as_groups(z, "z")
    n = check_lengths({"y": y_codes, "z": z_codes})
    if units is not None:
        who = encode(units, "units").codes
        check_lengths({"y": y_codes, "units": who})
        _, first, unit = np.unique(who, return_index=True, return_inverse=True)
        return folds(y_codes[first], z_codes[first], n_folds, random_state)[unit]
    if not 2 <= n_folds <= n:
        raise InputError(
            f"`n_folds` must be between 2 and the number of rows ({n:,}), got {n_folds}."
        )
    rng = np.random.default_rng(check_seed(random_state))
    shuffled = rng.permutation(n)
    cell = y_codes.astype(np.intp) * len(groups) + z_codes
    dealt = shuffled[np.argsort(cell[shuffled], kind="stable")]
    fold = np.empty(n, dtype=np.intp)
    fold[dealt] = rng.permutation(n_folds)[np.arange(n) % n_folds]
    return fold
