"""`separatrix select`, `predict`, `replay` and `monitor`: from a frontier to decisions, watched."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

from separatrix.cli.app import JSON, answer, app, readable, say
from separatrix.core.counts import suggestion
from separatrix.core.measures import leading_objectives
from separatrix.errors import InputError
from separatrix.io import working, write_whole

_VERIFY_KEY = Option(None, help="Public key (Ed25519, PEM): refuse a model that its owner did not sign.")


@app.command()
def select(
    folder: Path = Argument(..., help="Folder of `separatrix trace`."),
    out: Path = Option(..., help="Folder for the model; an older model there is replaced."),
    max_eo_gap: float | None = Option(None, help="Budget on the equalized-odds gap."),
    max_violation: float | None = Option(None, help="Budget on v = I(U;Z|Y), in nats."),
    criterion: str = Option("separation", help="separation, independence, sufficiency or equal_opportunity."),
    max_gap: float | None = Option(None, help="Budget on the criterion's own gap: EO, parity, predictive or TPR gap."),
    maximize: str = Option("accuracy", help=f"{', '.join(sorted(leading_objectives()))}; auroc ships a score."),
    cost: str | None = Option(None, help="Minimise the costs of false positives and negatives instead: fp=1,fn=5."),
    confidence: float | None = Option(None, help="Keep the budget with this probability, not only in expectation."),
    guarantee: str = Option("finite-sample", help="With --confidence: finite-sample, or large-sample (fewer rows)."),
    blind: bool = Option(False, "--blind", help="Decide without the group; needs a trace with --blind."),
    method: list[str] = Option([], help="Only points of it; repeat it. postprocessing: around the base model."),
    use_whole_budget: bool = Option(False, "--use-whole-budget", help="Maximise within the budget."),
    allow_constant: bool = Option(False, "--allow-constant", help="Allow a decision that is the same for everyone."),
    sign_key: Path | None = Option(None, help="Private key (Ed25519, PEM) that signs the model."),
    json: bool = JSON,
) -> None:
    """Which model do I ship? Solves for the budget, says what to expect, saves the model.

    Example: separatrix select frontier --max-eo-gap 0.05 --maximize accuracy --out model
    """
    from separatrix.frontier.frontier import Frontier
    from separatrix.frontier.numeric import NumericFrontier
    from separatrix.optimum.objectives import parse_cost

    known = sorted(leading_objectives())
    if maximize not in known:
        near = suggestion(maximize, known)
        raise InputError(f"--maximize must be one of {', '.join(known)}, got {maximize!r}. {near}".rstrip())
    with working(f"Choosing from {folder}"):
        frontier = Frontier.load(folder)
        point: Any
        if isinstance(frontier, NumericFrontier):
            words = criterion, maximize, guarantee, max_eo_gap, max_gap, confidence, cost
            flags = blind or method or allow_constant or use_whole_budget
            if flags or words != ("separation", "accuracy", "finite-sample", None, None, None, None):
                what = "is the frontier of a numeric target: its one budget is --max-violation"
                raise InputError(f"{str(folder)!r} {what}, and it has the best R² within it.")
            point = frontier.select(max_violation=max_violation)
        else:
            point = frontier.select(
                max_violation=max_violation, max_eo_gap=max_eo_gap, max_gap=max_gap,
                criterion=criterion, confidence=confidence,
                blind=blind, maximize=maximize if cost is None else parse_cost(cost),
                method=method or None, allow_constant=allow_constant,
                guarantee=guarantee, use_whole_budget=use_whole_budget,
            )  # fmt: skip
        point.predictor.save(out, sign_key=sign_key)
    next_ = f"Next: separatrix predict {out} FILE --out predictions.csv (--keep copies columns, for an audit)"
    text = f"{point}\nThe model is in {out}; read {out / 'MODEL_CARD.md'}\n{next_}"
    answer(text, {"folder": out, **point.to_dict()}, json)


@app.command()
def predict(
    model: Path = Argument(..., help="Folder of `separatrix select`."),
    file: str = Argument(..., help="CSV (plain or .gz) or Parquet file with the columns of training; - for stdin."),
    out: Path = Option(..., help="Predictions, .csv or .parquet."),
    id_column: str | None = Option(None, "--id", help="Column that identifies a person; copied to the output."),
    keep: list[str] = Option([], help="Column to copy, such as outcome and group for `separatrix audit`; repeat it."),
    salt_file: Path | None = Option(None, help="File with a secret; with --id a person always gets the same draw."),
    seed: int | None = Option(None, help="Seed of the draws if there is no secret; default: a fresh one."),
    verify_key: Path | None = _VERIFY_KEY,
    log: Path | None = Option(None, help="Decision log to write, .jsonl or .csv, for `separatrix replay`."),
    json: bool = JSON,
) -> None:
    """Predict a file of any size, in constant memory.

    Example: separatrix predict model people.csv --id person --salt-file secret.txt --keep income
    --keep sex --out decisions.csv
    """
    from separatrix.columns.draws import UNSET, Seed, check_seed
    from separatrix.predictor.predictor import load
    from separatrix.production.streaming import predict_file

    if seed is not None and salt_file is not None:
        raise InputError("Pass --seed or --salt-file: draws follow the row's place or its --id.")
    salt = None if salt_file is None else _secret(salt_file)
    predictor = load(model, verify_key=verify_key)
    state: Seed = check_seed(seed) if salt is None else UNSET
    if predictor.randomized and state is None:
        state = secrets.randbits(63)
    with readable(file) as path:
        how: dict[str, Any] = {"id_column": id_column, "keep": keep, "log": log}
        rows = predict_file(predictor, path, out, salt=salt, random_state=state, **how)
    if predictor.randomized and salt is None and seed is None:
        repeat = f"--seed {state} repeats these decisions"
        always = "with --id and --salt-file a person always gets the same one"
        say(f"A coin decides about some people: {repeat}; {always}.", err=True)
    seed = state if isinstance(state, int) else None
    answer(f"{rows:,} predictions are in {out}", {"rows": rows, "out": out, "seed": seed}, json)


@app.command()
def replay(
    model: Path = Argument(..., help="Folder of `separatrix select`."),
    log: Path = Argument(..., help="Decision log of `separatrix predict --log`."),
    file: Path | None = Argument(None, help="The rows that were decided, in order."),
    id_column: str | None = Option(None, "--id", help="Column that identifies a person."),
    salt_file: Path | None = Option(None, help="File with the secret of the draws."),
    verify_key: Path | None = _VERIFY_KEY,
    json: bool = JSON,
) -> None:
    """Recompute the decisions of a log and name the first difference (exit status 2).

    Example: separatrix replay model decisions.jsonl people.csv --id person --salt-file secret.txt
    """
    from separatrix.predictor.predictor import load
    from separatrix.production.streaming import replay_file

    salt = None if salt_file is None else _secret(salt_file)
    rows = replay_file(load(model, verify_key=verify_key), log, file, id_column=id_column, salt=salt)
    what = "branches" if file is None else "decisions"
    answer(f"{rows:,} {what} in {log} are those of the model", {"rows": rows, "compared": what}, json)


@app.command()
def monitor(
    state: Path = Argument(..., help="File of the monitor; made at the first call, then added to."),
    file: list[str] = Argument(None, help="CSV or Parquet files with new rows, in order; none to look only."),
    audit: Path | None = Option(None, help="The audit at selection: `separatrix audit … --json > reference.json`."),
    model: Path | None = Option(None, help="The shipped model, instead of an audit; its budget is the default."),
    max_eo_gap: float | None = Option(None, help="Budget on the equalized-odds gap."),
    max_tpr_gap: float | None = Option(None, help="Budget on the true-positive-rate gap."),
    max_fpr_gap: float | None = Option(None, help="Budget on the false-positive-rate gap."),
    max_parity_gap: float | None = Option(None, help="Budget on the parity gap."),
    max_violation: float | None = Option(None, help="Budget on v = I(U;Z|Y), in nats."),
    y: str | None = Option(None, help="Column of true labels."),
    z: list[str] = Option([], help="Column of groups; repeat it for the intersection of several."),
    pred: list[str] = Option([], help="Column of predictions, or of P(last label); repeat it for posteriors."),
    confidence: float = Option(0.95, help="Probability of never raising a false alarm."),
    horizon: int | None = Option(None, help="Largest number of rows a test pools, for rates that drift."),
    json: bool = JSON,
    html: Path | None = Option(None, help="Also write a page that opens offline."),
) -> None:
    """Add new rows to a monitor and say whether there is an alarm: status 0 quiet, 3 alarm.

    Example: separatrix monitor state.json january.csv --audit reference.json --max-eo-gap 0.05
    --y income --z sex --pred decision
    """
    from separatrix.production.streaming import watch

    files = file or []
    budgets = {
        "eo_gap": max_eo_gap, "tpr_gap": max_tpr_gap, "fpr_gap": max_fpr_gap,
        "parity_gap": max_parity_gap, "violation": max_violation,
    }  # fmt: skip
    how: dict[str, Any] = {"audit": audit, "model": model, "confidence": confidence, "horizon": horizon}
    with working(f"Watching {', '.join(files) or state}"):
        watched = watch(state, files, y=y or "", z=z, pred=pred, budgets=budgets, **how)
        report = watched.report()
    if html is not None:
        write_whole(html, watched.to_html(), parents=False)
    answer(str(report), report.to_dict(), json)
    if report.alarm is not None:
        raise typer.Exit(3)


def _secret(path: Path) -> bytes:
    """What a file holds, without the line break at its end."""
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise InputError(f"The secret {str(path)!r} cannot be read: {error.strerror}.") from error
