"""A frontier of a numeric target for people: lines for a terminal, a figure, one offline page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

from separatrix.deploy.words import estimate_text
from separatrix.io import write_whole
from separatrix.statistics.unseen import Estimate

__all__ = ["draw", "lines", "write"]

Means = Sequence[tuple[float | None, Mapping[str, Estimate]]]
_HEAD = ("penalty", "R²", "RMSE", "v")
_SAID = (
    "R² and RMSE say how good the predictions are. v says how much a prediction still tells about "
    "the group among people with the same outcome, in nats; 0 is nothing. Means over outer folds, "
    "± standard error. `select` chooses the penalty for a budget of v on inner folds."
)


def lines(manifest: Mapping[str, Any], means: Means) -> list[str]:
    """The terminal's table."""
    rows = [_HEAD, *_cells(means)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    table = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    return [_title(manifest), "", *(line.rstrip() for line in table), "", _SAID]


def draw(means: Means, path: str | Path | None = None) -> Any:
    """R² against v, with errors; the regressor as it is as a diamond."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    for penalty, found in means:
        plain = penalty is None
        axes.errorbar(
            found["violation"].value, found["r2"].value, found["r2"].error,
            found["violation"].error, fmt="D" if plain else "o", ms=6 if plain else 4,
            color="#d55e00" if plain else "#0072b2", label="as it is" if plain else None,
        )  # fmt: skip
    axes.set(xlabel="violation v, nats (less is better)", ylabel="R² (more is better)")
    axes.legend()
    if path is not None:
        figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)
    return figure


def write(path: str | Path, manifest: Mapping[str, Any], means: Means) -> Path:
    """One HTML page that loads nothing."""
    picture = StringIO()
    draw(means).savefig(picture, format="svg", metadata={"Date": None})
    svg = picture.getvalue()
    head = "".join(f"<th>{escape(name)}</th>" for name in _HEAD)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in _cells(means)
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    style = "body{font:16px sans-serif;max-width:46em;margin:2em auto}td,th{padding:.2em 1em}"
    text = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(_title(manifest))}</title><style>{style}</style></head><body>"
        f"<h1>{escape(_title(manifest))}</h1><p>{escape(_SAID)}</p>{svg[svg.index('<svg') :]}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></body></html>\n"
    )
    place = Path(path)
    write_whole(place, text)
    return place


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
