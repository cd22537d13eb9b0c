"""A frontier of a numeric target for people: lines for a terminal, a figure, one offline page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from separatrix.io import write_whole
from separatrix.report.figures import blank_figure, figure_bytes, write_figure
from separatrix.report.page import render_template
from separatrix.report.table import Table
from separatrix.report.terminal import WIDTH, new_axes, wrapped
from separatrix.report.words import estimate_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from separatrix.statistics.unseen import Promise

__all__ = ["draw", "draw_file", "lines", "write"]

Means = Sequence[tuple[float | None, Mapping[str, "Promise"]]]
_SIZE = 5.6, 3.6  # of the figure, inches
_SAID = (
    "R² and RMSE say how good the predictions are. v says how much a prediction still tells about "
    "the group among people with the same outcome, in nats; 0 is nothing. Means over outer folds, "
    "± standard error. `select` chooses the penalty for a budget of v on inner folds."
)


def lines(manifest: Mapping[str, Any], means: Means) -> list[str]:
    """The terminal's table."""
    found, table = wrapped(_finding(manifest, means)), _table(means).lines(WIDTH)
    return [_title(manifest), *found, "", table, "", *wrapped(_SAID)]


def draw(means: Means, ax: Axes | None = None) -> Axes:
    """R² against v, with errors; the regressor as it is as a diamond."""
    ax = new_axes(*_SIZE) if ax is None else ax
    for penalty, found in means:
        plain = penalty is None
        ax.errorbar(
            found["violation"].value, found["r2"].value, found["r2"].error,
            found["violation"].error, fmt="D" if plain else "o", ms=6 if plain else 4,
            color="#d55e00" if plain else "#0072b2", label="as it is" if plain else None,
        )  # fmt: skip
    ax.set(xlabel="violation v, nats (less is better)", ylabel="R² (more is better)")
    ax.legend()
    return ax


def draw_file(means: Means, path: str | Path) -> Figure:
    """The same in a file, whose ending is one that matplotlib knows."""
    figure = _figure(means)
    write_figure(figure, path)
    return figure


def _figure(means: Means) -> Figure:
    figure = blank_figure(*_SIZE)
    draw(means, figure.subplots())
    return figure


def write(path: str | Path, manifest: Mapping[str, Any], means: Means) -> Path:
    """One HTML page that loads nothing."""
    picture = figure_bytes(_figure(means), "svg").decode()
    svg = picture[picture.index("<svg") :]
    parts = {"title": _title(manifest), "finding": _finding(manifest, means), "said": _SAID}
    text = render_template("numeric.html.jinja", **parts, svg=svg, table=_table(means))
    write_whole(Path(path), text)
    return Path(path)


def _finding(manifest: Mapping[str, Any], means: Means) -> str:
    """The regressor as it is, in a sentence."""
    plain = next(found for penalty, found in means if penalty is None)
    v, whose = estimate_text("violation", plain["violation"]), " & ".join(manifest["columns"])
    return (
        f"As it is, the model explains {plain['r2'].value:.0%} of the variance of "
        f"{manifest['target']}; among people with the same outcome its predictions tell v = {v} "
        f"nats about {whose}."
    )


def _title(manifest: Mapping[str, Any]) -> str:
    what, whose = manifest["target"], " & ".join(manifest["columns"])
    rows, base = f"{manifest['rows']:,} rows", manifest["base"]
    return f"{manifest['name']}: {what} given {whose}; {rows}, {base}"


def _table(means: Means) -> Table:
    rows = []
    for penalty, found in means:
        texts = (estimate_text(name, found[name]) for name in ("r2", "rmse", "violation"))
        rows.append(("as it is" if penalty is None else f"{penalty:g}", *texts))
    return Table("", ("penalty", "R²", "RMSE", "v"), tuple(rows))
