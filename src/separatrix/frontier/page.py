"""The content of the report's page as plain data: answers, points, envelopes, rates, audits, notes.

All numbers are computed here from the records; the page's script only mixes two points and puts an
interval around a rate. The points of a trace's records get the promise of their answer, so that the
page says of a model what the terminal and the model card say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from separatrix import methods
from separatrix.auditing.result import Audit
from separatrix.columns.groups import from_plain
from separatrix.core.counts import CountTable
from separatrix.core.envelope import concave_envelope, pareto
from separatrix.core.measures import (
    METRICS,
    identity,
    leading_budgets,
    leading_metrics,
    leading_objectives,
)  # fmt: skip
from separatrix.errors import InputError
from separatrix.frontier.answers import BASE, KINDS, Answer, rates_of
from separatrix.frontier.figures import BLIND, LIMITS
from separatrix.frontier.folder import MANIFEST, read_manifest
from separatrix.frontier.results import (
    Columns,
    Results,
    Series,
    group_names,
    held_out_table,
    main_series,
    named_series,
    secant_price,
    select,
)
from separatrix.frontier.shippable import Shippable
from separatrix.frontier.store import PointKey, ReferenceCurve
from separatrix.io import write_whole
from separatrix.methods import POLICIES
from separatrix.report.audit_page import PALETTE, named_rows
from separatrix.report.audits import measures
from separatrix.report.page import render
from separatrix.report.words import number, percent

CONFIDENCE = 0.95  # of intervals and bounds
EVERYTHING = "all"
BOTH = "both"  # policies: the points of the first, then those of the second
_MOST_CURVES = 8  # of groups in one ROC figure


def write(folder: str | Path, path: str | Path, plain_audit: Audit | None = None) -> Path:
    """Write the report of a folder of records.

    Args:
        folder: that `trace` or `benchmark` wrote.
        path: of the HTML file; written whole or not at all.
        plain_audit: of a trace, the audit of the plain model's decisions on unseen rows.

    Returns:
        The path.
    """
    place = Path(path)
    write_whole(place, render(content(Results.read(folder), plain_audit)))
    return place


def content(results: Results, plain_audit: Audit | None = None) -> dict[str, Any]:
    """The whole page as plain JSON; see `write`."""
    from separatrix import __version__

    return {
        "version": __version__,
        "folder": str(results.folder),
        "models": any((results.folder / "models").glob("*.safetensors")),
        "confidence": CONFIDENCE,
        "metrics": [
            {"name": name, "label": m.label, "axis": m.axis, "nats": m.nats, "mixes": m.mixes}
            | {"lower": m.lower_is_better}
            for name, m in METRICS.items()
            if m.leads
        ],
        "quantile": float(ndtri((1 + CONFIDENCE) / 2)),
        "datasets": [_dataset(results, name, plain_audit) for name in results.datasets],
    }


def _dataset(results: Results, name: str, plain_audit: Audit | None) -> dict[str, Any]:
    about = _without_paths(results.about[name])
    called = dict(named_series(select(results.mean, dataset=name)))
    series, main = list(called), set(main_series(results.mean, name))
    shippable = Shippable.read(results)
    answers = () if shippable is None else shippable.answers
    promised = {PointKey(**a.point): a.promise for a in answers if "policy" in a.point}
    points = {policy: _points(results, name, series, policy, promised) for policy in POLICIES}
    erm_series = [s for s in series if s[:2] == ("erm", "xz") and (shippable is None or s.recipe == BASE)]
    erm = series.index(erm_series[0]) if erm_series else None
    scopes = {**points, BOTH: [point for policy in POLICIES for point in points[policy]]}
    audits: dict[str, dict[str, Any] | None] = dict.fromkeys(POLICIES)
    if shippable is not None:
        audits = dict.fromkeys(POLICIES, _audit_of_plain(shippable, plain_audit))
    elif erm_series:
        audits = {policy: _audit(results, name, erm_series[0], policy) for policy in POLICIES}
    limit = results.limit(name)
    return {
        "name": name,
        "about": about,
        "labels": [str(label) for label in about["labels"]],
        "groups": list(group_names(about)),
        "series": [
            {"label": label, "method": s.method, "colour": s.colour, "marker": s.marker}
            | {"hollow": s.inputs == "x", "main": s in main, "knob": "λ"}
            | (_named(s) if shippable is not None else {})
            for s, label in called.items()
        ],
        "points": points,
        "envelopes": {scope: _hulls(listed, len(series)) for scope, listed in scopes.items()},
        "ship": None if shippable is None else _offered(shippable, results, plain_audit),
        "erm": erm,
        "audits": audits,
        "limit": None if limit is None else _corners(limit),
        "notes": _notes(results, name, audits["deterministic"], called),
    }


def _points(
    results: Results, dataset: str, series: list[Series], policy: str, promised: Mapping[PointKey, Any]
) -> list[dict[str, Any]]:
    """Every trained point: means, standard deviations, single runs by fold and seed, and rates."""
    shown_points = []
    for place, s in enumerate(series):
        mean = select(results.mean, dataset=dataset, policy=policy, **s._asdict())
        runs = select(results.columns, dataset=dataset, policy=policy, status="ok", **s._asdict())
        for i in np.argsort(mean["trade_off"], kind="stable"):
            trade_off, lost = mean["trade_off"][i], int(mean["lost"][i])
            folds = select(runs, trade_off=trade_off)
            order = np.lexsort((folds["seed"], folds["fold"]))
            cuts = folds["threshold"][np.isfinite(folds["threshold"])]
            promise = promised.get(PointKey(*s, float(trade_off), policy), {})
            counts = np.sum(list(folds["counts"][_first_seed(folds)]), 0) if len(order) else None
            point = {
                "series": place,
                "trade_off": _plain(trade_off),
                "folds": int(mean["folds"][i]),
                "lost": lost,
                "threshold": _plain(cuts.mean()) if len(cuts) else None,
                "mean": {m: _plain(mean[m][i]) for m in leading_metrics()} | {m: x[0] for m, x in promise.items()},
                "sd": {m: _plain(mean[f"{m}_sd"][i]) for m in leading_metrics()}
                | {m: x[1] for m, x in promise.items()},
                "runs": {m: [_plain(x) for x in folds[m][order]] for m in leading_metrics()},
                "rates": None if counts is None else rates_of(counts),
            }
            if lost and counts is not None:  # fewer rows than the data have
                point["cells"] = counts.sum(2).round().tolist()
            shown_points.append(point)
    return shown_points


def _hulls(points: list[dict[str, Any]], series: int) -> dict[str, Any]:
    """The points on each envelope, strictest first: by pair of axes, for all series and for one.

    Utility, accuracy and violation of a revealed mixture are the weighted means of its parts, and
    its EO gap is at most that: the concave envelope is reached. The AUROC of a mixture is not a
    mean, so only its Pareto points are listed. Points that lost a fold take no part.
    """
    out: dict[str, Any] = {}
    for x in leading_budgets():
        for y in leading_objectives():
            whole = [not p["lost"] and None not in (p["mean"][x], p["mean"][y]) for p in points]
            for scope in (EVERYTHING, *range(series)):
                wanted = [scope in (EVERYTHING, p["series"]) for p in points]
                place = np.flatnonzero(np.array(whole, bool) & np.array(wanted, bool)).tolist()
                a, b = (np.array([points[i]["mean"][m] for i in place]) for m in (x, y))
                index = concave_envelope(a, b).index if place and METRICS[y].mixes else pareto(a, b)
                out.setdefault(x, {}).setdefault(y, {})[str(scope)] = [place[i] for i in index]
    return out


def _first_seed(runs: Columns) -> NDArray[np.bool_]:
    return np.asarray(runs["seed"] == runs["seed"].min())


def pooled(results: Results, dataset: str, series: Series, policy: str, trade_off: float) -> CountTable | None:
    """The out-of-fold predictions of all rows as one table, for the first seed; None without any."""
    runs = select(results.columns, dataset=dataset, policy=policy, status="ok", **series._asdict())
    runs = select(runs, trade_off=trade_off)
    if not len(runs["seed"]):
        return None
    counts, squares = (list(runs[name][_first_seed(runs)]) for name in ("counts", "squares"))
    known = None if any(square is None for square in squares) else np.sum(squares, 0)
    about = results.about[dataset]
    labels, groups = (tuple(map(from_plain, about[name])) for name in ("labels", "groups"))
    return held_out_table(labels, groups, np.sum(counts, 0), known)


def _audit(results: Results, dataset: str, series: Series, policy: str) -> dict[str, Any] | None:
    """The audit of ERM's out-of-fold predictions; None where none of its runs has ended."""
    points = select(results.mean, dataset=dataset, policy=policy, **series._asdict())
    table = pooled(results, dataset, series, policy, float(points["trade_off"].min()))
    if table is None:
        return None
    try:
        audit = Audit.from_table(table, CONFIDENCE)
    except InputError as error:  # a single group or label: nothing to audit, and this says why
        return {"measures": [], "notes": [str(error)]}
    return {"measures": named_rows(measures(audit)), "notes": list(audit.notes)}


