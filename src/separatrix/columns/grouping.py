"""The groups of a trained model, found again in new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.bins import binned
from separatrix.columns.frames import named_columns
from separatrix.columns.groups import (
    as_groups,
    from_plain,
    group_codes,
    group_columns,
    intersect,
    to_plain,
)
from separatrix.columns.values import Coded, Levels, as_levels, refuse_missing
from separatrix.errors import InputError

__all__ = ["MISSING", "OTHER", "Grouping"]

MISSING = "(missing)"  # the group of rows without one, where they have their own
OTHER = "(other)"  # the group of rows whose own has too few rows; then the last one


@dataclass(frozen=True)
class Grouping:
    """The groups of a trained model, found again in new rows by column name; plain JSON on disk.

    Args:
        columns: the sensitive columns.
        groups: the groups in the order of their codes; tuples for several columns.
        edges: inner edges of the columns of numbers that were put into bins.
        missing: whether rows without a value are a group of their own, "(missing)".
        other: whether the last group is "(other)", for rows of any other group.

    >>> grouping = Grouping(("sex", "member"), (("f", False), ("f", True), ("m", True)))
    >>> grouping.codes({"member": [True, True, False], "sex": ["m", "f", "f"]})
    array([2, 1, 0])
    >>> Grouping(("age",), ("below 40", "40 or more"), {"age": (40.0,)}).codes({"age": [17, 40]})
    array([0, 1])
    """

    columns: tuple[str, ...]
    groups: Levels
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    missing: bool = False
    other: bool = False

    @property
    def _otherwise(self) -> int:
        """The place of an unknown group; -1 where it is an error."""
        return len(self.groups) - 1 if self.other else -1

    def merged(self, z: Coded, min_rows: int) -> tuple[Coded, Grouping]:
        """Groups of fewer rows joined as "(other)", and the grouping that finds them again."""
        rare = z.counts() < min_rows
        if not rare.any():
            return z, replace(self, groups=z.levels)
        kept = tuple(level for level, few in zip(z.levels, rare, strict=True) if not few)
        place = np.where(rare, len(kept), np.cumsum(~rare) - 1)
        last = OTHER if len(self.columns) == 1 else (OTHER,) * len(self.columns)
        groups = (*kept, last)
        return Coded(place[z.codes], groups), replace(self, groups=groups, other=True)

    def codes(self, data: Any) -> NDArray[np.intp]:
        """The group's code of each row of a frame or a mapping; an unknown group is an error."""
        return self._codes(named_columns(data, self.columns, "X"))

    def codes_of(self, values: Any, n: int, name: str = "sensitive_features") -> NDArray[np.intp]:
        """The same from the sensitive columns alone, by name or in the order of `columns`."""
        if not self.edges and not self.missing:
            return group_codes(values, self.groups, n, name, self._otherwise)
        given = group_columns(values, name)
        if len(given) == 1 < len(self.columns):  # tuples: groups already
            return group_codes(values, self.groups, n, name, self._otherwise)
        if len(given) != len(self.columns):
            raise InputError(
                f"`{name}` must be the columns {', '.join(self.columns)}, got {len(given)} columns."
            )
        named = set(given) == set(self.columns)
        columns = given if named else dict(zip(self.columns, given.values(), strict=True))
        found = self._codes({own: columns[own] for own in self.columns})
        if len(found) != n:
            raise InputError(f"`{name}` must have one group per row, {n:,}, got {len(found):,}.")
        return found

    def _codes(self, columns: Mapping[str, Any]) -> NDArray[np.intp]:
        name = " & ".join(self.columns)
        if not self.edges and not self.missing:
            return as_groups(columns, name).places(self.groups, name, self._otherwise)
        parts = {own: self.part(values, own) for own, values in columns.items()}
        return intersect(parts).places(self.groups, name, self._otherwise)

    def part(self, values: Any, column: str) -> Coded:
        """One sensitive column as levels: binned, and with missing values as asked."""
        edges = self.edges.get(column)
        if edges is None:
            coded = as_levels(values, column, missing=self.missing)
        else:
            coded = binned(values, edges, column)
        if not coded.missing.any():
            return coded
        if not self.missing:
            refuse_missing(coded.missing, column)
        last = len(coded.levels)
        codes = np.where(coded.missing, last, coded.codes).astype(np.intp)
        return Coded(codes, (*coded.levels, MISSING))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain: dict[str, Any] = {"columns": list(self.columns)}
        plain["groups"] = [to_plain(group) for group in self.groups]
        if self.edges:
            plain["edges"] = {own: list(edges) for own, edges in self.edges.items()}
        return plain | {flag: True for flag in ("missing", "other") if getattr(self, flag)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Grouping:
        """The inverse of `to_dict`, from JSON."""
        edges = {own: tuple(map(float, e)) for own, e in data.get("edges", {}).items()}
        groups = tuple(map(from_plain, data["groups"]))
        flags = (bool(data.get(flag, False)) for flag in ("missing", "other"))
        return cls(tuple(data["columns"]), groups, edges, *flags)
