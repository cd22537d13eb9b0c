"""One column of the caller's data: codes and levels of a categorical one, checked weights, checked
posteriors.

Every complaint about input is made here, once: what was wrong, the value, its row, and what to pass
instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from importlib.util import find_spec
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.errors import InputError, MissingExtraError

__all__ = [
    "MAX_LEVELS",
    "check_lengths",
    "check_levels",
    "check_posteriors",
    "check_weight",
    "code_levels",
    "compact",
    "encode",
    "in_order",
    "is_missing",
    "listed",
    "one_column",
    "posterior_matrix",
    "refuse_missing",
    "tidy",
]

Array = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]
Levels = tuple[Hashable, ...]
MAX_LEVELS = 1_000
_LOOK, _FEW = 4_096, 12  # rows that are looked at first, and how many levels may be few


def encode(values: Any, name: str) -> tuple[Codes, Levels]:
    """Integer codes and their levels in sorted order; small non-negative integers are their own
    codes, at one pass.

    The levels of an integer column may include some that do not occur: `compact` drops them.
    """
    x = one_column(values, name)
    if x.dtype.kind == "b":
        return x.view(np.uint8), code_levels(x, 2)
    if x.dtype.kind in "iu":
        bits = (
            int(np.bitwise_or.reduce(x)) if x.size else 0
        )  # below 256 exactly if every value is in 0 … 255
        if 0 <= bits < 256:
            return x, code_levels(x, bits + 1)
        low, high = int(x.min()), int(x.max())
        if high - low < 65_536:
            return (x - low).astype(np.uint16), tuple(range(low, high + 1))
    if x.dtype.kind == "O":
        return _encode_objects(x, name)
    codes, values_seen = _encode_sortable(x)
    return codes, tuple(values_seen.tolist())


def code_levels(column: NDArray[Any], count: int) -> Levels:
    """What the codes 0, 1, … of a column of small integers or booleans stand for."""
    return tuple(map(bool, range(count))) if column.dtype.kind == "b" else tuple(range(count))


def compact(values: Any, name: str) -> tuple[Codes, Levels]:
    """`encode`, with only the levels that occur."""
    codes, levels = encode(values, name)
    seen = np.bincount(codes, minlength=len(levels)) > 0
    if seen.all():
        return codes, levels
    renumber = np.cumsum(seen) - 1
    return renumber[codes], tuple(level for level, here in zip(levels, seen, strict=True) if here)


def tidy(columns: dict[str, list[Any]]) -> Any:
    """A dataframe of the first library at hand: pandas, polars or pyarrow."""
    for backend in ("pandas", "polars", "pyarrow"):
        if find_spec(backend):
            return nw.from_dict(columns, backend=backend).to_native()
    raise MissingExtraError(
        "Frames need pandas, polars or pyarrow: pip install 'separatrix[engines]'. `to_dict()` "
        "needs none."
    )


def check_levels(levels: Sequence[Hashable], name: str) -> None:
    """Refuse a column with more levels than a table can hold, most often an identifier."""
    if len(levels) > MAX_LEVELS:
        raise InputError(
            f"`{name}` has {len(levels):,} distinct values (such as {levels[0]!r}, "
            f"{levels[1]!r}); at most "
            f"{MAX_LEVELS:,} make sense here. Is it an identifier or a score? Pass a categorical "
            f"column, or bin it."
        )


def check_lengths(columns: dict[str, NDArray[Any]]) -> int:
    """The common number of rows, at least one."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"`{name}` {length:,}" for name, length in lengths.items())
        raise InputError(f"All columns need the same number of rows, got {listed}.")
    n = next(iter(lengths.values()))
    if n == 0:
        raise InputError(
            f"There are no rows: {', '.join(f'`{name}`' for name in lengths)} are empty."
        )
    return n


def check_weight(sample_weight: ArrayLike, n: int) -> Array:
    """Weights as float64: finite, not negative, not all zero."""
    try:
        w = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"`sample_weight` must be numbers, got {type(sample_weight).__name__}: {error}."
        ) from error
    if w.shape != (n,):
        raise InputError(
            f"`sample_weight` must have one value per row, shape ({n},), got shape {w.shape}."
        )
    bad = ~np.isfinite(w) | (w < 0)
    if bad.any():
        raise InputError(
            f"`sample_weight` must be finite and not negative, got {w[bad][0]} in row {_rows(bad)}."
        )
    if not 0 < w.sum() < np.inf:
        raise InputError(
            "`sample_weight` is zero in every row. Give at least one row a positive weight."
        )
    return w / w.max()  # only ratios matter, and squares of the largest floats overflow


def posterior_matrix(q: Any, name: str) -> NDArray[Any]:
    """Numbers of shape (n, K), n ≥ 1 and K ≥ 2, as they are; `check_posteriors` looks at their
    values.
    """
    try:
        p = np.asarray(q)
        if p.dtype.kind not in "fiub":
            p = p.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"`{name}` must be numbers, one row per person and one column per label: {error}."
        ) from error
    if p.ndim != 2 or p.shape[1] < 2:
        raise InputError(
            f"`{name}` must have one column per label, shape (n, K) with K ≥ 2, got shape "
            f"{p.shape}. "
            "From P(second label) make two columns: np.column_stack([1 - p, p])."
        )
    if not p.size:
        raise InputError(f"There are no rows: `{name}` is empty.")
    return p