def _notes(results: Results, dataset: str, audit: dict[str, Any] | None, series: dict[Series, str]) -> list[str]:
    """What these records cannot tell, one sentence each."""
    about = results.about[dataset]
    missing = ["ERM ([Z|X]) was not run, so there is no audit of an unconstrained model."]
    notes = missing if audit is None else list(audit["notes"])
    runs = select(results.columns, dataset=dataset, policy="deterministic")
    folds = len(set(runs["fold"].tolist()))
    cells = np.array(about["cells"])
    y, z = np.unravel_index(int(np.where(cells > 0, cells, cells.max() + 1).argmin()), cells.shape)
    smallest = cells[y, z] / max(folds, 1)
    notes.append(
        f"The smallest cell that has rows, (Y = {about['labels'][y]}, {group_names(about)[z]}), has {cells[y, z]:,}, "
        f"about {smallest:.3g} in one test fold: a rate there has a standard error of up to "
        f"{0.5 / np.sqrt(max(smallest, 1)):.2g}, and a smaller EO gap of hard decisions is mostly luck."
    )
    for s, label in series.items():
        records = select(runs, **s._asdict())
        lost = records["status"] != "ok"
        if lost.any():
            counted = sorted(Counter(records["status"][lost].tolist()).items())
            kinds = ", ".join(f"{n} {kind}" for kind, n in counted)
            notes.append(
                f"{label}: {lost.sum()} of {len(lost)} runs were lost ({kinds}; "
                f"{records['message'][lost][0]}). Points that lost a fold are on no envelope."
            )
    line = secant_price(select(results.mean, dataset=dataset, policy="randomized"))
    if line is not None:
        notes.append(
            f"Between ERM without and with the group, each nat of violation buys {line.slope:.3g} "
            "nats of utility. By concavity, less violation than the former's costs at least that."
        )
    if (results.folder / MANIFEST).is_file():
        manifest = read_manifest(results.folder)
        notes = [str(manifest["base"]["note"]), *map(str, manifest["notes"]), *notes]
    if results.limit(dataset) is None:
        notes.append("The limit of decisions was not computed for these records.")
    if len(about["labels"]) > 2:
        notes.append(
            "AUROC is the macro average over the labels, one against the rest; rates are those of the right label."
        )
    return notes


