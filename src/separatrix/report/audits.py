"""What is said about each kind of audit: decisions, scores, numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.columns.groups import group_name
from separatrix.core.measures import BASE_DEPENDENCE, CRITERIA, identity
from separatrix.report.audit_page import AuditPage, Curve, Curves, Rates, nats
from separatrix.report.words import percent

if TYPE_CHECKING:
    from separatrix.auditing.base import AuditResult
    from separatrix.auditing.continuous import ContinuousAudit
    from separatrix.auditing.result import Audit
    from separatrix.auditing.scores import ScoreAudit

Row = tuple[str, ...]
MOST_CELLS = 8
_MOST_GROUPS = 24
_GAPS = {c.gap_name: c.gap_label for c in (*CRITERIA.values(), BASE_DEPENDENCE)} | {
    "ppv_gap": "PPV gap",
    "npv_gap": "NPV gap",
    "calibration_gap": "calibration gap",
}
SCOPE = (
    "This is about the decision that was audited, not about the score behind it: `audit_score` "
    "looks at every threshold."
)
_LOWER = (
    "The bound on v is a lower one, for large samples: v is larger wherever the bands and bins are too coarse.\n"
    "No upper bound holds without assumptions: with {:,} distinct predictions a digit far behind the point "
    "can tell the attribute. Predictions released at a few values can be bounded."
)
_CELLS = "number", "", "number quiet", "whole", "number quiet", "quiet whole"
_RATES = "", "number quiet", "number", "number", "number"
_RANKS = "", "number quiet", "number", "number quiet", "quiet whole"


def decisions_page(a: Audit) -> AuditPage:
    """Of an audit of decisions."""
    t = a.table
    labels = f"labels {', '.join(map(str, t.labels))}" if len(t.labels) <= 4 else f"{len(t.labels)} labels"
    kind = "decisions" if t.moments is None else "posteriors or weighted rows"
    return AuditPage(
        kind="Separation audit",
        sentence=_seen(a, f"given the same outcome, {_verdict(a.eo_gap, a.eo_gap_floor, a.p_value)}"),
        headline=f"Separation audit of {t.rows:,} rows: {labels}; {_few(t.groups, a.sensitive_columns)}; {kind}",
        measures=measures(a),
        title="Who is affected: the largest parts of the violation",
        table=_cells(a),
        columns=_CELLS,
        criteria=_criteria(a),
        identity=identity(t.counts),
        notes=a.notes,
        scope=f"{_certified(a)}\n{SCOPE}",
        figure=lambda: _rates(a),
    )


def measures(a: Audit) -> list[Row]:
    """The measured values of decisions: name, value, and what to make of it."""
    sure, corrected = percent(a.confidence), f"bias-corrected {nats(a.violation_corrected)}"
    bound = f"{a.guarantee} bound at {sure}"
    gap, accuracy = (
        f"{sure} interval {low:.4f} … {high:.4f}" for low, high in (a.eo_gap_interval, a.accuracy_interval)
    )
    drawn = "" if a.table.moments is None else "; expected, when drawn"
    floor = ("shuffled groups show", nats(a.violation_floor), "a violation of this size is noise")
    return [
        ("equalized-odds gap", f"{a.eo_gap:.4f}", f"between groups, mean over labels; {gap}"),
        ("certified gap", f"≤ {a.eo_gap_upper:.4f}", bound),
        ("gap by chance", f"{a.eo_gap_floor:.4f}", "a gap of this size is noise"),
        ("accuracy", f"{a.accuracy:.4f}", accuracy + drawn),
        ("violation v = I(U;Z|Y)", nats(a.violation), f"nats; {_interval(a)}; {corrected}"),
        *([floor] if len(a.table.labels) > 2 else []),
        ("certified v", f"≤ {nats(a.violation_upper)}", bound),
        _counted_test(a),
        ("auditor bound √(2v)", f"{a.auditor_bound:.4f}", "no check for the group can find more"),
        ("utility u = I(U;Y)", nats(a.utility), "nats"),
    ]


def _cells(a: Audit) -> list[Row]:
    """The cells (label, group) that cause most of v, with the rate that differs most."""
    worst: dict[tuple[Any, Any], dict[str, Any]] = {}
    for row in _rows(a):
        largest = worst.setdefault((row["label"], row["group"]), row)
        away, most = (abs(cell["rate"] - cell["label_rate"]) for cell in (row, largest))
        if away >= most - 1e-12:  # with two labels both rates are equally far: show the last label's
            worst[row["label"], row["group"]] = row
    shown = sorted(worst.values(), key=lambda row: -row["violation"])[:MOST_CELLS]
    return [
        (
            f"{row['violation'] / a.violation:.0%}",
            f"Y = {row['label']}, {group_name(row['group'], a.sensitive_columns)}",
            f"{row['rows']:,.0f} rows",
            f"P(U = {row['prediction']}) = {row['rate']:.3f}",
            f"[{row['low']:.3f}, {row['high']:.3f}]",
            f"all groups {row['label_rate']:.3f}",
        )
        for row in shown
        if row["violation"] > 0
    ]


def _rows(a: Audit) -> list[dict[str, Any]]:
    """`Audit.cells`, row by row."""
    columns = a.cell_columns()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _rates(a: Audit) -> Rates:
    """Rates of all predictions; of two the second tells all."""
    shown = a.table.predictions[-1:] if len(a.table.predictions) == 2 else a.table.predictions
    names = {group: group_name(group, a.sensitive_columns) for group in a.table.groups}
    rows = [row | {"group": names[row["group"]]} for row in _rows(a) if row["prediction"] in shown]
    title = f"EO gap {a.eo_gap:.3f}; v = {nats(a.violation)} nats"
    return Rates(title, list(names.values()), rows)


def score_page(a: ScoreAudit) -> AuditPage:
    """Of an audit of a score."""
    sure = percent(a.confidence)
    negative, positive = a.table.labels
    weighted = "" if a.table.moments is None else "; weighted rows"
    kind = "distinct scores" if a.exact else "bins of scores"
    low, high = a.auroc_interval
    areas = "; ".join(filter(None, [f"{sure} interval {low:.4f} … {high:.4f}", _areas(a)]))
    corrected = f"nats; bias-corrected v {nats(a.violation_corrected)}"
    rows = a.table.counts.sum((0, 2))
    return AuditPage(
        kind="Score audit",
        sentence=_seen(a, f"at its worst threshold, given the same outcome, {_verdict(a.gap, a.gap_floor, a.p_value)}"),
        headline=f"Score audit of {a.table.rows:,} rows: {positive} against {negative}; "
        f"{_few(a.table.groups, a.sensitive_columns)}; {a.distinct:,} {kind}{weighted}",
        measures=[
            ("largest equalized-odds gap", f"{a.gap:.4f}", f"over all thresholds; deciding S > {a.gap_at:.4g}"),
            ("certified gap", f"≤ {a.gap_upper:.4f}", f"finite-sample bound at {sure}, at every threshold at once"),
            ("shuffled groups show", f"{a.gap_floor:.4f}", "a gap of this size is noise"),
            ("AUROC", f"{a.auroc:.4f}", areas),
            ("violation v = I(S;Z|Y)", nats(a.violation), f"nats, score in {a.bins} quantile bins; {_interval(a)}"),
            ("certified v", f"≤ {nats(a.violation_upper)}", f"{a.guarantee} bound at {sure}"),
            ("shuffled groups show", nats(a.violation_floor), corrected),
            _counted_test(a),
        ],
        title=f"Groups at the threshold {a.gap_at:.4g}, where they are farthest apart",
        table=[
            (group_name(group, a.sensitive_columns), f"{weight:,.0f} rows", *_rates_of_score(a, group))
            for group, weight in zip(a.table.groups, rows, strict=True)
        ],
        columns=_RATES,
        criteria=_criteria(a, "S"),
        identity=identity(a.table.counts),
        notes=a.notes,
        scope=_certified(a),
        figure=lambda: _roc(a),
    )


def _roc(a: ScoreAudit) -> Curves:
    """Each group's ROC curve; the dots are the groups at the threshold of the largest gap."""
    negative, positive = a.table.labels
    curves = []
    for group, curve in a.curves.items():
        if not np.isnan([*curve.fpr, *curve.tpr]).any():
            name = group_name(group, a.sensitive_columns)
            label = f"{name} ({a.auroc_by_group[group]:.3f})"
            curves.append(Curve(name, label, curve.fpr, curve.tpr, dot=a.rates[group]))
    return Curves(
        f"largest EO gap {a.gap:.3f} at t = {a.gap_at:.3g}; v = {nats(a.violation)} nats",
        across=f"false-positive rate: P(S > t | Y = {negative})",
        up=f"true-positive rate: P(S > t | Y = {positive})",
        heading=f"ROC curve of each group, the others in grey; the dot is the threshold {a.gap_at:.4g}",
        caption="Across: false-positive rate from 0 to 1. Up: true-positive rate from 0 to 1.",
        curves=curves,
        legend="AUROC",
    )


