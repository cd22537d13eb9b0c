"""A user's own table: which columns are features, which are dropped, and the card about it."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.features import (
    Columns,
    Values,
    as_category,
    date_text,
    looks_like_dates,
    raw_columns,
    raw_values,
    take,
)
from separatrix.columns.frames import check_present, column_names, given, named_columns, names_of
from separatrix.columns.groups import FEW, OTHER, Grouping, bin_labels, edges_of, intersect, numbers_of
from separatrix.columns.readers import read_table
from separatrix.columns.values import Coded, as_levels, check_lengths, encode, listed, row_numbers
from separatrix.core.numbers import one_of, whole_number
from separatrix.datasets._dataset import Card, Data
from separatrix.datasets._preprocessing import Category, Date, Feature, Number, Preprocessing
from separatrix.errors import InputError

MAX_LABELS = 100
MissingGroups = Literal["drop", "own"] | None


def from_frame(
    frame: Any,
    *,
    target: str,
    sensitive: str | Sequence[str],
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    categorical: Sequence[str] = (),
    cap: int = 50,
    min_level_rows: int = 1,
    missing_groups: MissingGroups = None,
    unit: str | None = None,
    positive: Any = None,
    name: str = "frame",
) -> Data:
    """A table with a target and sensitive columns as data for training.

    Numbers are scaled; dates are numbers of days; text, booleans and `categorical` columns are
    one-hot with at most `cap` levels and "(other)"; missing values are a level. Constant columns
    are dropped. Text or integer columns whose values are all distinct (identifiers), free text and
    dates that are not in ISO form are dropped with a warning that names them. A sensitive column
    with more than 12 different numbers is cut at its quartiles. The card says all of this.

    Args:
        frame: a dataframe of any library that narwhals takes, a mapping of columns, or the path of
            a CSV file (plain or .gz; comma, semicolon, tab or bar) or a Parquet file.
        target: the column to predict, 2 to 100 levels. More than 12 numbers that are not whole are
            refused: that is regression.
        sensitive: the column or columns that define the groups; several are intersected. They are
            left out of X.
        drop: columns to leave out.
        keep: columns to use although they look like identifiers or free text.
        categorical: columns whose numbers are codes; also sensitive ones that must not be cut.
        cap: levels of a categorical column that have a feature of their own.
        min_level_rows: levels of a feature or group with fewer rows are joined as "(other)": a
            level that one person has is a person. 1 keeps all.
        missing_groups: rows without a sensitive value: "drop" leaves them out, "own" makes them the
            group "(missing)"; by default they are an error.
        unit: the column that says who a row is about, where one person has several rows: they are
            kept in one fold. It is no feature.
        positive: the label that decisions are about, of two; by default the second.
        name: what the card calls it; a file has its own name.

    >>> rows = {"age": [31, 45, 27, 60], "job": ["cook", "nurse", "cook", None],
    ...         "sex": ["f", "m", "m", "f"], "hired": ["no", "yes", "yes", "no"]}
    >>> data = from_frame(rows, target="hired", sensitive="sex")
    >>> data.features, data.labels, data.groups
    (('age', 'job=cook', 'job=nurse', 'job=(missing)'), ('no', 'yes'), ('f', 'm'))
    """
    owner = "the user's own"
    source, read_from = owner, {}
    if isinstance(frame, str | Path):
        path, source, name = Path(frame), str(frame), Path(frame).name
        frame = read_table(path)
        with path.open("rb") as stream:
            read_from = {source: hashlib.file_digest(stream, "sha256").hexdigest()}
    target, chosen = str(target), names_of(sensitive, "sensitive")
    names = column_names(frame, "frame")
    roles = {"target": [target], "sensitive": chosen, "drop": drop, "unit": given(unit)}
    _check_names(names, roles | {"keep": keep, "categorical": categorical})
    role_of: dict[str, str] = {}
    for role, columns_named in roles.items():
        for column in columns_named:
            if column in role_of:
                raise InputError(f"Column {column!r} is named twice, in `{role_of[column]}` and in `{role}`.")
            role_of[column] = role
    named = named_columns(frame, [name for name in names if name not in set(drop)], "frame")
    if not len(named[target]):
        raise InputError("The table has no rows.")
    check_lengths(named)
    coded = _labels(named.pop(target), target, positive)
    units = None if unit is None else encode(named.pop(unit), unit).codes.astype(np.intp)
    parts = {column: named.pop(column) for column in chosen}
    min_rows = whole_number(min_level_rows, "min_level_rows", least=1)
    z, grouping, rows, notes = _groups(parts, missing_groups, categorical, min_rows)
    columns: Columns = {column: raw_values(values, column) for column, values in named.items()}
    if rows is not None:
        coded = _labels(coded[rows].compact(), target, positive)
        units = None if units is None else units[rows]
        columns = take(columns, rows)
    planned, dropped = _planned(columns, keep, categorical, cap, min_rows)
    used = {column: columns[column] for column in planned.columns}
    fitted = planned.fit(used)
    asked = (f"`{column}`: left out, as you asked." for column in drop)
    notes += _notes(fitted, used)
    card = Card(name, name, source, owner, "", read_from, (*asked, *dropped), tuple(notes))
    return Data(
        coded.codes.astype(np.intp), z.codes.astype(np.intp), coded.levels, z.levels, card,
        columns=used, preprocessing=fitted, target=target, grouping=grouping, units=units,
    )  # fmt: skip


def plan(frame: Any) -> Preprocessing:
    """The features of a table without a target, by the rules of `from_frame`, not yet fitted.

    >>> rows = {"age": [20, 40, 30], "job": ["cook", "nurse", "cook"]}
    >>> plan(rows).fit(rows).transform({"job": ["nurse"], "age": [30]})
    array([[0., 0., 1.]], dtype=float32)
    """
    return _planned(raw_columns(frame, column_names(frame, "frame")))[0]


def _planned(
    columns: Columns, keep: Sequence[str] = (), categorical: Sequence[str] = (), cap: int = 50, min_level_rows: int = 1
) -> tuple[Preprocessing, tuple[str, ...]]:
    """The features of raw columns, and what was left out and why."""
    if cap < 1:
        raise InputError(f"`cap` must be at least 1, got {cap}.")
    features: list[Feature] = []
    dropped, suspicious = [], []
    for column, values in columns.items():
        coded = isinstance(values, Coded) or column in categorical
        checked: Values = as_category(values, column) if coded else values
        wanted = column in keep or column in categorical
        dates = None if column in categorical else looks_like_dates(checked)
        reason = _reason_to_drop(checked, wanted or dates == "iso")
        if dates == "other" and not wanted and reason != "constant":
            reason = "dates that are not in ISO form such as 2024-03-31"
        if reason is not None:
            dropped.append(f"`{column}`: left out, {reason}.")
            suspicious += [f"`{column}` ({reason})"] if reason != "constant" else []
        else:
            category = Category(column, cap=cap, min_rows=min_level_rows)
            number = Date(column) if dates == "iso" else Number(column)
            features.append(category if coded and dates != "iso" else number)
    if suspicious:
        warnings.warn(
            f"Left out of the features: {', '.join(suspicious)}. Pass them in `drop` to confirm or in `keep` to use.",
            UserWarning,
            stacklevel=3,
        )
    if not features:
        raise InputError(f"No feature is left of {', '.join(columns) or 'no columns'}. {' '.join(dropped)}")
    return Preprocessing(tuple(features)), tuple(dropped)


def _check_names(names: Sequence[str], arguments: Mapping[str, Sequence[str]]) -> None:
    for what, wanted in arguments.items():
        if isinstance(wanted, str):
            raise InputError(f"`{what}` must be a list of column names, got the text {wanted!r}. Pass [{wanted!r}].")
        check_present(wanted, names, f"`{what}`: the table")


def _notes(fitted: Preprocessing, columns: Columns) -> list[str]:
    """What a reader must know about how columns became features."""
    notes = []
    for feature in fitted.features:
        if isinstance(feature, Date):
            first = date_text(feature.first)
            notes.append(f"`{feature.column}`: dates are used as days since {first}.")
        elif isinstance(feature, Category) and feature.other:
            distinct = int((as_category(columns[feature.column], feature.column).counts() > 0).sum())
            notes.append(
                f"`{feature.column}`: the {len(feature.levels)} most frequent of its {distinct:,} "
                'levels are used; the others are joined as "(other)".'
            )
    return notes


def _reason_to_drop(values: Values, keep: bool) -> str | None:
    """Why a column is no feature: constant, an identifier, free text; None if it is one."""
    n = len(values)
    if isinstance(values, Coded):
        counts = values.counts()
        distinct, known = int((counts > 0).sum()), int(counts.sum())
        identifier = distinct == known and distinct > 2
    elif values.dtype.kind == "M":
        return "constant" if len(np.unique(values)) <= 1 else None
    else:
        numbers = values[~np.isnan(values)]
        distinct, known = len(np.unique(numbers)), len(numbers)
        # few integers are distinct by chance
        identifier = distinct == known >= 100 and bool((numbers == np.floor(numbers)).all())
    if distinct + (known < n) <= 1:
        return "constant"
    if identifier and not keep:
        return "an identifier: all values are distinct"
    if keep or not isinstance(values, Coded):
        return None
    words = np.mean([str(level).count(" ") for level in values.levels[:500]])
    return "free text" if distinct > n / 2 and distinct > 20 and words >= 3 else None


def _labels(values: Any, column: str, positive: Any = None) -> Coded:
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
                f"The target column `{column}` holds {len(distinct):,} different numbers: that looks like regression. "
                f'Pass task="regression" (--regression) to `trace`, or make classes of it, such as above {middle}.'
            )
    coded = _checked_levels(as_levels(values, column), column, "target")
    if positive is None:
        return coded
    if len(coded.levels) != 2:
        raise InputError(f"`positive` is for two labels; `{column}` has {len(coded.levels)}: {listed(coded.levels)}.")
    last = as_levels([positive], "positive").places(coded.levels, "positive")[0]
    return coded if last else Coded(1 - coded.codes, coded.levels[::-1])


def _groups(
    parts: Mapping[str, Any], missing_groups: MissingGroups, categorical: Sequence[str], min_level_rows: int
) -> tuple[Coded, Grouping, NDArray[np.intp] | None, list[str]]:
    """The groups of one or several columns.

    Args:
        parts: the columns by name.
        missing_groups: what becomes of rows without a value.
        categorical: columns of numbers that are codes: they are not put into bins.
        min_level_rows: groups of fewer rows are joined as "(other)".

    Returns:
        Codes and groups of the rows that are used, the grouping that finds them in new rows, these
        rows (None for all), and what was done to the columns, one sentence each.
    """
    one_of(missing_groups, "missing_groups", None, "drop", "own")
    notes: list[str] = []
    edges = edges_of(parts, categorical)
    for column, own_edges in edges.items():
        bands = bin_labels(own_edges)
        notes.append(f"`{column}`: its numbers are put into {len(bands)} groups at quantiles: {', '.join(bands)}.")
    missing = {column: as_levels(x, column, missing=True).missing for column, x in parts.items()}
    missing = {column: rows for column, rows in missing.items() if rows.any()}
    rows = _rows_with_groups(missing, missing_groups, notes) if missing else None
    plan = Grouping(tuple(parts), (), edges, missing=bool(missing))
    coded = {column: plan.part(values, column) for column, values in parts.items()}
    if rows is not None:
        coded = {column: x[rows].compact() for column, x in coded.items()}
    checked = {column: _checked_levels(x, column, "sensitive") for column, x in coded.items()}
    own_group = bool(missing) and missing_groups == "own"
    z, grouping = replace(plan, missing=own_group).merged(intersect(checked), min_level_rows)
    if grouping.other:
        notes.append(
            f'{", ".join(f"`{c}`" for c in parts)}: groups of fewer than {min_level_rows} rows are joined as "{OTHER}".'
        )
    return z, grouping, rows, notes


def _rows_with_groups(
    missing: Mapping[str, NDArray[np.bool_]], choice: MissingGroups, notes: list[str]
) -> NDArray[np.intp] | None:
    """The rows that are used, None for all; an error where nobody has chosen."""
    column, gone = next(iter(missing.items()))
    if choice is None:
        count = int(gone.sum())
        values = f"{count:,} missing value{'s' * (count > 1)} (row{'s' * (count > 1)} {row_numbers(gone)})"
        raise InputError(
            f'The sensitive column `{column}` has {values}. Pass missing_groups="drop" (--missing-groups drop) to '
            'leave them out, or "own" to make them a group.'
        )
    every = np.any(list(missing.values()), axis=0)
    if every.all() and choice == "drop":
        raise InputError(f"The sensitive column `{column}` has no value in any row.")
    fate = "left out." if choice == "drop" else "a group, (missing)."
    names = ", ".join(f"`{c}`" for c in missing)
    notes.append(f"{names}: {int(every.sum()):,} rows without a value are {fate}")
    return np.flatnonzero(~every) if choice == "drop" else None


def _checked_levels(coded: Coded, column: str, role: str) -> Coded:
    """A target or sensitive column: 2 to 100 levels, of kinds that JSON holds."""
    if odd := [level for level in coded.levels if not isinstance(level, str | int | float)]:
        raise InputError(f"The {role} column `{column}` holds {odd[0]!r}. Turn its values into text or numbers.")
    if not 2 <= len(coded.levels) <= MAX_LABELS:
        few = "Is it constant?" if len(coded.levels) < 2 else "Join the rare ones."
        levels = f"{len(coded.levels):,} levels ({listed(coded.levels)})"
        raise InputError(f"The {role} column `{column}` has {levels}; it needs 2 to {MAX_LABELS}. {few}")
    return Coded(coded.codes.astype(np.intp), coded.levels)
