"""The content of the report's page as plain data: points, envelopes, rates, audits, notes.

All numbers are computed here from the records; the page's script only mixes two points and puts an
interval around a rate.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from scipy.special import ndtri

from separatrix.auditing.pages import measures
from separatrix.auditing.result import Audit
from separatrix.columns.groups import from_plain, group_name
from separatrix.core import information
from separatrix.core.counts import CountTable
from separatrix.core.envelope import concave_envelope, pareto
from separatrix.core.measures import METRICS, leading_budgets, leading_metrics, leading_objectives
from separatrix.errors import InputError
from separatrix.frontier.answers import BASE
from separatrix.frontier.offered import audit_of_plain, named, offered, promised
from separatrix.frontier.path_tables import secant_price
from separatrix.frontier.results import Results
from separatrix.frontier.series import Series, legend_names, main_series
from separatrix.frontier.series import series as series_of
from separatrix.frontier.shippable import Shippable
from separatrix.frontier.tidy import select
from separatrix.frontier.traced import MANIFEST, read_manifest
from separatrix.io import write_whole
from separatrix.methods import POLICIES
from separatrix.report.audit_page import named_rows
from separatrix.report.page import render
from separatrix.statistics.certificates import default_composition, violation_bound

__all__ = ["content", "page", "pooled", "write"]

EVERYTHING = "all"
BOTH = "both"  # policies: the points of the first, then those of the second


def write(
    folder: str | Path,
    path: str | Path,
    *,
    confidence: float = 0.95,
    plain_audit: Audit | None = None,
) -> Path:
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


def _dataset(
    results: Results, name: str, confidence: float, plain_audit: Audit | None
) -> dict[str, Any]:
    about = _without_paths(results.about[name])
    series = series_of(select(results.mean, dataset=name))
    labels, main = legend_names(series), set(main_series(results.mean, name))
    points = {policy: _points(results, name, series, policy) for policy in POLICIES}
    both = [point for policy in POLICIES for point in points[policy]]
    shippable = Shippable.of(results)
    if shippable is not None:
        promised(points, series, shippable)
    scopes = {**points, BOTH: both}
    hulls = {name: _hulls(listed, len(series)) for name, listed in scopes.items()}
    certain = {id(both[i]) for i in _listed(hulls[BOTH])}
    for policy in POLICIES:
        certain |= {id(points[policy][i]) for i in _listed(hulls[policy])}
        _measure(results, name, series, policy, points[policy], certain, confidence)
    limit = results.limit(name)
    plain = [s.method == "erm" and s.inputs == "xz" for s in series]
    if shippable is not None:
        plain = [found and s.recipe == BASE for found, s in zip(plain, series, strict=True)]
    erm = plain.index(True) if any(plain) else None
    audits: dict[str, dict[str, Any] | None]
    if shippable is not None:
        audits = dict.fromkeys(POLICIES, audit_of_plain(shippable, plain_audit))
    else:
        audits = {p: _audit(results, name, series, erm, p, confidence) for p in POLICIES}
    return {
        "name": name,
        "about": about,
        "labels": [str(label) for label in about["labels"]],
        "groups": [group_name(from_plain(group)) for group in about["groups"]],
        "series": [
            {"label": label, "method": s.method, "colour": s.colour, "marker": s.marker}
            | {"hollow": s.inputs == "x", "main": s in main, "knob": "λ"}
            | (named(s) if shippable is not None else {})
            for s, label in zip(series, labels, strict=True)
        ],
        "points": points,
        "envelopes": hulls,
        "ship": None if shippable is None else offered(shippable, results, plain_audit),
        "erm": erm,
        "audits": audits,
        "limit": None if limit is None else _curve(limit.violation, limit.utility),
        "notes": _notes(results, name, series, labels, erm),
    }


def _points(
    results: Results, dataset: str, series: list[Series], policy: str
) -> list[dict[str, Any]]:
    """Every trained point: means, standard deviations and single runs by fold and seed."""
    found = []
    for place, s in enumerate(series):
        mean = select(results.mean, dataset=dataset, policy=policy, **s._asdict())
        runs = select(results.columns, dataset=dataset, policy=policy, status="ok", **s._asdict())
        for i in np.argsort(mean["trade_off"], kind="stable"):
            trade_off = mean["trade_off"][i]
            own = select(runs, trade_off=trade_off)
            order = np.lexsort((own["seed"], own["fold"]))
            cuts = own["threshold"][np.isfinite(own["threshold"])]
            found.append(
                {
                    "series": place,
                    "trade_off": _plain(trade_off),
                    "folds": int(mean["folds"][i]),
                    "lost": int(mean["lost"][i]),
                    "threshold": _plain(cuts.mean()) if len(cuts) else None,
                    "mean": {m: _plain(mean[m][i]) for m in leading_metrics()},
                    "sd": {m: _plain(mean[f"{m}_sd"][i]) for m in leading_metrics()},
                    "runs": {m: [_plain(x) for x in own[m][order]] for m in leading_metrics()},
                }
            )
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


def _measure(
    results: Results,
    dataset: str,
    series: list[Series],
    policy: str,
    points: list[dict[str, Any]],
    certain: set[int],
    confidence: float,
) -> None:
    """Add to each point its rates, and to those on an envelope the certified bound on v."""
    for point in points:
        table = pooled(results, dataset, series[point["series"]], policy, point["trade_off"])
        rates = () if table is None else shown_rates(table)
        point["rates"] = [[_plain(r) for r in row] for row in rates] or None
        if point["lost"] and table is not None:  # fewer rows than the data have
            point["cells"] = table.counts.sum(2).round().tolist()
        # half the error each, so that the bounds of the two parts of a mixture hold at once
        wanted = table is not None and id(point) in certain
        point["upper"] = _certified(table, (1 + confidence) / 2) if wanted and table else None


def _certified(table: CountTable, confidence: float) -> float | None:
    """The bound on v, where it says more than that v ≤ H(Z|Y)."""
    composition = default_composition(table)
    upper = violation_bound(table, confidence, composition=composition)
    return upper if upper < information.violation_ceiling(table.counts) * (1 - 1e-9) else None


def _listed(hulls: dict[str, Any]) -> set[int]:
    """The points on any of the envelopes."""
    scopes = [by_scope.values() for by_y in hulls.values() for by_scope in by_y.values()]
    return {i for lists in scopes for points in lists for i in points}


def pooled(
    results: Results, dataset: str, series: Series, policy: str, trade_off: float | None
) -> CountTable | None:
    """The out-of-fold predictions of all rows as one table, for the first seed.

    The records of the randomised policy hold sums of posteriors but not of their squares. The
    second moments are taken as large as possible, those of drawn decisions, so that every bound
    errs on the wide side.
    """
    runs = select(results.columns, dataset=dataset, policy=policy, status="ok", **series._asdict())
    runs = select(runs, trade_off=trade_off)
    if not len(runs["seed"]):
        return None
    seeds = runs["seed"]
    tables = [c for c, seed in zip(runs["counts"], seeds, strict=True) if seed == seeds.min()]
    counts = np.sum(tables, 0)
    about = results.about[dataset]
    labels, groups = (tuple(map(from_plain, about[name])) for name in ("labels", "groups"))
    whole = np.array_equal(counts, counts.round())  # the mean of several members is not
    moments = None if whole else counts[..., None] * np.eye(counts.shape[-1])
    return CountTable(counts, labels, groups, labels, rows=round(counts.sum()), moments=moments)


def shown_rates(table: CountTable) -> np.ndarray:
    """P(U = 2nd label | y, z) for two labels, else P(U = y | y, z); NaN without rows."""
    rates = information.conditional_rates(table.counts)
    return rates[:, :, 1] if rates.shape[2] == 2 else np.einsum("yzy->yz", rates)


def _audit(
    results: Results,
    dataset: str,
    series: list[Series],
    erm: int | None,
    policy: str,
    confidence: float,
) -> dict[str, Any] | None:
    """The audit of ERM's out-of-fold predictions."""
    if erm is None:
        return None
    table = _erm_table(results, dataset, series[erm], policy)
    try:
        audit = None if table is None else Audit.of(table, confidence)
    except InputError as error:  # a single group or label: nothing to audit, and this says why
        return {"measures": [], "notes": [str(error)]}
    if audit is None:
        return None
    rows = named_rows(measures(audit))
    notes = list(audit.notes)
    if policy == "randomized":
        rows = [row for row in rows if not row["name"].startswith("test of")]
        rows[0] = rows[0] | {"note": "nats; plug-in"}
        notes.append(
            "The records keep sums of posteriors, not of their squares: for the randomised policy "
            "the bound holds but is wider than it need be, and no bias correction, interval or "
            "test is given. `separatrix audit` on the held-out posteriors gives them."
        )
    return {"measures": rows, "notes": notes}


