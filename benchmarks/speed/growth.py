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

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import separatrix as sx
from benchmarks._measuring import DOCS, added_memory, in_own_process, machine, publish
from benchmarks.speed.rows import people, write_parquet

QUICK = ("rows", "cells", "--points", "1")
Work = Callable[[], Any]


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
         "separate": 7, "blind": 5, "channel": 5, "trace": 4},
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
        "trace": "trace with trees",
    },
}
TITLES = {job: title for own in FAMILIES.values() for job, title in own.items()}
HEAD = ("what grows", "work", "from … to", "first", "last", "memory added at the last")
HEAD += ("exponent, all points", "last three points")
COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#e69f00", "#000000")
SOLVED = ("limit", "limit_accuracy", "limit_cost", "limit_files", "separate")  # two labels


def trace(rows: int, cells: tuple[int, int], features: int, **_: Any) -> Work:
    """The main job with boosted trees: all fits of five outer folds, rules and promises."""
    sample, _lanes = _sample(rows, (2, cells[1]), 1, features)
    how = {"estimator": "trees", "method": []}
    return lambda: sx.trace(sample.X, sample.y, sensitive_features=sample.z, **how)


def _posteriors(y: np.ndarray, z: np.ndarray, labels: int, rng: np.random.Generator) -> np.ndarray:
    """Posteriors that know the label, and the group a little."""
    logits = rng.normal(size=(len(y), labels))
    logits[np.arange(len(y)), y] += 1.5
    logits[:, 0] += 0.1 * (z % 3)
    p = np.exp(logits)
    return p / p.sum(1, keepdims=True)


def audit(rows: int, cells: tuple[int, int], **_: Any) -> Work:
    y, z, rng = people(rows, cells)
    u = np.where(rng.random(rows) < 0.3, rng.integers(0, cells[0], rows), y)
    return lambda: sx.audit(y, u, sensitive_features=z)


def audit_scores(rows: int, cells: tuple[int, int], **_: Any) -> Work:
    y, z, rng = people(rows, cells)
    p = _posteriors(y, z, cells[0], rng)
    return lambda: sx.audit(y, p, sensitive_features=z)


def _of_files(rows: int, work: Callable[..., Any], **asked: Any) -> Work:
    folder = tempfile.TemporaryDirectory()
    files = write_parquet(folder.name, rows)
    return lambda keep=folder: work(files, target="y", sensitive_features="z", **asked)


def audit_files(rows: int, **_: Any) -> Work:
    return _of_files(rows, sx.audit, prediction="u")


def audit_score_files(rows: int, **_: Any) -> Work:
    return _of_files(rows, sx.audit_score, prediction="s")


def train(rows: int, cells: tuple[int, int], trade_offs: int, features: int) -> Work:
    import torch

    from separatrix import methods
    from separatrix.methods import Recipe

    torch.set_num_threads(1)
    sample, lanes = _sample(rows, cells, trade_offs, features)
    return lambda: methods.fit("cmi", sample, lanes, recipe=Recipe(epochs=1, min_steps=0))


def _sample(rows: int, cells: tuple[int, int], trade_offs: int, features: int) -> tuple[Any, Any]:
    from separatrix.methods import Lane, Sample

    y, z, rng = people(rows, cells)
    x = rng.standard_normal((rows, features), dtype=np.float32)
    x[:, 0] += y
    x[:, 1] += z
    lanes = [Lane(float(t), np.arange(rows), 0) for t in np.linspace(0.0, 1.0, trade_offs)]
    return Sample(x, y, z, n_labels=cells[0], n_groups=cells[1]), lanes


