"""Numbers that a caller passed, as float64; whatever is none is refused in one sentence."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError


def as_floats(values: Any, name: str) -> NDArray[np.float64]:
    """An array of any shape; text, complex numbers, masked and ragged ones are refused.

    >>> as_floats([1, 2.5], "x")
    array([1. , 2.5])
    """
    try:
        x = np.asarray(values)
        if np.ma.is_masked(values):
            raise ValueError("some are masked")
        if x.dtype.kind not in "biufO":
            raise TypeError(f"they are {x.dtype}")
        return x.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"`{name}` must be numbers: {error}.") from error


def one_number(value: Any, name: str) -> float:
    """A single number."""
    if isinstance(value, str):
        raise InputError(f"`{name}` must be a number, got {value!r}.")
    x = as_floats(value, name)
    if x.ndim:
        raise InputError(f"`{name}` must be one number, got shape {x.shape}.")
    return float(x)


def not_negative(value: Any, name: str) -> float:
    """A single finite number, zero or more.

    >>> not_negative(0.05, "max_violation")
    0.05
    """
    x = one_number(value, name)
    if not 0.0 <= x < np.inf:
        raise InputError(f"`{name}` must be finite and not negative, got {x}.")
    return x


def whole_number(value: Any, name: str, least: int = 0) -> int:
    """A whole number, not below the least.

    >>> whole_number(3.0, "bins", least=1)
    3
    """
    x = one_number(value, name)
    if not (x >= least and x.is_integer()):
        raise InputError(f"`{name}` must be a whole number from {least} on, got {value!r}.")
    return int(x)


def one_of(value: Any, name: str, *known: Any) -> None:
    """Refuse what is none of the known values.

    >>> one_of("draw", "level", "draw", "score")
    """
    if not isinstance(value, Hashable) or value not in known:
        names = ", ".join(map(repr, known[:-1]))
        raise InputError(f"`{name}` must be {names} or {known[-1]!r}, got {value!r}.")
