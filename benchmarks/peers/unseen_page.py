"""The tables and the picture of docs/evidence/unseen.md."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks._measuring import DOCS, machine, publish

__all__ = ["PLAIN", "write"]

PLAIN, OURS = "trees as they are", "separatrix, accuracy"
Found = list[dict[str, Any]]
STYLES = {
    OURS: ("separatrix", "#0072b2", "D"),
    PLAIN: (PLAIN, "#666666", "*"),
    "error-parity": ("error-parity", "#d55e00", "o"),
    "oxonfair": ("oxonfair", "#cc79a7", "^"),
    "ThresholdOptimizer": ("ThresholdOptimizer", "#009e73", "s"),
    "ExponentiatedGradient": ("ExponentiatedGradient", "#e69f00", "v"),
}
COLUMNS = {  # metric, and whether the value or what chance shows
    "accuracy": ("accuracy", 0), "EO gap, corrected": ("eo_gap", 0),
    "EO gap, seen": ("seen gap", 0), "by chance": ("seen gap", 1), "AUROC": ("auroc", 0),
    "largest gap, seen": ("largest gap", 0), "largest gap by chance": ("largest gap", 1),
}  # fmt: skip


def write(found: Found, into_docs: bool) -> None:
    """Print the tables; with `into_docs` put them and the picture where the page is."""
    publish("unseen-summary", *summary(found), into_docs)
    publish("unseen", ["table", "series", *COLUMNS, "CPU s", "splits", "note"],
            reached(found), into_docs)  # fmt: skip
    held, missed = kept(found)
    publish("unseen-promises", ["promises", "held", "of"], held, into_docs)
    head = ["table", "split", "series", "metric", "promised", "shown"]
    publish("unseen-missed", head, missed, into_docs)
    for one in found:
        if "refused" in one:
            print(f"{one['table']}, split {one['seed']}, {one['series']}: {one['refused']}")
    print(machine("scikit-learn", "lightgbm", "fairlearn"))
    if into_docs:
        draw(found)


def groups(found: Found) -> list[tuple[str, str, Found]]:
    """(table, series, its splits)."""
    keys = dict.fromkeys((one["table"], one["series"]) for one in found)
    return [(*key, [o for o in found if (o["table"], o["series"]) == key]) for key in keys]


def summary(found: Found) -> tuple[list[str], list[list[str]]]:
    """Accuracy and corrected gap of ours, of the most accurate peer and of the plain trees."""
    means: dict[str, dict[str, str]] = {}
    for table, series, runs in groups(found):
        done = [one for one in runs if "shown" in one]
        if done and series in STYLES:
            cell = f"{_mean(done, 'accuracy')} ({_mean(done, 'eo_gap')})"
            means.setdefault(table, {})[series] = cell
    rows = []
    for table, own in means.items():
        peers = [f"{cell} {name}" for name, cell in own.items() if name not in (OURS, PLAIN)]
        rows.append([table, own.get(OURS, "–"), max(peers, default="–"), own.get(PLAIN, "–")])
    return ["table", "separatrix: accuracy (EO gap)", "most accurate peer", PLAIN], rows


def reached(found: Found) -> list[list[Any]]:
    """Means over the splits."""
    rows = []
    for table, series, runs in groups(found):
        done = [one for one in runs if "shown" in one]
        rest = len(runs) - len(done)
        eased = [one["budget"] for one in done if one.get("budget", 0.05) != 0.05]
        notes = [f"{rest} of {len(runs)} not done"] if rest else []
        if eased:
            notes.append(f"asked {np.mean(eased):.3f} in {len(eased)}: 0.05 was refused")
        cpu = f"{np.mean([one['cpu'] for one in done]):.1f}" if done else ""
        cells = [_mean(done, *column) for column in COLUMNS.values()]
        if series.endswith("auroc"):
            cells[:4] = [""] * 4
        rows.append([table, series, *cells, cpu, len(done), "; ".join(notes)])
    return rows


def kept(found: Found) -> tuple[list[list[Any]], list[list[Any]]]:
    """How many promises held: within two joint standard errors of the rows set aside; the rest."""
    held: dict[str, list[bool]] = {}
    missed = []
    for one in found:
        for metric, promised in one.get("promise", {}).items():
            shown = one["shown"][metric]
            error = float(np.hypot(promised[1], shown[1]))
            good = abs(promised[0] - shown[0]) <= 2 * error + 1e-9
            held.setdefault(one["table"], []).append(good)
            if not good:
                values = (f"{value:.4f} ± {noise:.2g}" for value, noise, *_ in (promised, shown))
                missed.append([one["table"], one["seed"], one["series"], metric, *values])
    held["all"] = [good for own in held.values() for good in own]
    return [[name, sum(own), len(own)] for name, own in held.items()], missed


def draw(found: Found) -> None:
    """Accuracy against the corrected gap, one panel a table, one mark a split."""
    names = list(dict.fromkeys(one["table"] for one in found))
    figure, axes = plt.subplots(1, len(names), figsize=(3.1 * len(names) + 2.4, 3.6), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        axis.axvline(0.05, color="#bbbbbb", lw=1)
        for series, (label, colour, mark) in STYLES.items():
            own = [o["shown"] for o in found if (o["table"], o["series"]) == (name, series)
                   and "shown" in o]  # fmt: skip
            x, y = ([one[key][0] for one in own] for key in ("eo_gap", "accuracy"))
            axis.plot(x, y, mark, color=colour, ms=9 if mark == "*" else 6, label=label, alpha=0.85)
        axis.set(title=name, xlim=(-0.01, None))
        axis.set_xlabel("EO gap, corrected")
    axes[0, 0].set_ylabel("accuracy on rows set aside")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=9)
    figure.set_layout_engine("constrained")
    figure.savefig(DOCS / "evidence" / "unseen.png", dpi=120)
    plt.close(figure)


def _mean(done: Found, metric: str, part: int = 0) -> str:
    values = [one["shown"][metric][part] for one in done if metric in one["shown"]]
    return f"{np.mean(values):.4f}" if values else ""
