"""`separatrix audit` and `separatrix limit`: files of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from separatrix.cli.app import JSON, answer, app, readable
from separatrix.core.measures import BUDGETS, CRITERIA, OBJECTIVES
from separatrix.errors import InputError
from separatrix.io import working, write_whole

if TYPE_CHECKING:
    from separatrix.auditing.continuous import ContinuousAudit
    from separatrix.auditing.result import Audit
    from separatrix.auditing.scores import ScoreAudit


@app.command()
def audit(
    file: str = Argument(..., help="CSV or Parquet file, a quoted pattern such as 'part-*.parquet', or - for stdin."),
    target: str = Option(..., help="Column of true labels, or of a numeric outcome."),
    sensitive: list[str] = Option(..., help="Column of groups; repeat it for the intersection of several."),
    prediction: list[str] = Option(..., help="Column of predicted labels; repeat it for posteriors in label order."),
    weight: str | None = Option(None, help="Column of row weights."),
    score: bool = Option(False, "--score", help="Audit --prediction as a score, at every threshold; two labels."),
    regression: bool = Option(False, "--regression", help="The outcome is a number: --prediction is its prediction."),
    numeric_sensitive: bool = Option(False, "--numeric-sensitive", help="--sensitive is a number, such as age."),
    missing_groups: str | None = Option(None, help="Rows without a group: drop leaves them out, own makes them one."),
    confidence: float = Option(0.95, help="Confidence of intervals and certified bounds."),
    guarantee: str = Option("finite-sample", help="Certified bounds: finite-sample or large-sample."),
    composition: str | None = Option(None, help="Whom the bound on v is about: population or observed."),
    seed: int = Option(0, help="Seed of the Monte Carlo test."),
    json: bool = JSON,
    html: Path | None = Option(None, help="Also write a page that opens offline."),
    fail_above: list[str] = Option([], help="NAME=VALUE, such as eo_gap=0.05: exit 3 if it is larger; repeat it."),
    fail_below: list[str] = Option([], help="NAME=VALUE, such as impact_ratio=0.8: exit 3 if it is smaller."),
) -> None:
    """Do these predictions treat the groups differently, and how sure are we?

    Example: separatrix audit predictions.csv --target income --sensitive sex --prediction decision
    """
    from separatrix.auditing import ceilings, door
    from separatrix.columns.groups import without_missing
    from separatrix.columns.readers import read_table

    numbers = regression or numeric_sensitive
    if score and numbers:
        raise InputError("--score ranks two labels; --regression and --numeric-sensitive audit numbers: drop one.")
    names: Sequence[str] = ceilings.SCORE_NAMES if score else ceilings.DECISION_NAMES
    highest = ceilings.parse_ceilings(fail_above, ceilings.CONTINUOUS_NAMES if numbers else names)
    if fail_below and (score or numbers):
        raise InputError("--fail-below is for decisions: leave out --score and --regression.")
    lowest = ceilings.parse_ceilings(fail_below, ceilings.FLOOR_NAMES, "--fail-below")
    if (score or numbers) and len(prediction) != 1:
        raise InputError(f"--{'score' if score else 'regression'} takes one --prediction, got {len(prediction)}.")
    how: dict[str, Any] = {"target": target, "sensitive_features": sensitive}
    how |= {"sample_weight": weight, "confidence": confidence, "random_state": seed}
    bound: dict[str, Any] = {"guarantee": guarantee, "composition": composition}
    if numbers and bound != {"guarantee": "finite-sample", "composition": None}:
        raise InputError("--guarantee and --composition belong to labels and groups: leave them out.")
    result: Audit | ScoreAudit | ContinuousAudit
    with working(f"Counting {file}"), readable(file) as source:
        path: Any = source
        if missing_groups is not None:
            columns = dict.fromkeys([target, *sensitive, *prediction, *filter(None, [weight])])
            path = without_missing(read_table(source, list(columns)), sensitive, missing_groups)
        try:
            if score:
                result = door.audit_score(path, prediction=prediction[0], **how, **bound)
            elif numbers:
                how |= {"numeric_target": regression, "numeric_sensitive": numeric_sensitive}
                result = door.audit_regression(path, prediction=prediction[0], **how)
            else:
                result = door.audit(path, prediction=prediction, **how, **bound)
        except InputError as error:
            if "has no column" in str(error) and "'decided_by_coin'" in str(error):  # of `predict`
                raise InputError(f"{error} `separatrix predict --keep` copies columns of its input.") from error
            if any(str(error).startswith(f"`{column}` has ") and "missing" in str(error) for column in sensitive):
                raise InputError(f"{str(error).partition('. Drop')[0]}. Pass --missing-groups drop or own.") from error
            raise
    if html is not None:
        write_whole(html, result.to_html(), parents=False)
    answer(str(result), result.to_dict(), json)
    if above := ceilings.exceeded(result, highest, lowest):
        typer.echo(f"separatrix: {above}", err=True)
        raise typer.Exit(3)


@app.command("limit")
def limit_command(
    file: str = Argument(..., help="CSV or Parquet file, or - for stdin."),
    target: str = Option(..., help="Column of true labels."),
    sensitive: list[str] = Option(..., help="Column of groups; repeat it for the intersection of several."),
    score: list[str] = Option(..., help="Column of P(last label); repeat it for posteriors in label order."),
    maximize: str = Option("utility", help=f"{', '.join(n for n in OBJECTIVES if n != 'cost')}."),
    cost: str = Option("", help="Costs of errors to minimise instead, such as fp=1,fn=5."),
    criterion: str = Option("separation", help=", ".join(CRITERIA)),
    budget: str | None = Option(None, help=f"{', '.join(BUDGETS)}. By default the first of the criterion."),
    level: list[float] = Option([], help="A budget to solve for; repeat it for several. By default a curve."),
    json: bool = JSON,
) -> None:
    """The best that any binary decision from a score can do, for every budget.

    Example: separatrix limit scores.csv --target income --sensitive sex --score p --maximize
    accuracy --budget eo_gap
    """
    from separatrix.optimum.limit import limit
    from separatrix.optimum.objectives import parse_cost

    objective = parse_cost(cost) if cost else maximize
    how: dict[str, Any] = {"maximize": objective, "budget": budget, "levels": level or None, "criterion": criterion}
    with working(f"Computing the limit of {file}"), readable(file) as path:
        best = limit(path, target=target, sensitive_features=sensitive, score=score, **how)
    values = {"maximize": str(objective), "budget": best.budget, "levels": best.levels}
    values |= {"criterion": criterion, "values": best.values, "upper": best.upper}
    answer(str(best), values, json)
