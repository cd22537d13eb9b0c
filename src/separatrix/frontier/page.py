"""The content of the report's page as plain data: answers, points, envelopes, rates, audits, notes.

All numbers are computed here from the records; the page's script only mixes two points and puts an
interval around a rate. The points of a trace's records get the promise of their answer, so that the
page says of a model what the terminal and the model card say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from scipy.special import ndtri

from separatrix import methods
from separatrix.auditing.result import Audit
from separatrix.columns.groups import from_plain, group_name
from separatrix.core import information
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
from separatrix.frontier.answers import BASE, KINDS, UNCHANGED, Answer, Shippable
from separatrix.frontier.figures import BLIND, LIMITS
from separatrix.frontier.results import Results, Series, main_series, named_series, select
from separatrix.frontier.store import ReferenceCurve
from separatrix.frontier.tables import secant_price
from separatrix.frontier.traced import MANIFEST, read_manifest
from separatrix.io import write_whole
from separatrix.methods import POLICIES
from separatrix.report.audit_page import PALETTE, named_rows
from separatrix.report.audits import measures
from separatrix.report.page import render
from separatrix.report.words import number, percent

EVERYTHING = "all"
BOTH = "both"  # policies: the points of the first, then those of the second
_MOST_CURVES = 8  # of groups in one ROC figure


def write(folder: str | Path, path: str | Path, *, confidence: float = 0.95, plain_audit: Audit | None = None) -> Path:
    """Write the report of a folder of records.

    Args:
        folder: that `trace` or `benchmark` wrote.
        path: of the HTML file; written whole or not at all.
        confidence: of the intervals and bounds.
        plain_audit: of a trace, the audit of the plain model's decisions on unseen rows.

    Returns:
        The path.
    """
    place = Path(path)
    write_whole(place, page(folder, confidence=confidence, plain_audit=plain_audit))
    return place


def page(folder: str | Path, *, confidence: float = 0.95, plain_audit: Audit | None = None) -> str:
    """The report as text."""
    return render(content(Results.read(folder), str(folder), confidence, plain_audit))


def content(
    results: Results, folder: str, confidence: float = 0.95, plain_audit: Audit | None = None
) -> dict[str, Any]:
    """The whole page as plain JSON; see `write`."""
    from separatrix import __version__

    information.check_confidence(confidence)
    return {
        "version": __version__,
        "folder": folder,
        "models": any((Path(folder) / "models").glob("*.safetensors")),
        "confidence": confidence,
        "metrics": [
            {"name": name, "label": m.label, "axis": m.axis, "nats": m.nats, "mixes": m.mixes}
            | {"lower": m.lower_is_better}
            for name, m in METRICS.items()
            if m.leads
        ],
        "quantile": float(ndtri((1 + confidence) / 2)),
        "datasets": [_dataset(results, name, confidence, plain_audit) for name in results.datasets],
    }


def _dataset(results: Results, name: str, confidence: float, plain_audit: Audit | None) -> dict[str, Any]:
    about = _without_paths(results.about[name])
    called = dict(named_series(select(results.mean, dataset=name)))
    series, main = list(called), set(main_series(results.mean, name))
    points = {policy: _points(results, name, series, policy) for policy in POLICIES}
    shippable = Shippable.of(results)
    own = [s for s in series if (s.method, s.inputs) == ("erm", "xz")]
    if shippable is not None:
        _promise(points, series, shippable)
        own = [s for s in own if s.recipe == BASE]
    erm = series.index(own[0]) if own else None
    scopes = {**points, BOTH: [point for policy in POLICIES for point in points[policy]]}
    tables = {p: _erm_table(results, name, own[0], p) if own else None for p in POLICIES}
    audits = {policy: _audit(tables[policy], policy, confidence) for policy in POLICIES}
    if shippable is not None:
        audits = dict.fromkeys(POLICIES, _audit_of_plain(shippable, plain_audit))
    limit = results.limit(name)
    return {
        "name": name,
        "about": about,
        "labels": [str(label) for label in about["labels"]],
        "groups": _groups(about),
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
        "notes": _notes(results, name, tables["deterministic"], called),
    }


def _points(results: Results, dataset: str, series: list[Series], policy: str) -> list[dict[str, Any]]:
    """Every trained point: means, standard deviations, single runs by fold and seed, and rates."""
    found = []
    for place, s in enumerate(series):
        mean = select(results.mean, dataset=dataset, policy=policy, **s._asdict())
        runs = select(results.columns, dataset=dataset, policy=policy, status="ok", **s._asdict())
        for i in np.argsort(mean["trade_off"], kind="stable"):
            trade_off, lost = mean["trade_off"][i], int(mean["lost"][i])
            own = select(runs, trade_off=trade_off)
            order = np.lexsort((own["seed"], own["fold"]))
            cuts = own["threshold"][np.isfinite(own["threshold"])]
            table = pooled(results, dataset, s, policy, trade_off)
            rates = [] if table is None else _shown_rates(table).tolist()
            point = {
                "series": place,
                "trade_off": _plain(trade_off),
                "folds": int(mean["folds"][i]),
                "lost": lost,
                "threshold": _plain(cuts.mean()) if len(cuts) else None,
                "mean": {m: _plain(mean[m][i]) for m in leading_metrics()},
                "sd": {m: _plain(mean[f"{m}_sd"][i]) for m in leading_metrics()},
                "runs": {m: [_plain(x) for x in own[m][order]] for m in leading_metrics()},
                "rates": [[_plain(r) for r in row] for row in rates] or None,
            }
            if lost and table is not None:  # fewer rows than the data have
                point["cells"] = table.counts.sum(2).round().tolist()
            found.append(point)
    return found


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


def pooled(results: Results, dataset: str, series: Series, policy: str, trade_off: float | None) -> CountTable | None:
    """The out-of-fold predictions of all rows as one table, for the first seed.

    The records of the randomised policy hold sums of posteriors but not of their squares. The
    second moments are taken as large as possible, those of drawn decisions, so that every bound
    errs on the wide side.
    """
    runs = select(results.columns, dataset=dataset, policy=policy, status="ok", **series._asdict())
    runs = select(runs, trade_off=trade_off)
    if not len(runs["seed"]):
        return None
    counts = np.sum(list(runs["counts"][runs["seed"] == runs["seed"].min()]), 0)
    about = results.about[dataset]
    labels, groups = (tuple(map(from_plain, about[name])) for name in ("labels", "groups"))
    whole = np.array_equal(counts, counts.round())  # the mean of several members is not
    moments = None if whole else counts[..., None] * np.eye(counts.shape[-1])
    return CountTable(counts, labels, groups, labels, rows=round(counts.sum()), moments=moments)


def _erm_table(results: Results, dataset: str, series: Series, policy: str) -> CountTable | None:
    part = select(results.mean, dataset=dataset, policy=policy, **series._asdict())
    return pooled(results, dataset, series, policy, float(part["trade_off"].min()))


def _shown_rates(table: CountTable) -> np.ndarray:
    """P(U = 2nd label | y, z) for two labels, else P(U = y | y, z); NaN without rows."""
    rates = information.conditional_rates(table.counts)
    return rates[:, :, 1] if rates.shape[2] == 2 else np.einsum("yzy->yz", rates)


def _audit(table: CountTable | None, policy: str, confidence: float) -> dict[str, Any] | None:
    """The audit of ERM's out-of-fold predictions."""
    if table is None:
        return None
    try:
        audit = Audit.from_table(table, confidence)
    except InputError as error:  # a single group or label: nothing to audit, and this says why
        return {"measures": [], "notes": [str(error)]}
    rows, notes = named_rows(measures(audit)), list(audit.notes)
    if policy == "randomized":
        rows = [row for row in rows if not row["name"].startswith("test of")]
        rows[0] = rows[0] | {"note": "nats; plug-in"}
        notes.append(
            "The records keep sums of posteriors, not of their squares: for the randomised policy "
            "the bound holds but is wider than it need be, and no bias correction, interval or "
            "test is given. `separatrix audit` on the held-out posteriors gives them."
        )
    return {"measures": rows, "notes": notes}