def numbers_page(a: ContinuousAudit) -> AuditPage:
    """Of an audit of numbers."""
    kind = "a numeric outcome" if a.target == "continuous" else f"{len(a.table.labels)} labels"
    groups = a.sensitive == "groups"
    who = _few(a.groups, a.sensitive_columns) if groups else "a continuous attribute, shown by its quarters"
    low, high = a.violation_interval
    sure = percent(a.confidence)
    shape, what = a.resolution, "groups" if groups else "bins of the attribute"
    cells = f"{shape.bands} bands of outcomes × {shape.groups} {what} × {shape.ranks} bins of ranks"
    seen = f"nats; {sure} interval {nats(low)} … {nats(high)}; {cells}"
    smooth = f"nats, inside {a.blocks:,} blocks of outcomes"
    smaller = f"{smooth}; the smaller, if above 0, is taken off v"
    rows = [
        ("violation v = I(U;Z|Y)", f"≥ {nats(a.violation_lower)}", f"nats, at {sure}"),
        _test(a),
        ("v at this resolution", nats(a.violation_at_resolution), seen),
        ("outcome about attribute", nats(a.outcome_dependence), smooth),
        ("ranks about outcome", nats(a.rank_dependence), smaller),
    ]
    if a.rmse is not None:
        of_all = "" if a.r2 is None else f"R² {a.r2:.4f}"
        rows.insert(0, ("root mean squared error", f"{a.rmse:.4g}", of_all))
    where = "Groups" if groups else "Quarters of the attribute"
    return AuditPage(
        kind="Separation audit",
        sentence=_finding(a),
        headline=f"Separation audit of {a.rows:,} rows: {kind}; {who}; {a.distinct:,} distinct predictions",
        measures=rows,
        title=f"{where} among people with the same outcome: typical percentile of the prediction",
        table=[_place(group_name(group, a.sensitive_columns), *a.ranks[group]) for group in a.groups[:_MOST_GROUPS]],
        columns=_RANKS,
        notes=a.notes,
        scope=_LOWER.format(a.distinct),
        figure=lambda: _medians(a),
    )