def _offered(shippable: Shippable, results: Results, audit: Audit | None) -> dict[str, Any]:
    """What the page shows first: the sentence, the answers, the commands, ROC curves, the limit.

    `audit` is that of the plain model, where there is one: its numbers tell the identity.
    """
    folder = str(results.folder)
    axes = (shippable.gap, "accuracy") if shippable.aim == "accuracy" else ("violation", "utility")
    compared = shippable.criteria()
    best = shippable.shipped()
    curve = next((c for c in results.curves if c.name == LIMITS.get(axes)), None)
    # the criteria have a table of their own
    offered = [a for a in shippable.answers if a.kind not in ("criterion", "choice") or a is best]
    return {
        "sentence": shippable.sentence(),
        "explained": shippable.explained(),
        "axes": axes,
        "answers": [_answer(shippable, a, folder, best) for a in offered],
        "criteria": None if compared is None else asdict(compared),
        "identity": None if audit is None else identity(audit.table.counts),
        "start": offered.index(best),
        "plain": offered.index(shippable.first("plain")),
        "limit": None if curve is None else list(_corners(curve).values()),
        "largest": shippable.largest(_MOST_CURVES),
        "palette": list(PALETTE),
    }


def _answer(shippable: Shippable, answer: Answer, folder: str, best: Answer) -> dict[str, Any]:
    """An answer for the page; what the first sentence ships has the command that the terminal says."""
    asked = shippable.ships or answer if answer is best else answer
    method = answer.point["method"] if answer.kind in ("trained", "chosen") else "postprocessing"
    shown: dict[str, Any] = {"kind": "decisions", "note": ""} if answer.kind == "choice" else {}
    return (
        asdict(answer)
        | shown
        | {
            "name": shippable.short(answer),
            "about": KINDS[answer.kind],
            "colour": BLIND
            if answer.blind
            else "#000000"
            if answer.kind == "constant"
            else methods.style(method).colour,
            "recognised": shippable.recognised(answer),
            "command": shippable.command(folder, asked),
            "python": shippable.python(folder, asked),
        }
    )


