"""The results page from a folder of `separatrix benchmark`: our run beside the paper's values, with
figures.

    separatrix benchmark --ablations --out results
    python -m benchmarks.results results

It writes what stands between the two markers of results-tables.md; the reading of the results in
results.md is by hand.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from pathlib import Path

import numpy as np

from benchmarks._measuring import DOCS, write_between_markers
from separatrix import __version__
from separatrix.core.envelope import concave_envelope
from separatrix.runs.results import Results
from separatrix.runs.tidy import Columns, means, select
from separatrix.show import figures, tables
from separatrix.show.series import Series, legend_names, series

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
_NAMES = {"accuracy": "Accuracy", "auroc": "AUROC"}


def beside_the_paper(columns: Columns, dataset: str) -> tables.Table:
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
            i = tables.best(own, constraint, budget, metric)
            cells.append(
                None if i is None else (float(own[metric][i]), float(own[f"{metric}_sd"][i]))
            )
        others = select(mean, method=[m for m in set(mean["method"].tolist()) if m != "cmi"])
        i = tables.best(others, constraint, budget, metric)
        best = "–"
        if i is not None:
            own = Series(*(str(others[name][i]) for name in Series._fields))
            best = f"{named[own]} {others[metric][i]:.4g}"
        rows.append((f"≤ {budget:g}", _NAMES[metric], value, *cells, best))
    budget_name = "v" if constraint == "violation" else "EO gap"
    head = (
        budget_name,
        "Metric",
        "Paper: CMI",
        "Ours: CMI, paper recipe",
        "Ours: CMI",
        "Ours: best other method",
    )
    return tables.Table(
        f"{dataset}: best mean under a budget, randomised policy", head, tuple(rows)
    )


def above_the_channel(columns: Columns, dataset: str) -> tables.Table | None:
    """Whose randomised envelope is above the channel's, where, and by how much; None if there is no
    channel.
    """
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
    return tables.Table(
        f"{dataset}: envelopes above the channel's, 1e-5 ≤ v ≤ {own.violation[-1]:.3g}",
        ("Method", "At most by %", "at v", "From v", "To v"),
        tuple(rows) or (("none", None, None, None, None),),
    )


def generated(folder: Path, docs: Path) -> str:
    """The generated part, and the figures beside it."""
    results = Results.read(folder)
    columns = results.columns
    limits = {curve.dataset: curve for curve in results.curves if curve.name == "limit"}
    kept = select(columns, policy="randomized")
    drawn = figures.draw(folder, docs / "results", formats=("png",))
    lines = [
        f"separatrix {__version__}, {len(kept['fold']):,} trained models, {os.cpu_count()} cores "
        f"({platform.machine()}), {kept['train_seconds'].sum() / 60:.0f} minutes of training in "
        f"all, by one process's clock.",
        "",
    ]
    for dataset in dict.fromkeys(columns["dataset"].tolist()):
        own = select(kept, dataset=dataset)
        lost = own["status"] != "ok"
        lines += [
            f"## {dataset}",
            "",
            f"{own['train_seconds'].sum() / 60:.1f} minutes of training.",
        ]
        if lost.any():
            names = ", ".join(
                f"{m} ({s})"
                for m, s in sorted(set(zip(own["method"][lost], own["status"][lost], strict=True)))
            )
            lines.append(f"Lost runs: {int(lost.sum())} of {len(lost)}: {names}.")
        lines.append("")
        if dataset in PAPER:
            lines += [beside_the_paper(columns, dataset).markdown(), ""]
        levels = np.array([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02])
        lines += [
            tables.envelopes(
                columns, dataset, levels=levels.tolist(), limit=limits.get(dataset)
            ).markdown(),
            "",
        ]
        against = above_the_channel(columns, dataset)
        if against is not None:
            lines += [against.markdown(), ""]
        own_figures = [path for path in drawn if path.stem.partition("-")[0] == dataset]
        lines += [f"![{path.stem}](results/{path.name})\n" for path in own_figures]
        lines += ["<details><summary>All operating points</summary>", ""]
        lines += [tables.operating_points(columns, dataset).markdown(), "</details>", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS / "evidence")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.docs / "results", ignore_errors=True)
    write_between_markers(
        arguments.docs / "results-tables.md", "results", generated(arguments.folder, arguments.docs)
    )


if __name__ == "__main__":
    main()