def check_posteriors(q: Any, name: str, first: int = 0) -> Array:
    """Posteriors as float64 (n, K): finite, in [0, 1], rows summing to one within 1e-6.

    `first` is the number of the first row, where they are a part of more rows.
    """
    p = posterior_matrix(q, name)
    low, high = p.min(), p.max()
    if not (low >= -1e-6 and high <= 1 + 1e-6):  # also true for NaN
        outside = ~((p >= -1e-6) & (p <= 1 + 1e-6))
        raise InputError(
            f"`{name}` must hold probabilities between 0 and 1, got {p[outside][0]} in row "
            f"{_rows(outside.max(1), first)}. Logits need a softmax first."
        )
    p = np.clip(p, 0.0, 1.0, dtype=np.float64)
    total = p @ np.ones(p.shape[1])  # a sum along so short an axis takes five times as long
    bad = np.abs(total - 1.0) > 1e-6
    if bad.any():
        raise InputError(
            f"Each row of `{name}` must sum to one (within 1e-6), got {total[bad][0]:.7g} in row "
            f"{_rows(bad, first)}. "
            "Divide the rows by their sums if that is what you mean."
        )
    return p / total[:, None]


def one_column(values: Any, name: str) -> NDArray[Any]:
    """A one-dimensional numpy column without missing values."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        refuse_missing(np.ma.getmaskarray(values), name)
    try:
        x = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` cannot be read as one column: {error}.") from error
    if x.ndim == 2 and x.shape[1] == 1:
        x = x[:, 0]
    if x.ndim != 1:
        raise InputError(f"`{name}` must be one column of values, got shape {x.shape}.")
    if x.dtype.kind == "f" and not np.isfinite([x.min(initial=0.0), x.max(initial=0.0)]).all():
        refuse_missing(np.isnan(x), name)
        raise InputError(
            f"`{name}` holds an infinite value in row {_rows(np.isinf(x))}; labels and groups are "
            f"finite."
        )
    if x.dtype.kind in "mM":
        refuse_missing(np.isnat(x), name)
    if x.dtype.kind == "c":
        raise InputError(
            f"`{name}` holds complex numbers such as {x[:1].tolist()}; labels and groups are "
            f"categories."
        )
    return x


def _encode_sortable(x: NDArray[Any]) -> tuple[Codes, NDArray[Any]]:
    """Codes of text, floats and dates. Few levels: one comparison per row and level, many times
    faster than a sort.
    """
    early = np.unique(x[:_LOOK])
    if len(x) <= _LOOK or len(early) > _FEW:
        levels, codes = np.unique(x, return_inverse=True)
        return codes, levels
    codes = np.full(len(x), len(early), dtype=np.uint8)
    for code, level in enumerate(early):
        codes -= (x == level).view(np.uint8) * np.uint8(
            len(early) - code
        )  # faster than an assignment under a mask
    rest = codes == len(early)
    if not rest.any():
        return codes, early
    late, which = np.unique(x[rest], return_inverse=True)  # levels that the first rows did not show
    position = np.empty(len(early) + len(late), dtype=np.intp)
    levels = np.concatenate([early, late])
    order = np.argsort(levels, kind="stable")
    position[order] = np.arange(len(levels))
    wide = codes.astype(np.intp)
    wide[rest] += which
    return position[wide], levels[order]


def _encode_objects(x: NDArray[Any], name: str) -> tuple[Codes, Levels]:
    """Codes of Python objects through a dictionary: one hash per row, and sorting only of the
    distinct values.
    """
    try:
        levels = list(dict.fromkeys(x.tolist()))
    except TypeError as error:
        raise InputError(
            f"`{name}` holds values that cannot be levels ({error}). Pass strings or integers."
        ) from error
    if any(is_missing(level) for level in levels):
        refuse_missing(np.fromiter(map(is_missing, x), dtype=bool, count=len(x)), name)
    levels = in_order(levels)
    position = {level: code for code, level in enumerate(levels)}
    return np.fromiter(map(position.__getitem__, x.tolist()), dtype=np.intp, count=len(x)), tuple(
        levels
    )


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or a library's NA, none of which equals itself."""
    if value is None:
        return True
    same = value == value
    return not (same if isinstance(same, bool | np.bool_) else type(same).__name__ != "NAType")


def refuse_missing(missing: NDArray[np.bool_], name: str) -> None:
    if missing.any():
        count = int(missing.sum())
        raise InputError(
            f"`{name}` has {count:,} missing value{'s' * (count > 1)} (row{'s' * (count > 1)} "
            f"{_rows(missing)}). "
            'Drop those rows or give missing its own level: `column.fillna("missing")`.'
        )


def _rows(bad: NDArray[np.bool_], first: int = 0) -> str:
    rows = np.flatnonzero(bad) + first
    return ", ".join(f"{row:,}" for row in rows[:3]) + (", …" if len(rows) > 3 else "")


def in_order(levels: Sequence[Hashable]) -> list[Hashable]:
    try:
        return sorted(levels)  # type: ignore[type-var]
    except TypeError:  # 1 and "1", say: by type, then by value
        return sorted(levels, key=lambda level: (type(level).__name__, repr(level)))


def listed(levels: Sequence[Hashable]) -> str:
    return ", ".join(repr(level) for level in levels[:5]) + (", …" if len(levels) > 5 else "")
