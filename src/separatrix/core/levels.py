"""The names that an axis of a table stands for: ordered, listed, united. No dtypes in here."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from separatrix.errors import InputError

__all__ = ["Levels", "check_axis", "in_order", "listed", "union"]

Levels = tuple[Hashable, ...]


def check_axis(levels: object, name: str) -> None:
    """Refuse an axis that is not a tuple of different names."""
    good = isinstance(levels, tuple)
    try:
        good = isinstance(levels, tuple) and len(set(levels)) == len(levels)
    except TypeError:  # a list among them
        good = False
    if not good:
        raise InputError(f"`{name}` must be a tuple of different names, got {levels!r}.")


def in_order(levels: Sequence[Hashable]) -> list[Hashable]:
    """The levels sorted; of kinds that do not compare by kind, then by value."""
    try:
        return sorted(levels)  # type: ignore[type-var]
    except (TypeError, ValueError):  # 1 and "1", say
        return sorted(levels, key=lambda level: (type(level).__name__, repr(level)))


def listed(levels: Sequence[Hashable]) -> str:
    """The first five, for a sentence.

    >>> listed(("f", "m"))
    "'f', 'm'"
    """
    return ", ".join(repr(level) for level in levels[:5]) + (", …" if len(levels) > 5 else "")


def union(a: Levels, b: Levels) -> Levels:
    """`a` if it holds `b`, else both in order."""
    return a if set(b) <= set(a) else tuple(in_order(list(dict.fromkeys((*a, *b)))))