def _place(group: str, rows: float, median: float, low: float, high: float, first: float, last: float) -> Row:
    """A group's typical place among people with the same outcome."""
    interval, half = f"[{100 * low:.1f}, {100 * high:.1f}]", f"middle half from {100 * first:.0f} to {100 * last:.0f}"
    return group, f"{rows:,.0f} rows", f"{_percentile(median)} percentile", interval, half


def _finding(a: ContinuousAudit) -> str:
    if not a.estimable:
        return "Nothing can be said about these predictions; the notes say why."
    medians = {group_name(g, a.sensitive_columns): a.ranks[g][1] for g in a.groups}
    low, high = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
    who = f"for {high} are typically at the {_percentile(medians[high])} percentile"
    if low != high:
        who += f", for {low} at the {_percentile(medians[low])}"
    verdict = "Chance alone does not show this" if a.p_value < 0.05 else "Chance shows as much"
    if a.p_value < 0.05 and medians[high] - medians[low] < 0.02:
        verdict = "The groups differ at some outcomes or in their spread, beyond chance"
    return f"Among people with the same outcome, predictions {who}. {verdict}."


def _medians(a: ContinuousAudit) -> Curves:
    """Each group's median rank along the outcome; under separation all lie on the dashed line."""
    labelled = a.target == "labels"
    curves = []
    for group, curve in a.curves.items():
        x = list(range(len(curve.outcome))) if labelled else curve.outcome
        middle, low, high = (list(map(_known, ranks)) for ranks in (curve.median, curve.low, curve.high))
        name = group_name(group, a.sensitive_columns)
        curves.append(Curve(name, name, x, middle, low, high))
    return Curves(
        f"v ≥ {nats(a.violation_lower)} nats, {_p(a.p_value)}",
        across="outcome",
        up="median rank of the prediction\namong people with the same outcome",
        heading="Median rank of each group along the outcome, the others in grey",
        caption="Across: outcomes, low to high. Up: median rank; under separation all groups are on the dashed line.",
        curves=curves,
        even=True,
        ticks=list(map(str, next(iter(a.curves.values())).outcome)) if labelled else (),
    )


