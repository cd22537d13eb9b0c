"""`separatrix monitor`: is the model in production still within its budget?"""

from __future__ import annotations

from pathlib import Path

import typer

from separatrix.cli.app import JSON, answer, app
from separatrix.errors import InputError
from separatrix.io import working, write_whole

__all__ = ["monitor"]


@app.command()
def monitor(
    state: Path = typer.Argument(
        ..., help="File of the monitor; made at the first call, then added to."
    ),
    file: list[str] = typer.Argument(
        None, help="CSV or Parquet files with new rows, in order; none to look only."
    ),
    audit: Path | None = typer.Option(
        None, help="The audit at selection: `separatrix audit … --json > reference.json`."
    ),
    model: Path | None = typer.Option(
        None, help="The shipped model, instead of an audit; its budget is the default."
    ),
    max_eo_gap: float | None = typer.Option(None, help="Budget on the equalized-odds gap."),
    max_tpr_gap: float | None = typer.Option(None, help="Budget on the true-positive-rate gap."),
    max_fpr_gap: float | None = typer.Option(None, help="Budget on the false-positive-rate gap."),
    max_parity_gap: float | None = typer.Option(None, help="Budget on the parity gap."),
    max_violation: float | None = typer.Option(None, help="Budget on v = I(U;Z|Y), in nats."),
    y: str | None = typer.Option(None, help="Column of true labels."),
    z: list[str] = typer.Option(
        [], help="Column of groups; repeat it for the intersection of several."
    ),
    pred: list[str] = typer.Option(
        [],
        help="Column of predictions; P(last label) if the audit was of posteriors; repeat it for "
        "posteriors in label order.",
    ),
    confidence: float = typer.Option(0.95, help="Probability of never raising a false alarm."),
    horizon: int | None = typer.Option(
        None, help="Largest number of rows a test pools, for rates that drift."
    ),
    json: bool = JSON,
    html: Path | None = typer.Option(None, help="Also write a page that opens offline."),
) -> None:
    """Add new rows to a monitor and say whether there is an alarm: status 0 quiet, 3 alarm.

    Example: separatrix monitor state.json january.csv --audit reference.json --max-eo-gap 0.05
    --y income --z sex --pred decision
    """
    from separatrix.production.streaming import open_monitor, update_from_files

    files = file or []
    if files and not (y and z and pred):
        raise InputError("New rows need --y, --z and --pred: the names of their columns.")
    budgets = {
        "eo_gap": max_eo_gap, "tpr_gap": max_tpr_gap, "fpr_gap": max_fpr_gap,
        "parity_gap": max_parity_gap, "violation": max_violation,
    }  # fmt: skip
    watched = open_monitor(
        state, audit=audit, model=model, budgets=budgets, confidence=confidence, horizon=horizon
    )
    with working(f"Watching {', '.join(files) or state}"):
        update_from_files(watched, files, y=y or "", z=z, pred=pred)
        report = watched.report()
    watched.save(state)
    if html is not None:
        write_whole(html, watched.to_html(), parents=False)
    answer(str(report), report.to_dict(), json)
    if report.alarm is not None:
        raise typer.Exit(3)
