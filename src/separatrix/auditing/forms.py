"""The three forms of input of every audit: arrays, a frame or mapping, and files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from separatrix.columns.features import as_numbers
from separatrix.columns.frames import as_frame, check_roles, given, named_columns
from separatrix.columns.readers import read_table
from separatrix.errors import InputError

__all__ = ["Roles", "roles_of", "whole_columns"]


class Roles(NamedTuple):
    """Names of columns: target, groups, predictions (or one score), and weight if any."""

    target: str
    groups: list[str]
    predictions: list[str]
    weight: str | None


def roles_of(
    data: Any,
    predicted: Any,
    *,
    target: Any,
    prediction: Any,
    sensitive_features: Any,
    sample_weight: Any,
    words: tuple[str, str] = ("y_pred", "prediction"),
) -> Roles | None:
    """The columns that were named of a frame or of files; None for arrays. Mixtures are refused.

    Args:
        data: true outcomes, or the table.
        predicted: predictions as an array.
        target, prediction: names of columns.
        sensitive_features, sample_weight: arrays, or names of columns.
        words: what the caller calls `predicted` and `prediction`.
    """
    array, column = words
    named = target is not None or prediction is not None
    table = isinstance(data, str | Path | Mapping) or _is_frame(data)
    if predicted is not None and not named:
        if isinstance(data, str | Path):
            raise InputError(
                f"{str(data)!r} is a file: name its columns with `target=` and `{column}=` instead "
                f"of `{array}`."
            )
        return None
    if predicted is not None:
        raise InputError(
            f"`{array}` belongs to arrays, `target=` and `{column}=` to a frame or a file. Pass "
            "one or the other."
        )
    if not table:
        said = "`target=` is for a frame or a file" if named else f"`{array}` is missing"
        raise InputError(
            f"{said}, got {type(data).__name__}. Pass arrays (y_true, {array}), or a frame or a "
            f"file with `target=` and `{column}=`."
        )
    for name, value in (("target", target), (column, prediction)):
        if value is None:
            raise InputError(f"`{name}` is missing: name that column of the table.")
    [outcome] = _single(target, "target")
    weight = None if sample_weight is None else _single(sample_weight, "sample_weight")[0]
    groups, predictions = check_roles(outcome, sensitive_features, prediction, weight, column)
    return Roles(outcome, groups, predictions, weight)


def whole_columns(data: Any, roles: Roles) -> dict[str, Any]:
    """All rows of the named columns: outcomes, one prediction, groups by name, and weights."""
    read = partial(read_table, data) if isinstance(data, str | Path) else None
    wanted = given(roles.target, *roles.groups, *roles.predictions, roles.weight)
    columns = named_columns(data, wanted, "frame") if read is None else read(wanted)
    weight = roles.weight
    return {
        "y": columns[roles.target],
        "u": [columns[name] for name in roles.predictions],
        "z": {name: columns[name] for name in roles.groups},
        "w": None if weight is None else as_numbers(columns[weight], weight),
    }


def _single(name: Any, role: str) -> list[str]:
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise InputError(
            f"`{role}` must name one column of the table, got {type(name).__name__} {name!r:.60}."
        )
    return [str(name)]


def _is_frame(data: Any) -> bool:
    return as_frame(data, "data") is not None
