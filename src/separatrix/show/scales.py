"""One scale for everything that is small: square roots, on which v = 0.005 can be seen beside 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["root_scale"]


def root_scale(ax: Axes, limits: tuple[float, float] | None = None) -> None:
    """Show x on a scale of square roots, with marks at round values that do not touch.

    Args:
        ax: the axes; with its points drawn already, or with `limits`.
        limits: the smallest and the largest x; by default those of the points, from 0 on.
    """
    ax.set_xscale("function", functions=(_root, _square))
    right = ax.get_xlim()[1] if limits is None else limits[1]
    ax.set_xlim(-0.0005 * right if limits is None else limits[0], right)
    marks = [0.0]
    for level in (d * 10.0**k for k in range(-6, 1) for d in (1, 2, 5)):
        if level <= right and np.sqrt(level) - np.sqrt(marks[-1]) > 0.09 * np.sqrt(right):
            marks.append(level)
    ax.set_xticks(marks, [f"{level:g}" for level in marks])


def _root(x: Any) -> Any:
    return np.sign(x) * np.sqrt(np.abs(x))


def _square(x: Any) -> Any:
    return np.sign(x) * np.square(x)
