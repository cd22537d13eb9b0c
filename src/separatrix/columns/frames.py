"""Tables with named columns: frames of any library, mappings; names are always text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
from narwhals.exceptions import NarwhalsError

from separatrix.core.counts import suggestion
from separatrix.errors import InputError, MissingExtraError

_SHOWN = 20  # names of columns in an error
Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]


def as_frame(values: Any, name: str) -> Frame | None:
    """A frame of any library with text for names (0 becomes "0"); None if it is no frame."""
    if nw.dependencies.is_pandas_dataframe(values):
        names = [str(column) for column in values.columns]
        if repeated := [column for i, column in enumerate(names) if column in names[:i]]:
            raise InputError(f"`{name}` has two columns of the name {repeated[0]!r}. Rename one of them.")
        if any(not isinstance(column, str) for column in values.columns):
            values = values.set_axis(names, axis=1)
    try:
        known = nw.from_native(values, pass_through=True)
    except NarwhalsError as error:
        raise InputError(f"`{name}` cannot be read as a table: {error}.") from error
    return known if isinstance(known, nw.DataFrame | nw.LazyFrame) else None


def column_names(data: Any, name: str) -> list[str]:
    """The names of the columns of a frame or a mapping."""
    if isinstance(data, Mapping):
        return [str(column) for column in data]
    frame = as_frame(data, name)
    if frame is None:
        kind = type(data).__name__
        raise InputError(
            f"`{name}` must be a dataframe or a mapping of column name to values, got {kind}: its columns are found by "
            "name, so an array will not do."
        )
    return list(frame.collect_schema().names())


def named_columns(data: Any, names: Sequence[str], name: str) -> dict[str, Any]:
    """These columns of a frame (as narwhals series) or of a mapping (as they are)."""
    check_present(names, column_names(data, name), name)
    if isinstance(data, Mapping):
        by_text = {str(column): values for column, values in data.items()}
        for column in names:
            values = by_text[column]
            single = isinstance(values, str | bytes) or not hasattr(values, "__len__")
            if single or getattr(values, "shape", None) == ():
                kind = type(values).__name__
                raise InputError(f"Column {column!r} of `{name}` must be a list, an array or a series, got {kind}.")
        return {column: by_text[column] for column in names}
    frame = as_frame(data, name)
    assert frame is not None
    frame = frame.select(list(names))
    table = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return {column: table[column] for column in names}


def names_of(names: Any, role: str) -> list[str]:
    """The columns that a caller named for a role: one or several, 0 for a column called 0.

    >>> names_of("sex", "z"), names_of(["sex", 1], "z")
    (['sex'], ['sex', '1'])
    """
    if isinstance(names, str | int) and not isinstance(names, bool):
        return [str(names)]
    several = names if isinstance(names, list | tuple) else ()
    if not several or not all(isinstance(name, str | int) for name in several):
        raise InputError(f"`{role}` must name at least one column, by text, got {names!r}.")
    return [str(name) for name in several]


def given(*names: str | None) -> list[str]:
    """The names that were given; None stands for a column that there is not.

    >>> given("y", "sex", None)
    ['y', 'sex']
    """
    return [name for name in names if name is not None]


class Roles(NamedTuple):
    """Names of columns: target, groups, predictions (or scores), and weight if any."""

    target: str
    groups: list[str]
    predictions: list[str]
    weight: str | None

    @classmethod
    def named(cls, target: Any, groups: Any, predictions: Any, weight: Any, word: str = "prediction") -> Roles:
        """As a caller named them; no column stands for two things."""
        z, u = names_of(groups, "sensitive_features"), names_of(predictions, word)
        roles = cls(str(target), z, u, None if weight is None else str(weight))
        for place, column in enumerate(roles.columns):
            if column in roles.columns[:place]:
                raise InputError(f"Column {column!r} stands for two things at once. Name a column for each of them.")
        return roles

    @property
    def columns(self) -> list[str]:
        """All of them."""
        return given(self.target, *self.groups, *self.predictions, self.weight)

    @property
    def only(self) -> str:
        """The one column of predictions; several are refused."""
        if len(self.predictions) != 1:
            raise InputError(f"`prediction` must name one column of numbers, got {', '.join(self.predictions)}.")
        return self.predictions[0]

    @property
    def words(self) -> tuple[str, str, str]:
        """What target, groups and predictions are called in an error."""
        return self.target, " & ".join(self.groups), ", ".join(self.predictions)


def named_roles(
    data: Any, predicted: Any, target: Any, prediction: Any, groups: Any, weight: Any, *,
    array: str = "y_pred", word: str = "prediction",
) -> Roles | None:  # fmt: skip
    """The columns that were named of a frame or of files; None for arrays. Mixtures are refused.

    Args:
        data: true outcomes, or the table.
        predicted: predictions as an array; the caller calls them `array`.
        target, prediction: names of columns; the caller calls the second `word`.
        groups, weight: arrays, or names of columns.
    """
    named = target is not None or prediction is not None
    options = f"`target=` and `{word}=`"
    if predicted is not None:
        if named:
            raise InputError(f"`{array}` belongs to arrays, {options} to a frame or a file. Pass one or the other.")
        if isinstance(data, str | Path):
            raise InputError(f"{str(data)!r} is a file: name its columns with {options} instead of `{array}`.")
        return None
    if not (isinstance(data, str | Path | Mapping) or as_frame(data, "data") is not None):
        said = "`target=` is for a frame or a file" if named else f"`{array}` is missing"
        raise InputError(
            f"{said}, got {type(data).__name__}. Pass arrays (y_true, {array}), or a frame or a file with {options}."
        )
    for name, value in (("target", target), (word, prediction)):
        if value is None:
            raise InputError(f"`{name}` is missing: name that column of the table with {options}.")
    weight_column = None if weight is None else _single(weight, "sample_weight")
    return Roles.named(_single(target, "target"), groups, prediction, weight_column, word)


def _single(name: Any, role: str) -> str:
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise InputError(f"`{role}` must name one column of the table, got {type(name).__name__} {name!r:.60}.")
    return str(name)


def check_present(wanted: Sequence[str], present: Sequence[str], name: str) -> None:
    """Refuse names that are not there, with those that come close."""
    for column in wanted:
        if column not in present:
            more = f" and {len(present) - _SHOWN} more" if len(present) > _SHOWN else ""
            there = f"There are {', '.join(map(repr, present[:_SHOWN]))}{more}."
            raise InputError(f"{name} has no column {column!r}. {suggestion(column, present) or there}")


def tidy(columns: dict[str, list[Any]]) -> Any:
    """A dataframe of the first library that is installed: pandas, polars or pyarrow."""
    for backend in ("pandas", "polars", "pyarrow"):
        if find_spec(backend):
            return nw.from_dict(columns, backend=backend).to_native()
    raise MissingExtraError(
        "Frames need pandas, polars or pyarrow: pip install 'separatrix[engines]'. `to_dict()` needs none."
    )