def _notes(results: Results, dataset: str, erm: CountTable | None, series: dict[Series, str]) -> list[str]:
    """What these records cannot tell, one sentence each."""
    about = results.about[dataset]
    notes = []
    if erm is None:
        notes.append("ERM ([Z|X]) was not run, so there is no audit of an unconstrained model.")
    else:
        try:
            notes += Audit.from_table(erm).notes
        except InputError as error:
            notes.append(str(error))
    runs = select(results.columns, dataset=dataset, policy="deterministic")
    folds = len(set(runs["fold"].tolist()))
    cells = np.array(about["cells"])
    y, z = np.unravel_index(int(np.where(cells > 0, cells, cells.max() + 1).argmin()), cells.shape)
    smallest = cells[y, z] / max(folds, 1)
    notes.append(
        f"The smallest cell that has rows, (Y = {about['labels'][y]}, {_groups(about)[z]}), has "
        f"{cells[y, z]:,}, about {smallest:.3g} in one test fold: a rate there has a standard "
        f"error of up to {0.5 / np.sqrt(max(smallest, 1)):.2g}, and a smaller EO gap of hard "
        "decisions is mostly luck."
    )
    for s, label in series.items():
        own = select(runs, **s._asdict())
        lost = own["status"] != "ok"
        if lost.any():
            counted = sorted(Counter(own["status"][lost].tolist()).items())
            kinds = ", ".join(f"{n} {kind}" for kind, n in counted)
            notes.append(
                f"{label}: {lost.sum()} of {len(lost)} runs were lost ({kinds}; "
                f"{own['message'][lost][0]}). Points that lost a fold are on no envelope."
            )
    line = secant_price(select(results.mean, dataset=dataset, policy="randomized"))
    if line is not None:
        notes.append(
            f"Between ERM without and with the group, each nat of violation buys {line.slope:.3g} "
            "nats of utility. By concavity, less violation than the former's costs at least that."
        )
    if (results.folder / MANIFEST).is_file():
        told = read_manifest(results.folder)
        notes = [str(told["base"]["note"]), *map(str, told["notes"]), *notes]
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
    offered = [a for a in shippable.answers if a.kind not in ("criterion", "choice")]
    return {
        "sentence": shippable.sentence(),
        "price": shippable.price_of_blindness(),
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
    """An answer for the page; a plain model that the first sentence ships is one for `select`."""
    asked, ships = answer, shippable.ships
    if answer is best and ships is not None and ships.name in UNCHANGED:
        asked = ships
    colour = methods.style(str(answer.point.get("method", "postprocessing"))).colour
    if answer.kind not in ("trained", "chosen"):
        colour = methods.style("postprocessing").colour
    return answer.to_dict() | {
        "name": shippable.short(answer),
        "about": KINDS[answer.kind],
        "colour": BLIND if answer.blind else "#000000" if answer.kind == "constant" else colour,
        "recognised": shippable.recognised(answer),
        "command": shippable.command(folder, asked),
        "python": shippable.python(folder, asked),
    }


def _promise(points: dict[str, list[dict[str, Any]]], series: list[Series], shippable: Shippable) -> None:
    """Give the points of the records the promise of their answers."""
    names = ("method", "inputs", "recipe", "trade_off", "policy")
    answers = [a for a in shippable.answers if "policy" in a.point]
    known = {tuple(a.point[name] for name in names): a.promise for a in answers}
    for policy, listed in points.items():
        for point in listed:
            own = (*series[point["series"]], point["trade_off"], policy)
            for name, (value, error) in known.get(own, {}).items():
                point["mean"][name], point["sd"][name] = value, error


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
            noise = f"; pure chance shows {plain.floor:.4f}" if name == "eo_gap" else ""
            told = {"name": METRICS[name].label, "value": number(name, value)}
            rows.append(told | {"note": f"± {error:.2g} on unseen rows{unit}{noise}"})
    if audit is None:
        return {"measures": rows, "notes": []}
    promised = ("violation v", "utility u", "equalized-odds gap", "accuracy", "shuffled groups")
    more = [row for row in named_rows(measures(audit)) if not row["name"].startswith(promised)]
    low, high = audit.violation_interval
    if audit.estimable:
        ends = f"{number('violation', low)} … {number('violation', high)}"
        more.insert(0, {"name": "interval of v", "value": ends, "note": f"at {percent(audit.confidence)}"})
    return {"measures": [*rows, *more], "notes": list(audit.notes)}


def _groups(about: dict[str, Any]) -> list[str]:
    """The groups' names, with their columns."""
    return [group_name(from_plain(group), about["sensitive"] or ()) for group in about["groups"]]


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
