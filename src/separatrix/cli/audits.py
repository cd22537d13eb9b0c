"""`separatrix audit` and `separatrix limit`: files of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import typer

from separatrix.cli.app import app
from separatrix.errors import InputError
from separatrix.io import working, write_whole

__all__ = ["audit", "limit_command"]


@app.command()
def audit(
    file: str = typer.Argument(
        ..., help="CSV or Parquet file, or a quoted pattern such as 'component-*.parquet'."
    ),
    y: str = typer.Option(..., help="Column of true labels."),
    z: list[str] = typer.Option(
        ..., help="Column of groups; repeat it for the intersection of several."
    ),
    pred: list[str] = typer.Option(
        ...,
        help="Column of predictions: labels, or P(last label) as a float; repeat it for "
        "posteriors in label order.",
    ),
    weight: str | None = typer.Option(None, help="Column of row weights."),
    confidence: float = typer.Option(0.95, help="Of the interval and the certified bound."),
    seed: int = typer.Option(0, help="Of the Monte Carlo test."),
    json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
    html: Path | None = typer.Option(None, help="Also write a page that opens offline."),
) -> None:
    """How far from separation are these predictions, and how sure are we?

    Example: separatrix audit predictions.csv --y income --z sex --z race --pred score
    """
    from separatrix.auditing.files import audit_files

    with working(f"Counting {file}"):
        result = audit_files(
            file,
            y=y,
            z=z,
            pred=pred[0] if len(pred) == 1 else pred,
            weight=weight,
            confidence=confidence,
            random_state=seed,
        )
    if html is not None:
        from separatrix.auditing.view import html as render

        write_whole(html, render(result, page=True), parents=False)
    typer.echo(result.to_json() if json else str(result))


@app.command("limit")
def limit_command(
    file: str = typer.Argument(..., help="CSV or Parquet file with scores, labels and groups."),
    y: str = typer.Option(..., help="Column of true labels."),
    z: list[str] = typer.Option(
        ..., help="Column of groups; repeat it for the intersection of several."
    ),
    score: list[str] = typer.Option(
        ..., help="Column of P(last label); repeat it for posteriors in label order."
    ),
) -> None:
    """The best that any post-processing of a score can do, for every violation.

    Example: separatrix limit scores.csv --y income --z sex --score p
    """
    with working(f"Computing the limit of {file}"):
        text = _limit_text(file, y=y, z=z, score=score)
    typer.echo(text)


def _limit_text(file: str, *, y: str, z: Sequence[str], score: Sequence[str]) -> str:
    """The limit of post-processing the scores of a file, as text."""
    from separatrix.auditing.files import open_files
    from separatrix.optimum.limits import limit

    relation = open_files(file)
    missing = [name for name in (y, *z, *score) if name not in relation.columns]
    if missing:
        raise InputError(
            f"There is no column {missing[0]!r}; the columns are {', '.join(relation.columns)}."
        )
    table = relation.select(
        *(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in dict.fromkeys((y, *z, *score)))
    )
    columns = table.fetchnumpy()
    for name, values in columns.items():
        gone = (
            np.ma.getmaskarray(values)
            if isinstance(values, np.ma.MaskedArray)
            else np.zeros(len(values), bool)
        )
        if gone.any():
            raise InputError(
                f"`{name}` has {int(gone.sum()):,} missing values (first in row "
                f"{int(np.argmax(gone)):,})."
            )
    groups = (
        columns[z[0]]
        if len(z) == 1
        else np.array(
            [" & ".join(map(str, row)) for row in zip(*(columns[c] for c in z), strict=True)]
        )
    )
    scores = np.column_stack([np.asarray(columns[name], dtype=np.float64) for name in score])
    if scores.shape[1] == 1:
        scores = np.column_stack([1 - scores[:, 0], scores[:, 0]])
    return str(limit(scores, np.asarray(columns[y]), np.asarray(groups)))
