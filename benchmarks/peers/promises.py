"""Does what `select` promises hold on unseen rows?

    python -m benchmarks.peers promises [--splits 20] [--only NAME ...] [--jobs 2] [--write]

Real tables are split at random: 4,000 rows (or half) are traced, at most 20,000 others are unseen.
Generated tables are drawn anew for each split, with 20,000 unseen rows. For each question the
promise of `point.promise` is compared with what `point.predictor` shows on the unseen rows,
corrected for the noise of these rows in the same way, in units of the joint standard error. An
infeasible answer is checked by asking for the budget that it names. Finished splits are kept in a
file, one line for each question, and not run again.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

import separatrix as sx
from benchmarks._measuring import Kept, publish
from benchmarks.peers.rows import FOLDER, table_of
from benchmarks.peers.rows import UNSEEN as UNSEEN_TABLES
from separatrix import datasets
from separatrix.columns.counting import soft_sums
from separatrix.core import score_tables
from separatrix.core.measures import table_measures
from separatrix.procedure.promise import mean_cost, unseen_score
from separatrix.statistics.unseen import unseen

Array = NDArray[np.float64]
Rows = tuple[Array, NDArray[np.intp], NDArray[np.intp]]
QUICK = ("--splits", "1", "--only", "300 rows", "--jobs", "1", "--out", os.devnull)
TRAIN, UNSEEN = 4_000, 20_000
FIRST = 5_000  # the first seed; smaller ones were looked at while the noise model was made
QUESTIONS: dict[str, dict[str, Any]] = {
    "accuracy, EO ≤ .10": {"max_eo_gap": 0.1, "maximize": "accuracy"},
    "accuracy, EO ≤ .05": {"max_eo_gap": 0.05, "maximize": "accuracy"},
    "accuracy, EO ≤ .02": {"max_eo_gap": 0.02, "maximize": "accuracy"},
    "cost 1:5, EO ≤ .05": {"max_eo_gap": 0.05, "maximize": sx.Cost(1.0, 5.0)},
    "utility, v ≤ .005": {"max_violation": 0.005, "maximize": "utility"},
    "AUROC, EO ≤ .10": {"max_eo_gap": 0.1, "maximize": "auroc"},
    "AUROC, v ≤ .01": {"max_violation": 0.01, "maximize": "auroc"},
}
GENERATED = {  # rows, groups, share of the second label, strength of the features
    "100 rows": (100, 2, 0.5, 1.0),
    "300 rows": (300, 2, 0.4, 1.0),
    "1,000 rows": (1_000, 2, 0.3, 1.0),
    "1,000 rows, useless features": (1_000, 2, 0.5, 0.0),
    "2,000 rows, 4 groups": (2_000, 4, 0.4, 1.0),
    "5,000 rows, label 3 %": (5_000, 2, 0.03, 1.5),
    "5,000 rows, 10 groups": (5_000, 10, 0.4, 1.0),
    "10,000 rows, 6 groups": (10_000, 6, 0.2, 1.0),
    "20,000 rows, 2 groups": (20_000, 2, 0.25, 1.5),
    "50,000 rows, 8 groups": (50_000, 8, 0.3, 1.0),
}
REAL: dict[str, Callable[[], Any]] = {
    "Adult, paper": lambda: datasets.load("adult", features="paper"),
    "Adult, all": lambda: datasets.load("adult", features="full"),
    "COMPAS": lambda: datasets.load("compas"),
    "Bank": lambda: datasets.load("bank"),
    "ACS, manager or not": lambda: datasets.load("acs_occupation"),
    "synthetic": lambda: datasets.load("synthetic"),
}
NAMES = {title: name for name, title in UNSEEN_TABLES.items()}


def distribution(point: Any, X: Any, z: Any) -> Array:
    """P(U | row) of what ships; of a score the distribution over its levels, 100 at most."""
    if not point.is_score:
        return np.asarray(point.predictor.predict_proba(X, sensitive_features=z))
    q = point.predictor.branch_proba(X, np.asarray(z))[0]
    return score_tables.merged(q, q.mean(0), 100)


def shown_by(q: Array, y: Any, z: Any, shape: tuple[int, int], aim: Any = "") -> dict[str, Any]:
    """Metric → (value, error) on these rows, their own noise taken out as a promise does it.

    Args:
        q: P(U | row), (n, K).
        y, z: codes.
        shape: how many labels and groups.
        aim: what was maximised: "auroc" for scores, a `Cost` is measured too.
    """
    table, moments = soft_sums(q, y, z, shape)
    assert moments is not None
    if aim == "auroc":
        return dict(unseen_score(table[None], moments[None]))
    measures: dict[str, Any] = {**table_measures()}
    if isinstance(aim, sx.Cost):
        costs = aim.per_group(tuple(range(shape[1])))
        measures["cost"] = lambda tables: mean_cost(costs, tables)
    square = np.diagonal(moments, axis1=-2, axis2=-1)
    return dict(unseen(table[None], square[None], measures))


def held(promised: Sequence[float], shown: Sequence[float]) -> bool:
    """Within two joint standard errors; both are (value, error)."""
    error = float(np.hypot(promised[1], shown[1]))
    return abs(promised[0] - shown[0]) <= 2.0 * error + 1e-9


def generated(name: str, seed: int) -> tuple[Rows, Rows]:
    """Rows and unseen rows of a random law of the family."""
    n, groups, base, strength = GENERATED[name]
    rng = np.random.default_rng([seed, sorted(GENERATED).index(name)])
    share = rng.dirichlet(np.full(groups, 5.0))
    shift, slope = rng.normal(0, 0.7, groups), rng.uniform(0.6, 1.4, groups)
    weights = rng.normal(size=8) * strength / np.sqrt(8)
    offset = rng.normal(0, 0.5, (groups, 8))

    def draw(rows: int) -> Rows:
        z = rng.choice(groups, rows, p=share)
        X = rng.normal(size=(rows, 8)) + offset[z]
        X[:, 7] = np.floor(3 * X[:, 7])
        logit = slope[z] * (X @ weights) * 2 + shift[z] + np.log(base / (1 - base))
        return X.astype(np.float32), (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int), z

    return draw(n), draw(UNSEEN)


def real(name: str, seed: int) -> tuple[Rows, Rows]:
    """A random split of a real table."""
    data = table_of(NAMES[name], seed, FOLDER)[0] if name in NAMES else REAL[name]()
    y, z = data.y, data.z
    y = y if y.max() == 1 else (y == np.bincount(y).argmax()).astype(int)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    cut = min(TRAIN, len(y) // 2)
    seen, rest = order[:cut], order[cut : cut + UNSEEN]
    large = np.flatnonzero(np.bincount(z[seen], minlength=z.max() + 1) >= 30)  # groups of a few
    keep = [rows[np.isin(z[rows], large)] for rows in (seen, rest)]
    return tuple((data.X[rows], y[rows], z[rows]) for rows in keep)  # type: ignore[return-value]


def split(name: str, seed: int) -> list[dict[str, Any]]:
    """Every question on one split: promise, unseen, and whether it held."""
    (X, y, z), fresh = generated(name, seed) if name in GENERATED else real(name, seed)
    if min(np.bincount(y, minlength=2)) < 5:
        return [{"table": name, "seed": seed, "question": "all", "status": "too few labels"}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frontier = sx.trace(X, y, sensitive_features=z, method=[], random_state=seed)
        return [
            {"table": name, "seed": seed, "question": question, **_asked(frontier, asked, fresh)}
            for question, asked in QUESTIONS.items()
        ]


def _asked(frontier: Any, asked: dict[str, Any], fresh: Rows) -> dict[str, Any]:
    """What became of one question; of each metric the promise, what the unseen rows show, and both
    errors."""
    try:
        point = frontier.select(**asked)
    except sx.InfeasibleError as error:
        return {"status": "infeasible", "wrong": _wrong(frontier, asked, error)}
    X, y, z = fresh
    q, codes = distribution(point, X, z), np.searchsorted(np.asarray(frontier.groups), z)
    silent = bool(not point.is_score and q.mean(0).max() > 0.999 and not point.notes)
    shown = shown_by(q, y, codes, (2, len(frontier.groups)), asked["maximize"])
    told = {m: [*point.promise[m][:2], *found[:2]] for m, found in shown.items()
            if m in point.promise}  # fmt: skip
    return {"status": "shipped", "silent_constant": silent, "told": told}


def _wrong(frontier: Any, asked: dict[str, Any], error: sx.InfeasibleError) -> bool:
    """Whether the budget that the message names fails after all."""
    if not error.smallest:
        return False
    names = {name.removeprefix("max_"): most for name, most in error.smallest.items()}
    again = {f"max_{name}": most * (1 + 1e-6) for name, most in names.items()}
    try:
        frontier.select(maximize=asked["maximize"], **again)
    except sx.InfeasibleError:
        return True
    return False


def summary(found: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """One row per table: how often each metric was within two errors of the promise."""
    metrics = ("accuracy", "balanced_accuracy", "utility", "violation", "eo_gap", "auroc", "cost")
    head = ["table", "splits", "shipped", "refused", "wrongly refused", *metrics, "all"]
    rows = []
    for name in [*NAMES, *REAL, *GENERATED, "all tables"]:
        own = [r for r in found if name in (r["table"], "all tables")]
        if not own:
            continue
        shipped = [r for r in own if r["status"] == "shipped"]
        told = [r["told"] for r in shipped]
        kept = {m: [held(one[m][:2], one[m][2:]) for one in told if m in one] for m in metrics}
        every = [x for values in kept.values() for x in values]
        refused = [r for r in own if r["status"] == "infeasible"]
        cells = [f"{np.mean(v):.1%}" if v else "–" for v in (*kept.values(), every)]
        wrong = sum(r["wrong"] for r in refused)
        splits = len({(r["table"], r["seed"]) for r in own})
        rows.append([name, splits, len(shipped), len(refused), wrong, *cells])
    return head, rows


def main(
    splits: int = 20,
    first: int = FIRST,
    only: Sequence[str] = (*NAMES, *REAL, *GENERATED),
    jobs: int = 2,
    out: Path = Path(".bench/promises.jsonl"),
    write: bool = False,
) -> None:
    """Run the splits that are not kept yet; print or write the table."""
    kept = Kept(out)
    done = kept.done("table", "seed")
    seeds = range(first, first + splits)
    todo = [(n, s) for s in seeds for n in only if (n, s) not in done]
    work = Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(split)(name, seed) for name, seed in todo)
    for rows in work:
        kept.add(rows)
        print(f"{rows[0]['table']}, split {rows[0]['seed']}", flush=True)
    publish("promises", *summary(kept.rows), write)
    silent = sum(bool(one.get("silent_constant")) for one in kept.rows)
    print(f"Constants without a warning: {silent}.")
