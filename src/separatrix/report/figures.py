"""Figures with matplotlib: a blank one, its axes and legend, its file."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from separatrix.core.measures import METRICS
from separatrix.errors import InputError, require
from separatrix.io import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["blank_figure", "figure_bytes", "finish", "shared_legend", "write_figure"]


def blank_figure(width: float, height: float) -> Figure:
    """A figure of its own."""
    made = require("matplotlib.figure", "figures", "A figure").Figure
    # a figure of its own, not pyplot's: nothing to close, no window
    return cast("Figure", made(figsize=(width, height), layout="constrained", dpi=150))


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
        raise InputError(
            f"Figures cannot be written as {ending!r}; matplotlib knows {', '.join(sorted(known))}."
        )
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
