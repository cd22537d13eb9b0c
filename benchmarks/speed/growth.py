"""How time and memory grow: rows, λ, labels × groups, features. Fitted exponents, two pictures per
axis.

    python -m benchmarks.speed growth [rows] [trade_offs] [cells] [features] [--points 9] [--write]

Every point is a process of its own. Time is CPU time of that process (all its threads), the shorter
of two runs where one takes less than three seconds; memory is what the work adds to a process that
has imported all and holds the input (Linux). Training is one epoch of `cmi`: time is proportional
to the epochs. `--write` stores the table and the pictures of docs/evidence/performance.md, and the
points in performance/growth.json; axes that are not asked for keep the points they have there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks._measuring import DOCS, added_memory, in_own_process, machine, publish
from benchmarks.speed import growth_work

QUICK = ("rows", "cells", "--points", "1")


class Axis(NamedTuple):
    """One thing that grows, and the work that is measured along it."""

    label: str
    values: tuple[Any, ...]
    most: dict[str, int]  # job -> how many of the values it gets


ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
LAMBDAS = (1, 3, 11, 33, 99)
CELLS = ((2, 2), (3, 3), (5, 4), (10, 9), (20, 9), (20, 25), (50, 25), (100, 50))
FEATURES = (8, 32, 128, 512, 2_048)
FIXED = {"rows": 50_000, "trade_offs": 3, "cells": (2, 3), "features": 16}
AXES = {
    "rows": Axis(
        "rows", ROWS,
        {"audit": 9, "audit_scores": 8, "audit_files": 9, "audit_score_files": 9, "train": 6,
         "boosting": 5, "limit": 7, "limit_accuracy": 7, "limit_cost": 7, "limit_files": 9,
         "separate": 7, "blind": 5, "channel": 5},
    ),
    "trade_offs": Axis(
        "trade-offs λ (levels of a budget)", LAMBDAS,
        {"train": 5, "boosting": 4, "limit": 5, "limit_accuracy": 5, "limit_cost": 5, "blind": 4,
         "channel": 4},
    ),
    "cells": Axis(
        "cells: labels × groups", CELLS,
        {"audit": 8, "audit_scores": 8, "train": 8, "boosting": 6, "limit": 8,
         "limit_accuracy": 8, "limit_cost": 8, "separate": 8, "blind": 5, "channel": 6},
    ),
    "features": Axis("features", FEATURES, {"train": 5}),
}  # fmt: skip
# titles by family: each has its own picture
FAMILIES = {
    "counting and training": {
        "audit": "audit, labels",
        "audit_scores": "audit, posteriors",
        "audit_files": "audit, Parquet",
        "audit_score_files": "score audit, Parquet",
        "train": "cmi, one epoch",
        "boosting": "cmi_boosting",
    },
    "solving": {
        "limit": "limit, u within v",
        "limit_accuracy": "limit, accuracy within an EO gap",
        "limit_cost": "limit, costs within v",
        "limit_files": "limit of Parquet, accuracy",
        "separate": "separated score",
        "blind": "rules without the group",
        "channel": "rules for more labels",
    },
}
TITLES = {job: title for own in FAMILIES.values() for job, title in own.items()}
HEAD = ("what grows", "work", "from … to", "first", "last", "memory added at the last")
HEAD += ("exponent, all points", "last three points")
COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#e69f00", "#000000")
SOLVED = ("limit", "limit_accuracy", "limit_cost", "limit_files", "separate")  # two labels


def measure(job: str, fixed: dict[str, Any]) -> dict[str, float]:
    """CPU seconds and MB of one point, in this process."""
    getattr(growth_work, job)(**FIXED | {"rows": 2_000})()  # imports, and what is cached for good
    work, times = getattr(growth_work, job)(**fixed | {"cells": tuple(fixed["cells"])}), []

    def timed() -> None:
        start = time.process_time()
        work()
        times.append(time.process_time() - start)

    mb = added_memory(timed)
    if times[0] < 3.0:
        timed()
    return {"seconds": min(times), "mb": mb}


def size(axis: str, value: Any) -> float:
    """What is plotted along the axis: for labels × groups the number of cells."""
    return float(value[0] * value[1]) if axis == "cells" else float(value)


def exponent(x: np.ndarray, t: np.ndarray) -> float:
    return float(np.polyfit(np.log(x), np.log(t), 1)[0])


def defaults(axis: str, job: str) -> dict[str, Any]:
    """What is held fixed while `axis` grows."""
    fixed = dict(FIXED)
    if axis == "rows" and job in ("train", "channel"):
        fixed["cells"] = (4, 3) if job == "channel" else (2, 3)
    if axis == "cells":
        many = job == "audit_scores" or job in SOLVED
        fixed["rows"] = 1_000_000 if job == "audit" else 200_000 if many else 20_000
    if axis in ("rows", "cells") and job in SOLVED:
        fixed["trade_offs"] = 11
    if axis == "trade_offs" and job == "channel":
        fixed["cells"] = (4, 3)
    return fixed


def run(axis: str, jobs: list[str], points: int) -> list[dict[str, Any]]:
    found = []
    for job, most in AXES[axis].most.items():
        if job not in jobs:
            continue
        for value in AXES[axis].values[: min(most, points)]:
            fixed = defaults(axis, job) | {axis: value}
            point = {"axis": axis, "job": job, "value": value, "size": size(axis, value)}
            if axis == "cells" and (
                job in SOLVED or job == "blind"
            ):  # two labels always: only the groups grow
                point["size"] = 2.0 * value[1]
            found.append(point | in_own_process(__name__, "measure", job, fixed))
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def exponents(found: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    lines = []
    for axis, job in dict.fromkeys((f["axis"], f["job"]) for f in found):
        own = [f for f in found if (f["axis"], f["job"]) == (axis, job)]
        x, t = np.array([f["size"] for f in own]), np.array([f["seconds"] for f in own])
        first, last = ("×".join(map(str, v)) if isinstance(v, list | tuple) else f"{v:,}" for v in
                       (own[0]["value"], own[-1]["value"]))  # fmt: skip
        lines.append(
            (AXES[axis].label, TITLES[job], f"{first} … {last}", f"{t[0]:.3g} s", f"{t[-1]:.3g} s",
             f"{own[-1]['mb']:.0f} MB", f"{exponent(x, t):.2f}", f"{exponent(x[-3:], t[-3:]):.2f}")
        )  # fmt: skip
    return lines


def draw(found: list[dict[str, Any]]) -> None:
    import matplotlib.pyplot as plt

    folder = DOCS / "evidence" / "performance"
    folder.mkdir(exist_ok=True)
    for axis in dict.fromkeys(f["axis"] for f in found):
        for family, titles in FAMILIES.items():
            lines = {
                job: [f for f in found if (f["axis"], f["job"]) == (axis, job)] for job in titles
            }
            lines = {job: own for job, own in lines.items() if own}
            if not lines:
                continue
            figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.6), layout="constrained")
            for (job, own), colour in zip(lines.items(), COLOURS, strict=False):
                x = [f["size"] for f in own]
                line = {"ms": 4, "color": colour}
                left.plot(x, [f["seconds"] for f in own], "o-", label=titles[job], **line)
                right.plot(x, [max(f["mb"], 1.0) for f in own], "o-", **line)
            sizes = [f["size"] for own in lines.values() for f in own]
            ends = np.array([min(sizes), max(sizes)])
            slope = ends / ends[1] * left.get_ylim()[1] * 0.5
            left.plot(ends, slope, ":", color="0.6", lw=1, label="linear")
            for ax, title in ((left, "CPU seconds"), (right, "MB added (1 or less drawn as 1)")):
                ax.set(xscale="log", yscale="log", xlabel=AXES[axis].label, title=title)
                ax.spines[["top", "right"]].set_visible(False)
            figure.legend(loc="outside right upper", frameon=False, fontsize=8)
            figure.savefig(folder / f"growth-{axis}-{family.split()[0]}.png", dpi=130)
            plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure; with --write or --redraw store the table and its pictures too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("axes", nargs="*", default=[*AXES], metavar="axis")
    parser.add_argument("--work", nargs="+", choices=TITLES, default=[*TITLES], help="only this")
    parser.add_argument("--points", type=int, default=9, help="the first so many of each line")
    parser.add_argument("--redraw", action="store_true", help="measure nothing: growth.json again")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    axes = [] if options.redraw else options.axes
    found = [point for axis in axes for point in run(axis, options.work, options.points)]
    points = DOCS / "evidence" / "performance" / "growth.json"
    if options.write or options.redraw:
        kept = json.loads(points.read_text(encoding="utf-8"))
        found += [p for p in kept if p["axis"] not in axes or p["job"] not in options.work]
        order = [*AXES], [*TITLES]
        found.sort(key=lambda p: (order[0].index(p["axis"]), order[1].index(p["job"]), p["size"]))
        points.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n", encoding="utf-8")
        draw(found)
    publish("growth", HEAD, exponents(found), options.write or options.redraw)
    print(machine("numpy", "torch"))
