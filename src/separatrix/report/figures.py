"""Figures with matplotlib: new axes, one scale for small values, legends, files."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from separatrix.core.measures import METRICS
from separatrix.errors import InputError, require
from separatrix.io import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def blank_figure(width: float, height: float) -> Figure:
    """A figure of its own."""
    made = require("matplotlib.figure", "figures", "A figure").Figure
    # a figure of its own, not pyplot's: nothing to close, no window
    return cast("Figure", made(figsize=(width, height), layout="constrained", dpi=150))


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


def finish(ax: Axes, title: str, x: str, y: str) -> None:
    """Title and axes of two metrics."""
    ax.set_title(title, loc="left", fontsize=10, parse_math=False)
    ax.set_xlabel(METRICS[x].axis)
    ax.set_ylabel(METRICS[y].axis)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.2, lw=0.6)


def shared_legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """One legend for all panels, below them."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    lengths = sorted((len(label) + 8 for label in entries), reverse=True)  # the handle, a gap
    room = 13 * figure.get_figwidth()  # letters in a line
    fitting = max([n for n in range(1, 6) if sum(lengths[:n]) <= room], default=1)
    look: dict[str, Any] = {"ncols": min(fitting, len(entries)), "frameon": False}
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", **look)


def write_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure whole, with an ending that matplotlib knows."""
    write_whole(Path(path), figure_bytes(figure, Path(path).suffix.lstrip(".") or "png"))


def figure_bytes(figure: Figure, ending: str) -> bytes:
    """The file of a figure; the same figure always has the same bytes."""
    from matplotlib import rc_context

    known = figure.canvas.get_supported_filetypes()
    if ending not in known:
        raise InputError(f"Figures cannot be written as {ending!r}; matplotlib knows {', '.join(sorted(known))}.")
    # once: each further pass would move things a little
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    out = io.BytesIO()
    # the same records give the same bytes: no date, no random ids
    metadata = {"Date": None} if ending in ("svg", "svgz") else None
    with rc_context({"svg.hashsalt": "separatrix", "svg.fonttype": "none"}):
        figure.savefig(out, format=ending, metadata=metadata)
    return out.getvalue()


def _root(x: Any) -> Any:
    return np.sign(x) * np.sqrt(np.abs(x))


def _square(x: Any) -> Any:
    return np.sign(x) * np.square(x)