def _erm_table(results: Results, dataset: str, series: Series, policy: str) -> CountTable | None:
    part = select(results.mean, dataset=dataset, policy=policy, **series._asdict())
    return pooled(results, dataset, series, policy, float(part["trade_off"].min()))


def _notes(
    results: Results, dataset: str, series: list[Series], labels: list[str], erm: int | None
) -> list[str]:
    """What these records cannot tell, one sentence each."""
    about = results.about[dataset]
    notes = []
    table = None if erm is None else _erm_table(results, dataset, series[erm], "deterministic")
    if erm is None:
        notes.append("ERM ([Z|X]) was not run, so there is no audit of an unconstrained model.")
    elif table is not None:
        try:
            notes += Audit.of(table).notes
        except InputError as error:
            notes.append(str(error))
        if _certified(table, 0.95) is None:
            notes.append("No bound on v below H(Z|Y) can be certified with so few rows.")
    runs = select(results.columns, dataset=dataset, policy="deterministic")
    folds = len(set(runs["fold"].tolist()))
    cells = np.array(about["cells"])
    y, z = np.unravel_index(int(np.where(cells > 0, cells, cells.max() + 1).argmin()), cells.shape)
    smallest = cells[y, z] / max(folds, 1)
    notes.append(
        f"The smallest cell that has rows, (Y = {about['labels'][y]}, {about['groups'][z]}), has "
        f"{cells[y, z]:,}, about {smallest:.3g} in one test fold: a rate there has a standard "
        f"error of up to {0.5 / np.sqrt(max(smallest, 1)):.2g}, and a smaller EO gap of hard "
        "decisions is mostly luck."
    )
    for s, label in zip(series, labels, strict=True):
        lost = select(runs, status=["diverged", "error", "timeout"], **s._asdict())
        if len(lost["status"]):
            counted = sorted(Counter(lost["status"].tolist()).items())
            kinds = ", ".join(f"{n} {kind}" for kind, n in counted)
            total = len(select(runs, **s._asdict())["status"])
            notes.append(
                f"{label}: {len(lost['status'])} of {total} runs were lost ({kinds}; "
                f"{lost['message'][0]}). Points that lost a fold are on no envelope."
            )
    line = secant_price(select(results.mean, dataset=dataset, policy="randomized"))
    if line is not None:
        notes.append(
            f"Between ERM without and with the group, each nat of violation buys {line.slope:.3g} "
            "nats of utility. By concavity, less violation than the former's costs at least that."
        )
    manifest = results.folder / MANIFEST
    if manifest.is_file():
        told = read_manifest(results.folder)
        notes = [str(told["base"]["note"]), *map(str, told["notes"]), *notes]
    if results.limit(dataset) is None:
        notes.append("The limit of decisions was not computed for these records.")
    if len(about["labels"]) > 2:
        notes.append(
            "AUROC is the macro average over the labels, one against the rest; rates are those "
            "of the right label."
        )
    return notes


def _without_paths(about: dict[str, Any]) -> dict[str, Any]:
    """The description without folders: a page must not tell where files lay."""
    card = about["card"]
    read_from = {PurePath(file).name: digest for file, digest in card["read_from"].items()}
    path = PurePath(card["source"])
    source = path.name if path.is_absolute() else card["source"]
    return about | {"card": card | {"read_from": read_from, "source": source}}


def _curve(violation: Any, utility: Any) -> dict[str, list[Any]]:
    hull = concave_envelope(violation, utility)
    return {"violation": hull.violation.tolist(), "utility": hull.utility.tolist()}


def _plain(x: Any) -> float | None:
    """A number as JSON has it; nothing for NaN."""
    return float(x) if np.isfinite(x) else None
