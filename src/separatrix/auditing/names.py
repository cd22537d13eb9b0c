"""Names of groups for the eye."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["group_name"]


def group_name(group: Hashable) -> str:
    """A group for the eye; an intersection of several columns as `Female & Black`.

    >>> group_name(("Female", "Black"))
    'Female & Black'
    """
    return " & ".join(map(str, group)) if isinstance(group, tuple) else str(group)
