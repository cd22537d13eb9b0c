"""The answers of a trace as plain data for the report's page.

One set of numbers: the points of the records get the promise of their answer, so that the page says
of a model what the terminal and the model card say.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from separatrix import methods
from separatrix.auditing.pages import measures
from separatrix.auditing.result import Audit
from separatrix.core.envelope import concave_envelope
from separatrix.core.measures import METRICS, identity
from separatrix.frontier.answers import BASE, KINDS, Answer
from separatrix.frontier.results import Results
from separatrix.frontier.series import Series
from separatrix.frontier.shippable import Shippable
from separatrix.frontier.trade_off import BLIND, LIMITS
from separatrix.report.audit_page import PALETTE, named_rows
from separatrix.report.words import number

__all__ = ["audit_of_plain", "named", "offered", "promised"]

_MOST_CURVES = 8  # of groups in one ROC figure


def offered(shippable: Shippable, results: Results, audit: Audit | None) -> dict[str, Any]:
    """What the page shows first: the sentence, the answers, the commands, ROC curves, the limit.

    `audit` is that of the plain model, where there is one: its numbers tell the identity.
    """
    folder = str(results.folder)
    axes = (shippable.gap, "accuracy") if shippable.aim == "accuracy" else ("violation", "utility")
    compared = shippable.criteria()
    best = shippable.usual() or shippable.first("plain")
    curve = next((c for c in results.curves if c.name == LIMITS.get(axes)), None)
    hull = None if curve is None else concave_envelope(curve.violation, curve.utility)
    # the criteria have a table of their own
    offered = [a for a in shippable.answers if a.kind not in ("criterion", "choice")]
    return {
        "sentence": shippable.sentence(),
        "price": shippable.price_of_blindness(),
        "explained": shippable.explained(),
        "axes": axes,
        "answers": [_answer(shippable, a, folder) for a in offered],
        "criteria": None if compared is None else asdict(compared),
        "identity": None if audit is None else identity(audit.table.counts),
        "start": offered.index(best),
        "plain": offered.index(shippable.first("plain")),
        "limit": None if hull is None else [hull.violation.tolist(), hull.utility.tolist()],
        "largest": shippable.largest(_MOST_CURVES),
        "palette": list(PALETTE),
    }


def _answer(shippable: Shippable, answer: Answer, folder: str) -> dict[str, Any]:
    colour = methods.style("postprocessing").colour
    if answer.kind in ("trained", "chosen"):
        colour = methods.style(str(answer.point["method"])).colour
    return answer.to_dict() | {
        "name": shippable.short(answer),
        "about": KINDS[answer.kind],
        "colour": BLIND if answer.blind else "#000000" if answer.kind == "constant" else colour,
        "recognised": shippable.recognised(answer),
        "command": shippable.command(folder, answer),
        "python": shippable.python(folder, answer),
    }


def promised(
    points: dict[str, list[dict[str, Any]]], series: list[Series], shippable: Shippable
) -> None:
    """Give the points of the records the promise of their answers."""
    known = {_key(a.point): a for a in shippable.answers if "policy" in a.point}
    for policy, listed in points.items():
        for point in listed:
            s = series[point["series"]]
            own = {**s._asdict(), "trade_off": point["trade_off"], "policy": policy}
            answer = known.get(_key(own))
            for name, (value, error) in answer.promise.items() if answer is not None else ():
                point["mean"][name], point["sd"][name] = value, error


def named(series: Series) -> dict[str, str]:
    """What a trace calls the points around its base model."""
    known = " without the group" if series.inputs == "x" else ""
    if series.recipe == BASE:
        return {"label": f"plain model{known}"}
    if " within " not in series.recipe:
        return {}
    aim, budget = series.recipe.split(" within ")
    label = f"solved: {METRICS[aim].label} within {METRICS[budget].label}{known}"
    return {"label": label, "knob": METRICS[budget].label}


def _key(point: Any) -> tuple[Any, ...]:
    return tuple(point[name] for name in ("method", "inputs", "recipe", "trade_off", "policy"))


def audit_of_plain(shippable: Shippable, audit: Audit | None) -> dict[str, Any]:
    """The plain model: its promise, then what only an audit says."""
    plain = shippable.first("plain")
    rows = []
    for name in ("accuracy", "auroc", "eo_gap", "violation", "utility"):
        if name in plain.promise:
            value, error = plain.promise[name]
            unit = "; nats" if METRICS[name].nats else ""
            noise = f"; pure chance shows {plain.floor:.4f}" if name == "eo_gap" else ""
            told = {"name": METRICS[name].label, "value": number(name, value)}
            rows.append(told | {"note": f"± {error:.2g} on unseen rows{unit}{noise}"})
    if audit is None:
        return {"measures": rows, "notes": []}
    promised = ("violation v", "utility u", "equalized-odds gap", "accuracy", "shuffled groups")
    more = [row for row in named_rows(measures(audit)) if not row["name"].startswith(promised)]
    low, high = audit.violation_interval
    if audit.estimable:
        sure = f"{audit.confidence:.0%}".replace("%", " %")
        ends = f"{number('violation', low)} … {number('violation', high)}"
        more.insert(0, {"name": "interval of v", "value": ends, "note": f"at {sure}"})
    return {"measures": [*rows, *more], "notes": list(audit.notes)}