def _named(series: Series) -> dict[str, str]:
    """What a trace calls the points around its base model."""
    known = " without the group" if series.inputs == "x" else ""
    if series.recipe == BASE:
        return {"label": f"plain model{known}"}
    if " within " not in series.recipe:
        return {}
    aim, budget = series.recipe.split(" within ")
    label = f"solved: {METRICS[aim].label} within {METRICS[budget].label}{known}"
    return {"label": label, "knob": METRICS[budget].label}


def _audit_of_plain(shippable: Shippable, audit: Audit | None) -> dict[str, Any]:
    """The plain model: its promise, then what only an audit says."""
    plain = shippable.first("plain")
    rows = []
    for name in ("accuracy", "auroc", "eo_gap", "violation", "utility"):
        if name in plain.promise:
            value, error = plain.promise[name]
            unit = "; nats" if METRICS[name].nats else ""
            noise = f"; pure chance shows {plain.floor:.4f}" if name == "eo_gap" and plain.floor is not None else ""
            cells = {"name": METRICS[name].label, "value": number(name, value)}
            rows.append(cells | {"note": f"± {error:.2g} on unseen rows{unit}{noise}"})
    if audit is None:
        return {"measures": rows, "notes": []}
    promised = ("violation v", "utility u", "equalized-odds gap", "accuracy", "shuffled groups")
    more = [row for row in named_rows(measures(audit)) if not row["name"].startswith(promised)]
    low, high = audit.violation_interval
    if audit.estimable:
        ends = f"{number('violation', low)} … {number('violation', high)}"
        more.insert(0, {"name": "interval of v", "value": ends, "note": f"at {percent(audit.confidence)}"})
    return {"measures": [*rows, *more], "notes": list(audit.notes)}


def _without_paths(about: dict[str, Any]) -> dict[str, Any]:
    """The description without folders: a page must not tell where files lay."""
    card = about["card"]
    read_from = {PurePath(file).name: digest for file, digest in card["read_from"].items()}
    path = PurePath(card["source"])
    source = path.name if path.is_absolute() else card["source"]
    return about | {"card": card | {"read_from": read_from, "source": source}}


def _corners(curve: ReferenceCurve) -> dict[str, list[float]]:
    hull = concave_envelope(curve.violation, curve.utility)
    return {"violation": hull.violation.tolist(), "utility": hull.utility.tolist()}


def _plain(x: Any) -> float | None:
    """A number as JSON has it; nothing for NaN."""
    return float(x) if np.isfinite(x) else None
