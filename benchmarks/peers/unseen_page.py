"""The generated part of docs/evidence/unseen.md: a table of what was reached, one of the promises,
and the picture.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks._measuring import DOCS, machine, markdown, write_between_markers

__all__ = ["PLAIN", "write"]

PLAIN = "trees as they are"
Found = list[dict[str, Any]]
STYLES = {
    "separatrix, accuracy": ("separatrix", "#0072b2", "D"),
    PLAIN: (PLAIN, "#666666", "*"),
    "error-parity": ("error-parity", "#d55e00", "o"),
    "oxonfair": ("oxonfair", "#cc79a7", "^"),
    "ThresholdOptimizer": ("ThresholdOptimizer", "#009e73", "s"),
    "ExponentiatedGradient": ("ExponentiatedGradient", "#e69f00", "v"),
}


def write(found: Found, into_docs: bool) -> None:
    """Print the tables; with `into_docs` put them and the picture where the page is."""
    text = "\n\n".join(part for part in (reached(found), kept(found), said(found)) if part)
    text += "\n\n" + machine("scikit-learn", "lightgbm", "fairlearn")
    if not into_docs:
        print(text)
        return
    draw(found)
    write_between_markers(DOCS / "evidence" / "unseen.md", "peers/unseen", text)


def groups(found: Found) -> list[tuple[str, str, Found]]:
    """(table, series, its splits)."""
    keys = dict.fromkeys((one["table"], one["series"]) for one in found)
    return [(*key, [o for o in found if (o["table"], o["series"]) == key]) for key in keys]


def reached(found: Found) -> str:
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
        cells = [_mean(done, "accuracy"), _mean(done, "eo_gap"), _mean(done, "seen gap")]
        cells += [_mean(done, "seen gap", 1), _mean(done, "auroc"), _mean(done, "largest gap")]
        cells.append(_mean(done, "largest gap", 1))
        if "accuracy" not in series and series != PLAIN and "separatrix" in series:
            cells[:4] = [""] * 4
        rows.append([table, series, *cells, cpu, len(done), "; ".join(notes)])
    head = ["", "", "accuracy", "EO gap, corrected", "EO gap, seen", "by chance", "AUROC"]
    head += ["largest gap, seen", "by chance", "CPU s", "splits", ""]
    return markdown(head, rows)


def kept(found: Found) -> str:
    """Which promises held: within two joint standard errors of what the rows set aside show."""
    held: dict[str, list[bool]] = {}
    missed = []
    for one in found:
        for metric, promised in one.get("promise", {}).items():
            shown = one["shown"][metric]
            error = float(np.hypot(promised[1], shown[1]))
            good = abs(promised[0] - shown[0]) <= 2 * error + 1e-9
            for name in (one["table"], "all"):
                held.setdefault(name, []).append(good)
            if not good:
                missed.append(
                    f"{one['table']}, split {one['seed']}, {one['series']}: {metric} promised "
                    f"{promised[0]:.4f} ± {promised[1]:.2g}, shown {shown[0]:.4f} ± {shown[1]:.2g}"
                )
    names = [name for name in held if name != "all"]
    rows = [[name, sum(held[name]), len(held[name])] for name in [*names, "all"]]
    text = markdown(["promises", "held", "of"], rows)
    return text + ("\n\nMissed: " + "; ".join(missed) + "." if missed else "")


def said(found: Found) -> str:
    """Why something was not done, in its own words."""
    lines = [
        f"- {one['table']}, split {one['seed']}, {one['series']}: {one['refused']}"
        for one in found
        if "refused" in one
    ]
    return "\n".join(lines)


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