def _known(x: float | None) -> float:
    return float("nan") if x is None else x


def _verdict(gap: float, floor: float, p_value: float) -> str:
    """A gap beside what chance shows, in words."""
    finding = "more than chance explains" if p_value < 0.05 else "no more than chance explains"
    return f"groups differ by {gap:.3f} (by chance: {floor:.3f}): {finding}."


def _seen(a: Audit | ScoreAudit, finding: str) -> str:
    """A finding as a sentence; first, where that is so, that it is not about all groups."""
    if not a.unseen:
        return finding[0].upper() + finding[1:]
    return f"No rows show (label, group) {a.unseen}: that part of the gap is not known. For the others, {finding}"


def _few(groups: Sequence[Hashable], columns: Sequence[str]) -> str:
    """The groups by name, or how many where they are more than four."""
    if len(groups) > 4:
        return f"{len(groups)} groups" + f" of {' & '.join(columns)}" * bool(columns)
    return f"groups {', '.join(group_name(group, columns) for group in groups)}"


def _interval(a: Audit | ScoreAudit) -> str:
    """The interval of v."""
    low, high = a.violation_interval
    return f"{percent(a.confidence)} interval {nats(low)} … {nats(high)}" if a.estimable else "no interval"


def _test(a: AuditResult, least: bool = False) -> Row:
    """The row of the test of v = 0; whether its p-value is the least that shuffles can show."""
    value = f"p ≤ {a.p_value:.2g}" if least else _p(a.p_value)
    return "test of v = 0", value, "" if a.p_value < 0.05 else "separation is not rejected"


def _counted_test(a: Audit | ScoreAudit) -> Row:
    return _test(a, a.table.moments is None and a.p_value < 1.0005e-3 and a.violation > 0)


def _p(p_value: float) -> str:
    return "p < 0.001" if p_value < 1e-3 else f"p = {p_value:.2g}"


def _criteria(a: Audit | ScoreAudit, letter: str = "U") -> list[Row]:
    """The criteria beside separation: information, test and gaps; `letter` is what was audited."""
    rows: list[Row] = []
    for name, dependence in a.criteria.items():
        kind = BASE_DEPENDENCE if name == BASE_DEPENDENCE.name else CRITERIA[name]
        gaps = []
        for gap, x in dependence.gaps.items():
            ends = "" if x.interval is None else " [{:.3f}, {:.3f}]".format(*x.interval)
            value = "unknown" if x.value is None else f"{x.value:.3f}"
            gaps.append(f"{_GAPS[gap]} {value}{ends}")
        title = f"{name.replace('_', ' ')} {kind.symbol.replace('U', letter)}"
        test = "p < 0.001" if dependence.p_value <= 1e-3 else _p(dependence.p_value)
        rows.append((title, nats(dependence.value), test, "; ".join(gaps)))
    return rows


def _certified(a: Audit | ScoreAudit) -> str:
    """What the bound on v promises, in plain words."""
    said = f"The bound on v: {a.guarantee}, {a.composition} composition: it {a.promise}."
    if a.simulated_failure is None:
        return said
    return f"{said} On simulated tables like this one, with v at its bound, it failed in {a.simulated_failure:.1%}."


def _areas(a: ScoreAudit) -> str:
    known = {g: x for g, x in a.auroc_by_group.items() if x == x}
    if len(known) < 2:
        return ""
    least, most = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    low, high = (f"{known[group]:.4f} ({group_name(group, a.sensitive_columns)})" for group in (least, most))
    return f"of groups from {low} to {high}"


def _rates_of_score(a: ScoreAudit, group: Hashable) -> list[str]:
    """The rates of a group at the threshold of the largest gap, and its AUROC."""
    each = {"FPR": a.rates[group][0], "TPR": a.rates[group][1], "AUROC": a.auroc_by_group[group]}
    return [f"{name} {x:.3f}" if x == x else f"{name} not defined" for name, x in each.items()]


def _percentile(rank: float) -> str:
    """A rank as a percentile: 0.58 is "58th"."""
    whole = round(100 * rank)
    ending = "th" if 10 <= whole % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(whole % 10, "th")
    return f"{whole}{ending}"
