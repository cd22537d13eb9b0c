"""`separatrix audit` and `separatrix limit`: files of predictions."""

from __future__ import annotations

from pathlib import Path

import typer

from separatrix.cli.app import app
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
    import numpy as np

    from separatrix.columns.features import as_numbers
    from separatrix.columns.readers import read_table
    from separatrix.optimum.limits import limit

    with working(f"Computing the limit of {file}"):
        columns = read_table(file, [y, *z, *score])
        scores = np.column_stack([as_numbers(columns[name], name) for name in score])
        if len(score) == 1:
            scores = np.column_stack([1 - scores, scores])
        found = limit(scores, columns[y], {name: columns[name] for name in z})
    typer.echo(str(found))
