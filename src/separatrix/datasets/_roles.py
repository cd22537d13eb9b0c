"""The target and the sensitive columns of a user's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.bins import FEW, bin_labels, edges_of, numbers_of
from separatrix.columns.grouping import OTHER, Grouping
from separatrix.columns.groups import intersect
from separatrix.columns.values import Coded, as_levels, listed, row_numbers
from separatrix.errors import InputError

__all__ = ["MissingGroups", "Sensitive", "sensitive_of", "target_of"]

MAX_LABELS = 100
MissingGroups = Literal["drop", "own"] | None


@dataclass(frozen=True, eq=False)
class Sensitive:
    """The groups of the rows that are used.

    Args:
        z: codes and groups, of the used rows.
        grouping: finds them in new rows.
        rows: the used rows; None for all.
        notes: what was done to the columns, one sentence each.
    """

    z: Coded
    grouping: Grouping
    rows: NDArray[np.intp] | None
    notes: tuple[str, ...]


def target_of(values: Any, column: str, positive: Any = None) -> Coded:
    """The labels: 2 to 100 levels; many different numbers are refused.

    Args:
        values, column: of the target.
        positive: which of two labels is the second, the one that decisions are about.
    """
    numbers = numbers_of(values, column)
    if numbers is not None:
        known = numbers[~np.isnan(numbers)]
        distinct = np.unique(known)
        whole = bool((distinct == np.floor(distinct)).all())
        if len(distinct) > (MAX_LABELS if whole else FEW):
            middle = f"{np.median(known):g}"
            raise InputError(
                f"The target column `{column}` holds {len(distinct):,} different numbers: that "
                'looks like regression. Pass target="continuous" (--continuous) to `trace`, or '
                f"make classes of it, for instance whether it is above {middle}."
            )
    coded = _levels(as_levels(values, column), column, "target")
    if positive is None:
        return coded
    if len(coded.levels) != 2:
        raise InputError(
            f"`positive` names one of two labels; the target column `{column}` has "
            f"{len(coded.levels)}: {listed(coded.levels)}. Leave it out."
        )
    last = as_levels([positive], "positive").places(coded.levels, "positive")[0]
    return coded if last else Coded(1 - coded.codes, coded.levels[::-1])


def sensitive_of(
    parts: Mapping[str, Any],
    missing_groups: MissingGroups,
    categorical: Sequence[str],
    min_level_rows: int = 1,
) -> Sensitive:
    """The groups of one or several columns.

    Args:
        parts: the columns by name.
        missing_groups: what becomes of rows without a value.
        categorical: columns of numbers that are codes: they are not put into bins.
        min_level_rows: groups of fewer rows are joined as "(other)".
    """
    if missing_groups not in (None, "drop", "own"):
        raise InputError(f"`missing_groups` must be 'drop' or 'own', got {missing_groups!r}.")
    notes: list[str] = []
    edges = edges_of(parts, categorical)
    for column, own_edges in edges.items():
        bands = bin_labels(own_edges)
        notes.append(
            f"`{column}`: its numbers are put into {len(bands)} groups at quantiles: "
            f"{', '.join(bands)}."
        )
    gone = {column: as_levels(x, column, missing=True).missing for column, x in parts.items()}
    some = any(one.any() for one in gone.values())
    rows = _used(gone, missing_groups, notes) if some else None
    own = some and missing_groups == "own"
    plan = Grouping(tuple(parts), (), edges, missing=some)
    coded = {column: plan.part(values, column) for column, values in parts.items()}
    if rows is not None:
        coded = {column: one[rows].compact() for column, one in coded.items()}
    z = intersect({column: _levels(one, column, "sensitive") for column, one in coded.items()})
    z, grouping = replace(plan, missing=own).merged(z, min_level_rows)
    if grouping.other:
        notes.append(
            f"{', '.join(f'`{c}`' for c in parts)}: groups of fewer than {min_level_rows} rows are "
            f'joined as "{OTHER}".'
        )
    return Sensitive(z, grouping, rows, tuple(notes))


def _used(
    gone: Mapping[str, NDArray[np.bool_]], choice: MissingGroups, notes: list[str]
) -> NDArray[np.intp] | None:
    """The rows that are used, None for all; an error where nobody has chosen."""
    column, missing = next((c, one) for c, one in gone.items() if one.any())
    if choice is None:
        count = int(missing.sum())
        raise InputError(
            f"The sensitive column `{column}` has {count:,} missing value{'s' * (count > 1)} "
            f'(row{"s" * (count > 1)} {row_numbers(missing)}). Pass missing_groups="drop" '
            '(--missing-groups drop) to leave such rows out, or "own" to make them a group.'
        )
    every = np.any(list(gone.values()), axis=0)
    columns = ", ".join(f"`{c}`" for c, one in gone.items() if one.any())
    if choice == "own":
        notes.append(
            f"{columns}: {int(every.sum()):,} rows without a value are a group, (missing)."
        )
        return None
    notes.append(f"{columns}: {int(every.sum()):,} rows without a value are left out.")
    if every.all():
        raise InputError(f"The sensitive column `{column}` has no value in any row.")
    return np.flatnonzero(~every)


def _levels(coded: Coded, column: str, role: str) -> Coded:
    """A target or sensitive column: 2 to 100 levels, of kinds that JSON holds."""
    if odd := [level for level in coded.levels if not isinstance(level, str | int | float)]:
        raise InputError(
            f"The {role} column `{column}` holds {odd[0]!r}. Turn its values into text or numbers."
        )
    if not 2 <= len(coded.levels) <= MAX_LABELS:
        raise InputError(
            f"The {role} column `{column}` has {len(coded.levels):,} levels "
            f"({listed(coded.levels)}); it needs 2 to {MAX_LABELS}. "
            + ("Is it constant?" if len(coded.levels) < 2 else "Join the rare ones.")
        )
    return Coded(coded.codes.astype(np.intp), coded.levels)
