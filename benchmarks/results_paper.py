"""The paper's CMI rows beside ours, and whose envelope is above that of post-processing."""

from __future__ import annotations

import numpy as np

from separatrix.core.envelope import concave_envelope
from separatrix.core.metrics import METRICS
from separatrix.frontier import path_tables as tables
from separatrix.frontier.budgets import best
from separatrix.frontier.series import Series, legend_names, series
from separatrix.frontier.tidy import Columns, means, select
from separatrix.report.table import Table

# the CMI rows of the paper's compact operating points, randomised policy: (budget, metric) -> mean,
# sd
PAPER = {
    "adult": {
        (0.01, "accuracy"): (0.68, 0.0027), (0.01, "auroc"): (0.7934, 0.0059),
        (0.02, "accuracy"): (0.6959, 0.0017), (0.02, "auroc"): (0.7936, 0.0072),
        (0.05, "accuracy"): (0.7132, 0.0023), (0.05, "auroc"): (0.7983, 0.005),
    },
    "compas": {
        (0.01, "accuracy"): (0.5455, 0.0055), (0.01, "auroc"): (0.6966, 0.0035),
        (0.02, "accuracy"): (0.5598, 0.0038), (0.02, "auroc"): (0.6966, 0.0035),
        (0.05, "accuracy"): (0.5654, 0.0029), (0.05, "auroc"): (0.6966, 0.0035),
    },
    "bank": {
        (0.01, "accuracy"): (0.8303, 0.011), (0.01, "auroc"): (0.8798, 0.0054),
        (0.02, "accuracy"): (0.8645, 0.0032), (0.02, "auroc"): (0.914, 0.0034),
    },
    "acs_occupation": {
        (0.005, "accuracy"): (0.08734, 0.00069), (0.005, "auroc"): (0.5999, 0.018),
        (0.01, "accuracy"): (0.08915, 0.00097), (0.01, "auroc"): (0.5999, 0.018),
    },
}  # fmt: skip

# the comparison methods of the same tables at one budget of the EO gap: (accuracy, AUROC)
OTHERS: dict[str, tuple[float, dict[str, tuple[float, float]]]] = {
    "adult": (0.05, {
        "adversarial": (0.7251, 0.5994), "fair_dro": (0.6665, 0.7954),
        "fair_dummy": (0.7103, 0.8014),
        "fr_train": (0.5466, 0.5108), "infofair": (0.4376, 0.4499), "erm": (0.7125, 0.7928),
    }),
    "compas": (0.05, {
        "adversarial": (0.5664, 0.703), "fair_dro": (0.5652, 0.6951),
        "fair_dummy": (0.5643, 0.7011),
        "fr_train": (0.5666, 0.6959), "infofair": (0.56, 0.6985),
    }),
    "bank": (0.02, {
        "adversarial": (0.8809, 0.9007), "fair_dummy": (0.8644, 0.9084),
        "fr_train": (0.8622, 0.9086), "infofair": (0.834, 0.8435),
    }),
}  # fmt: skip


def others_beside_the_paper(columns: Columns, dataset: str) -> Table:
    """The paper's rows of the comparison methods, and ours with both recipes, chosen its way."""
    budget, theirs = OTHERS[dataset]
    mean = select(means(columns), dataset=dataset, policy="randomized")
    rows = []
    for method, paper in theirs.items():
        cells: list[object] = [*paper]
        for recipe in ("paper", "default"):
            inputs = "x" if method == "erm" else "xz"
            own = select(mean, method=method, inputs=inputs, recipe=recipe)
            for metric in ("accuracy", "auroc"):
                i = best(own, "eo_gap", budget, metric)
                cells.append(None if i is None else float(own[metric][i]))
        name = Series(method, "x" if method == "erm" else "xz", "default").name
        rows.append((name, *cells))
    kinds = ("Paper", "Ours, paper recipe", "Ours")
    head = ("Method", *(f"{kind}: {what}" for kind in kinds for what in ("accuracy", "AUROC")))
    title = f"{dataset}: comparison methods at EO gap ≤ {budget:g}, best mean, randomised policy"
    return Table(title, head, tuple(rows))


def beside_the_paper(columns: Columns, dataset: str) -> Table:
    """The paper's CMI row, ours with its recipe and with the default one, and the best of the other
    methods.
    """
    mean = select(means(columns), dataset=dataset, policy="randomized")
    constraint = "violation" if dataset.startswith("acs") else "eo_gap"
    found = series(mean)
    named = dict(zip(found, legend_names(found), strict=True))
    rows = []
    for (budget, metric), value in PAPER[dataset].items():
        cells: list[object] = []
        for recipe in ("paper", "default"):
            own = select(mean, method="cmi", inputs="xz", recipe=recipe)
            i = best(own, constraint, budget, metric)
            cells.append(
                None if i is None else (float(own[metric][i]), float(own[f"{metric}_sd"][i]))
            )
        others = select(mean, method=[m for m in set(mean["method"].tolist()) if m != "cmi"])
        i = best(others, constraint, budget, metric)
        other = "–"
        if i is not None:
            own = Series(*(str(others[name][i]) for name in Series._fields))
            other = f"{named[own]} {others[metric][i]:.4g}"
        rows.append((f"≤ {budget:g}", METRICS[metric].head, value, *cells, other))
    budget_name = "v" if constraint == "violation" else "EO gap"
    head = (
        budget_name,
        "Metric",
        "Paper: CMI",
        "Ours: CMI, paper recipe",
        "Ours: CMI",
        "Ours: best other method",
    )
    return Table(f"{dataset}: best mean under a budget, randomised policy", head, tuple(rows))


def above_postprocessing(columns: Columns, dataset: str) -> Table | None:
    """Whose randomised envelope is above that of `postprocessing`, where, and by how much."""
    mean = select(means(columns), dataset=dataset, policy="randomized")
    found = series(mean)
    hulls = {s: tables.method_envelope(select(mean, **s._asdict())) for s in found}
    own = next(
        (hulls[s] for s in found if s.method == "postprocessing" and s.recipe == "default"), None
    )
    if own is None:
        return None
    v = np.geomspace(1e-5, own.violation[-1], 400)
    rows = []
    for s, name in zip(found, legend_names(found), strict=True):
        hull = hulls[s]
        if s.method == "postprocessing" or hull is None:
            continue
        # the constant (0, 0) is everybody's
        theirs = concave_envelope(np.r_[0.0, hull.violation], np.r_[0.0, hull.utility]).at(v)
        lead = 100 * (theirs / own.at(v) - 1)
        if (lead > 0).any():
            where, top = v[lead > 0], int(lead.argmax())
            rows.append((name, float(lead[top]), float(v[top]), float(where[0]), float(where[-1])))
    rows.sort(key=lambda row: -row[1])
    return Table(
        f"{dataset}: envelopes above post-processing's, 1e-5 ≤ v ≤ {own.violation[-1]:.3g}",
        ("Method", "At most by %", "at v", "From v", "To v"),
        tuple(rows) or (("none", None, None, None, None),),
    )