def _scored(rows: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, a score that knows them better in some groups, and the groups."""
    _, z, rng = people(rows, (2, groups))
    y = (rng.random(rows) < 0.2 + 0.4 * z / groups).astype(int)
    return y, rng.normal(size=rows) + y * (0.6 + 1.5 * z / groups) + z / groups, z


def limit(rows: int, cells: tuple[int, int], trade_offs: int, **how: Any) -> Work:
    """The limit of utility within v, or of what `maximize` and `budget` say."""
    y, s, z = _scored(rows, cells[1])
    asked = {name: how[name] for name in ("maximize", "budget") if name in how}
    return lambda: sx.limit(y, s, sensitive_features=z, points=max(trade_offs, 2), **asked)


def limit_accuracy(**how: Any) -> Work:
    return limit(**how, maximize="accuracy", budget="eo_gap")


def limit_cost(**how: Any) -> Work:
    return limit(**how, maximize=sx.Cost(false_positive=1, false_negative=5), budget="violation")


def separate(rows: int, cells: tuple[int, int], **_: Any) -> Work:
    y, s, z = _scored(rows, cells[1])
    return lambda: sx.theory.separate(y, s, sensitive_features=z)


def blind(rows: int, cells: tuple[int, int], trade_offs: int, **_: Any) -> Work:
    """Column generation for accuracy within EO gaps, from the true q(y, z | x)."""
    from separatrix.optimum.promised import BlindPromises

    y, z, rng = people(rows, (2, cells[1]))
    means = np.stack([np.linspace(0.0, 1.0, cells[1]), np.linspace(1.5, 2.0, cells[1])])
    x = rng.normal(size=rows) + means[y, z]
    q = np.exp(-0.5 * (x[:, None, None] - means) ** 2)
    q /= q.sum((1, 2), keepdims=True)
    levels = np.linspace(0.01, 0.2, max(trade_offs, 1)).tolist()

    def path() -> None:
        best = BlindPromises(q, y, z, np.ones(rows), tuple(range(cells[1])))
        for level in levels:
            best.point(level)

    return path


def boosting(rows: int, cells: tuple[int, int], trade_offs: int, features: int) -> Work:
    from separatrix import methods

    sample, lanes = _sample(rows, cells, trade_offs, features)
    return lambda: methods.fit("cmi_boosting", sample, lanes)


def limit_files(rows: int, trade_offs: int, **_: Any) -> Work:
    return _of_files(rows, sx.limit, score="s", maximize="accuracy", budget="eo_gap", points=max(trade_offs, 2))


def channel(rows: int, cells: tuple[int, int], trade_offs: int, **_: Any) -> Work:
    from separatrix.optimum.multiclass.cross_fitted import LabelRules

    labels = max(cells[0], 3)  # with two labels the limit above is exact and takes its place
    y, z, rng = people(rows, (labels, cells[1]))
    p = _posteriors(y, z, labels, rng)
    prices = np.geomspace(0.05, 20.0, max(trade_offs, 1)).tolist()

    def path() -> None:
        rules = LabelRules(p, y, z, np.ones(rows), cells[1], "utility")
        for price in prices:
            rules.point(price, (1.0, 30.0))

    return path


def measure(job: str, fixed: dict[str, Any]) -> dict[str, float]:
    """CPU seconds and MB of one point, in this process."""
    globals()[job](**FIXED | {"rows": 2_000})()  # imports, and what is cached for good
    work, times = globals()[job](**fixed | {"cells": tuple(fixed["cells"])}), []

    def timed() -> None:
        start = time.process_time()
        work()
        times.append(time.process_time() - start)

    mb = added_memory(timed)
    if times[0] < 3.0:
        timed()
    return {"seconds": min(times), "mb": mb}


def size(axis: str, job: str, value: Any) -> float:
    """What is plotted along the axis: of labels × groups the cells, two labels where solved."""
    if axis != "cells":
        return float(value)
    return float(2 * value[1] if job in (*SOLVED, "blind") else value[0] * value[1])


def exponent(x: np.ndarray, t: np.ndarray) -> float:
    return float(np.polyfit(np.log(x), np.log(t), 1)[0])


def defaults(axis: str, job: str) -> dict[str, Any]:
    """What is held fixed while `axis` grows."""
    fixed = dict(FIXED)
    if job == "channel" and axis != "cells":
        fixed["cells"] = (4, 3)
    if axis == "cells":
        many = job == "audit_scores" or job in SOLVED
        fixed["rows"] = 1_000_000 if job == "audit" else 200_000 if many else 20_000
    if axis in ("rows", "cells") and job in SOLVED:
        fixed["trade_offs"] = 11
    return fixed


def run(axis: str, jobs: Sequence[str], points: int) -> list[dict[str, Any]]:
    found = []
    for job in [job for job in AXES[axis].most if job in jobs]:
        for value in AXES[axis].values[: min(AXES[axis].most[job], points)]:
            fixed = defaults(axis, job) | {axis: value}
            point = {"axis": axis, "job": job, "value": value, "size": size(axis, job, value)}
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
            lines = {job: [f for f in found if (f["axis"], f["job"]) == (axis, job)] for job in titles}
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


def main(
    axes: Sequence[str] = tuple(AXES),
    /,
    work: Sequence[str] = tuple(TITLES),
    points: int = 9,
    redraw: bool = False,
    write: bool = False,
) -> None:
    """Measure; with --write or --redraw store the table and its pictures too."""
    axes = () if redraw else axes
    found = [point for axis in axes for point in run(axis, work, points)]
    file = DOCS / "evidence" / "performance" / "growth.json"
    if write or redraw:
        kept = json.loads(file.read_text(encoding="utf-8"))
        found += [p for p in kept if p["axis"] not in axes or p["job"] not in work]
        order = [*AXES], [*TITLES]
        found.sort(key=lambda p: (order[0].index(p["axis"]), order[1].index(p["job"]), p["size"]))
        file.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n", encoding="utf-8")
        draw(found)
    publish("growth", HEAD, exponents(found), write or redraw)
    print(machine("numpy", "torch"))
