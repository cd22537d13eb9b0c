"""A frontier of a numeric target for people: lines for a terminal, a figure, one offline page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from separatrix.io import write_whole
from separatrix.report.figures import blank_figure, write_figure
from separatrix.report.terminal import new_axes, wrapped
from separatrix.report.words import estimate_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from separatrix.statistics.unseen import Promise

__all__ = ["draw", "draw_file", "lines", "write"]

Means = Sequence[tuple[float | None, Mapping[str, "Promise"]]]
_SIZE = 5.6, 3.6  # of the figure, inches
_HEAD = ("penalty", "R²", "RMSE", "v")
_SAID = (
    "R² and RMSE say how good the predictions are. v says how much a prediction still tells about "
    "the group among people with the same outcome, in nats; 0 is nothing. Means over outer folds, "
    "± standard error. `select` chooses the penalty for a budget of v on inner folds."
)
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 46em;
  margin: 1.5em auto; padding: 0 1em; }
h1 { font-size: 1.3em; }
td, th { padding: .2em 1em .2em 0; white-space: nowrap; text-align: right; }
table { font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; }
div { overflow-x: auto; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #16181c; }
  svg { filter: invert(1) hue-rotate(180deg); } /* light lines, the same hues */
}
@media (max-width: 42rem) { td, th { padding-right: .7em; white-space: normal; } }
"""


def lines(manifest: Mapping[str, Any], means: Means) -> list[str]:
    """The terminal's table."""
    rows = [_HEAD, *_cells(means)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    table = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    found = wrapped(_finding(manifest, means))
    table = [line.rstrip() for line in table]
    return [_title(manifest), *found, "", *table, "", *wrapped(_SAID)]


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
    picture = StringIO()
    _figure(means).savefig(picture, format="svg", transparent=True, metadata={"Date": None})
    svg = picture.getvalue()
    head = "".join(f"<th>{escape(name)}</th>" for name in _HEAD)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in _cells(means)
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    text = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(_title(manifest))}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(_title(manifest))}</h1><p><b>{escape(_finding(manifest, means))}</b></p>"
        f"<p>{escape(_SAID)}</p>{svg[svg.index('<svg') :]}"
        f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        "</body></html>\n"
    )
    place = Path(path)
    write_whole(place, text)
    return place


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


def _cells(means: Means) -> list[tuple[str, ...]]:
    return [
        (
            "as it is" if penalty is None else f"{penalty:g}",
            *(estimate_text(name, found[name]) for name in ("r2", "rmse", "violation")),
        )
        for penalty, found in means
    ]
