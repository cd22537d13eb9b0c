"""Which group a raw row belongs to: one sensitive column, or several intersected."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import listed
from separatrix.datasets._columns import as_coded, level_text, raw_columns
from separatrix.errors import InputError

__all__ = ["Grouping"]


@dataclass(frozen=True)
class Grouping:
    """The groups of a trained model, found again in new rows by column name; plain JSON on disk.

    Args:
        columns: the sensitive columns.
        groups: the groups in the order of their codes; of several columns joined like "f & young".

    >>> grouping = Grouping(("sex", "member"), ("f & false", "f & true", "m & true"))
    >>> grouping.codes({"member": [True, True, False], "sex": ["m", "f", "f"]})
    array([2, 1, 0])
    """

    columns: tuple[str, ...]
    groups: tuple[Hashable, ...]

    def codes(self, data: Any) -> NDArray[np.intp]:
        """The group's code of each row of a dataframe or a mapping of columns; an unknown group is
        an error.
        """
        parts = [as_coded(values, name) for name, values in raw_columns(data, self.columns).items()]
        for part, name in zip(parts, self.columns, strict=True):
            if (part.codes < 0).any():
                row = int(np.flatnonzero(part.codes < 0)[0])
                raise InputError(
                    f"The sensitive column `{name}` is missing in row {row:,}. Its group must be "
                    f"known."
                )
        fused, places = intersect(
            [part.codes for part in parts], [len(part.levels) for part in parts]
        )
        names = joined([part.levels for part in parts], places)
        known = {level_text(group): code for code, group in enumerate(self.groups)}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InputError(
                f"The groups {listed(unknown)} of {', '.join(self.columns)} were not in the "
                f"training rows "
                f"({listed(self.groups)}): the model cannot say anything about them."
            )
        return np.array([known[name] for name in names], dtype=np.intp)[fused]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"columns": list(self.columns), "groups": list(self.groups)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Grouping:
        """The inverse of `to_dict`, from JSON."""
        return cls(tuple(data["columns"]), tuple(data["groups"]))


def intersect(
    codes: Sequence[NDArray[Any]], sizes: Sequence[int]
) -> tuple[NDArray[np.intp], tuple[NDArray[np.intp], ...]]:
    """Each row's intersection as a code, and for each code the places in the single columns; only
    what occurs.
    """
    here, fused = np.unique(np.ravel_multi_index(tuple(codes), tuple(sizes)), return_inverse=True)
    return fused.astype(np.intp), np.unravel_index(here, tuple(sizes))


def joined(
    levels: Sequence[Sequence[Hashable]], places: Sequence[NDArray[np.intp]]
) -> tuple[str, ...]:
    """The intersections' names."""
    columns = [
        [level_text(of[place]) for place in where] for of, where in zip(levels, places, strict=True)
    ]
    return tuple(" & ".join(row) for row in zip(*columns, strict=True))
