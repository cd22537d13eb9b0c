"""ACS occupation, small: twenty occupations, nine race groups, 2,576 rows.

As many rows as the paper's complete cases have, but other rows: the paper does not list the columns
whose complete cases it takes, so this is a draw of the same size. Few rows for 180 (label, group)
cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from separatrix.datasets import _acs
from separatrix.datasets._dataset import Data
from separatrix.errors import InputError

_NAME = "acs_occupation"
_AT_LEAST = 5  # rows of every group


def load(
    *, columns: _acs.Kind = "income", states: str | Sequence[str] | None = None, n: int = 2_576, random_state: int = 0
) -> Data:
    """A small sample of complete rows.

    Args:
        columns: "income": AGEP, COW, SCHL, MAR, RELP, SEX, WKHP, POBP as 55 dummies. "employment":
            the columns of folktables' ACSEmployment, all complete rows (few, all aged 17).
        states: read the Census files of these states ("vt", …, or "us" for all, also as the text
            "vt,wy"); those not here are downloaded.
        n: how many rows of "income" to draw; every group keeps at least five.
        random_state: seed of the draw.
    """
    records = _acs.records(columns, states)
    complete = np.flatnonzero(np.all([~np.isnan(x) for x in records.columns.values()], axis=0))
    missing = f"{len(records) - len(complete):,} rows with a missing value."
    if columns == "employment":
        if not len(complete):
            raise InputError("No complete row of the employment columns in these files. Pass more `states`.")
        ages = np.unique(records.columns["AGEP"][complete]).astype(int)
        aged = " to ".join(map(str, sorted({ages[0], ages[-1]})))
        note = (
            "ESP is recorded only for children who live with their parents, so the "
            f"{len(complete):,} complete rows are all of working people aged {aged}."
        )
        return records.data(DATASET, _NAME, complete, (missing,), (note,))
    rows = complete[_draw(records.columns["RAC1P"][complete], n, random_state)]
    drawn = f"{len(complete) - len(rows):,} complete rows by the draw of {n:,} (seed {random_state})."
    note = f"Every group keeps {_AT_LEAST} rows or more: small ones are over-represented."
    return records.data(DATASET, _NAME, rows, (missing, drawn), (note,))


def _draw(race: NDArray[np.float64], n: int, random_state: int) -> NDArray[np.intp]:
    """`n` random rows, in their old order, with at least five (or all) of each group."""
    groups = np.unique(race)
    if not len(groups) * _AT_LEAST <= n <= len(race):
        least = len(groups) * _AT_LEAST
        raise InputError(f"`n` must be between {least:,} ({_AT_LEAST} a group) and {len(race):,} (all), got {n:,}.")
    shuffled = np.random.default_rng(random_state).permutation(len(race))
    first = np.concatenate([shuffled[race[shuffled] == group][:_AT_LEAST] for group in groups])
    rest = shuffled[~np.isin(shuffled, first)]
    return np.sort(np.concatenate([first, rest[: n - len(first)]]))


DATASET = _acs.declare("ACS occupation, complete cases", 2_576, load)
