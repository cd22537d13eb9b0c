"""What rooms share to show themselves: axes, one scale for small values, text of one width."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from separatrix.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["WIDTH", "new_axes", "preformatted", "root_scale", "wrapped"]

WIDTH = 100  # columns of a terminal


def new_axes(width: float, height: float) -> Axes:
    """Axes of a figure of pyplot, so that a notebook shows it."""
    pyplot = require("matplotlib.pyplot", "figures", "A figure")
    return cast("Axes", pyplot.subplots(figsize=(width, height), layout="constrained")[1])


def root_scale(ax: Axes, limits: tuple[float, float] | None = None) -> None:
    """Show x on a scale of square roots, where v = 0.005 can be told from 0.

    Marks are at round values that do not touch.

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


def preformatted(thing: object) -> str:
    """What it prints, as HTML for a notebook.

    >>> preformatted("v < 0.01")
    '<pre>v &lt; 0.01</pre>'
    """
    return f"<pre>{escape(str(thing))}</pre>"


def wrapped(text: str, indent: str = "") -> list[str]:
    """Lines that fit a terminal, broken between words and never within one.

    >>> wrapped("word " * 21, indent="  ") == ["  " + "word " * 18 + "word", "  word word"]
    True
    """
    return wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def _root(x: Any) -> Any:
    return np.sign(x) * np.sqrt(np.abs(x))


def _square(x: Any) -> Any:
    return np.sign(x) * np.square(x)
