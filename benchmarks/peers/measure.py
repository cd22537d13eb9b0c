r"""Four planes, all series measured alike, every choice made on other folds.

Planes: (EO gap, accuracy), (EO gap, cost) and (v, u) of decisions, (score v, AUROC) of scores in 20
quantile bins.
A fold of test rows shows more violation than there is, by chance: as much as groups shuffled within
the labels show (the floor). So each axis is corrected: v and score v less their floor, the EO gap
√(gap² − floor²). Means are over folds, never of tables that were added, which would cancel what
each fold's rule does wrong.

Points are chosen on other folds. Asked for a budget, a path reports on fold k the best coin between
two of its points, or a point and the best constant, that is within the budget on the other folds.
A coin of scores is no score, so there one point is chosen. The hypervolume is the area under these
values, above the constant's, up to the budgets of `core.envelope.PLANES`.

Whether a noisy point passes a small budget on four folds is partly luck, and who has more points
has more of it; the fold that reports has none. So what is *found* of the budget there stands beside
every value, and nobody is first who overruns it by more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.protocol import COSTS, GAPS, NATS
from separatrix.core.information import conditional_mutual_information
from separatrix.core.measures import METRICS
from separatrix.core.score_tables import ScoreTable

Array = NDArray[np.float64]
BINS, SHUFFLES = 20, 20


class Plane(NamedTuple):
    """One plane: its axes (metrics), its budgets, and whether a coin may mix points."""

    title: str
    x: str
    y: str
    budgets: tuple[float, ...]
    coin: bool = True


PLANES = {
    "decisions": Plane("accuracy, EO gap", "eo_gap", "accuracy", GAPS),
    "costs": Plane("cost 1 : 5, EO gap", "eo_gap", "cost", GAPS[1:2]),
    "information": Plane("u, v", "violation", "utility", NATS),
    "scores": Plane("AUROC, score v", "score_violation", "auroc", (5e-3, 2e-2), coin=False),
}
REFUSED = "refused: "  # a point that is no prediction: ones where the budget was refused


@dataclass(frozen=True, eq=False)
class Path_:
    """What the points of one or several series show in a plane on the folds of one seed.

    Args:
        x, floor, y: (points, folds); x as seen, and what shuffled groups show.
        constant: y of the best constant on each fold.
        gap: whether x is a gap.
    """

    x: Array
    floor: Array
    y: Array
    constant: Array
    gap: bool = False

    def corrected(self, folds: NDArray[np.intp]) -> Array:
        """The first axis of every point over some folds, without what chance adds."""
        seen, chance = self.x[:, folds].mean(1), self.floor[:, folds].mean(1)
        if self.gap:
            return np.sqrt(np.maximum(seen**2 - chance**2, 0.0))
        return np.maximum(seen - chance, 0.0)


class Answers(NamedTuple):
    """What the folds show when a path is asked for budget after budget: (asked, folds).

    Args:
        y: reached.
        x, floor: of the budget: seen, and shown by chance.
        constant: y of the best constant, (folds,).
        gap: whether x is a gap.
    """

    y: Array
    x: Array
    floor: Array
    constant: Array
    gap: bool

    def found(self, folds: NDArray[Any]) -> Array:
        """What some folds show of each budget, without what chance adds."""
        return Path_(self.x, self.floor, self.y, self.constant, self.gap).corrected(folds)


def nested(path: Path_, asked: Sequence[float], coin: bool) -> Answers:
    """For each budget that is asked what every fold shows of the choice of the other folds."""
    count = path.y.shape[1]
    rows = np.zeros((len(asked), 3, count))
    for k in range(count):
        others = np.array([j for j in range(count) if j != k])
        used = np.r_[0.0, path.corrected(others)]
        goal = np.r_[path.constant[others].mean(), path.y[:, others].mean(1)]
        here = np.c_[[path.constant[k], 0.0, 0.0], [path.y[:, k], path.x[:, k], path.floor[:, k]]]
        for b, budget in enumerate(asked):
            i, j, w = best_coin(used, goal, budget) if coin else best_point(used, goal, budget)
            rows[b, :, k] = w * here[:, i] + (1.0 - w) * here[:, j]
    return Answers(rows[:, 0], rows[:, 1], rows[:, 2], path.constant, path.gap)


def together(parts: Sequence[Answers]) -> Answers:
    """The answers of several seeds, whose folds stand side by side."""
    joined = (
        np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in ("y", "x", "floor", "constant")
    )
    return Answers(*joined, parts[0].gap)


def best_coin(x: Array, y: Array, budget: float) -> tuple[int, int, float]:
    """Points i and j and the weight of i: the largest y of a mixture with x ≤ budget.

    >>> best_coin(np.array([0.0, 0.02, 0.04]), np.array([0.5, 0.8, 0.9]), 0.03)
    (1, 2, 0.5)
    """
    alone, _, _ = best_point(x, y, budget)
    low, high = np.flatnonzero(x <= budget)[:, None], np.flatnonzero(x > budget)
    if not len(high):
        return alone, alone, 1.0
    weight = (x[high] - budget) / (x[high] - x[low])
    value = weight * y[low] + (1.0 - weight) * y[high]
    i, j = np.unravel_index(value.argmax(), value.shape)
    if value[i, j] <= y[alone]:
        return alone, alone, 1.0
    return int(low[i, 0]), int(high[j]), round(float(weight[i, j]), 12)


def best_point(x: Array, y: Array, budget: float) -> tuple[int, int, float]:
    """The best single point within the budget, as a coin that never falls on the other side."""
    low = np.flatnonzero(x <= budget)
    i = int(low[y[low].argmax()])
    return i, i, 1.0


class Kept(NamedTuple):
    """What a series gave the test rows: (points, rows), NaN on folds that it did not trace."""

    q: Array
    points: list[str]
    about: dict[str, Any]


@cache
def kept(file: Path) -> Kept:
    with np.load(file) as found:
        points = found["points"].tolist()
        return Kept(found["q"].astype(np.float64), points, json.loads(str(found["about"])))


def measured(file: Path, rows: Path, plane: str, gives: str, point: str = "") -> Path_:
    """A series in a plane. A posterior decides by a draw and, as further points, at ½.

    Args:
        point: only this one; a posterior's decides at ½.
    """
    q, points, about = kept(file)
    wanted = [name == point if point else not name.startswith(REFUSED) for name in points]
    q = (q[wanted] > 0.5).astype(float) if point and gives == "posterior" else q[wanted]
    with np.load(rows) as data:
        y, z, fold = data["y"], data["z"], data["fold"]
    own: Callable[..., Any] = of_scores if plane == "scores" else of_decisions
    parts = []
    traced = np.isfinite(q[:, fold < about["folds"]]).all(1)  # a network may diverge
    for k in range(about["folds"]):
        here = fold == k
        points = q[traced][:, here]
        if plane != "scores" and gives == "posterior" and not point:
            points = np.concatenate([points, (points > 0.5).astype(float)])
        parts.append(own(points, y[here], z[here], plane if plane != "scores" else gives))
    stacked = (np.stack(part, axis=-1) for part in zip(*parts, strict=True))
    return Path_(*stacked, gap=PLANES[plane].x == "eo_gap")


def joined(paths: list[Path_]) -> Path_:
    """The points of several series as one path, on the folds that all have."""
    folds = min(path.y.shape[1] for path in paths)
    x, floor, y = (np.concatenate([getattr(path, name)[:, :folds] for path in paths]) for name in ("x", "floor", "y"))
    return Path_(x, floor, y, paths[0].constant[:folds], paths[0].gap)


def of_decisions(q: Array, y: Any, z: Any, plane: str) -> tuple[Any, ...]:
    """x, floor and y (points,), and y of the best constant."""
    groups, both = int(z.max()) + 1, np.stack([1.0 - q, q])
    x_of, y_of = METRICS[PLANES[plane].x].of, METRICS[PLANES[plane].y].of or _less_cost
    assert x_of is not None
    table, rng = _sums(both, y, z, groups), np.random.default_rng(0)
    shuffled = [x_of(_sums(both, y, _shuffled(y, z, rng), groups)) for _ in range(SHUFFLES)]
    always = _sums(np.eye(2)[:, :, None].repeat(len(y), 2), y, z, groups)  # 0 or 1 for everybody
    return x_of(table), np.mean(shuffled, axis=0), y_of(table), y_of(always).max()


def _less_cost(table: Array) -> Array:
    """Minus the mean cost of tables (..., y, z, u)."""
    wrong = COSTS[0] * table[..., 0, :, 1].sum(-1) + COSTS[1] * table[..., 1, :, 0].sum(-1)
    return np.asarray(-wrong / table.sum((-3, -2, -1)))


def _sums(parts: Array, y: Any, z: Any, groups: int) -> Array:
    """Sums over the rows of each cell: (u, points, rows) → (points, y, z, u)."""
    cell = np.eye(2 * groups)[groups * y + z]
    return np.moveaxis((parts @ cell).reshape(*parts.shape[:2], 2, groups), 0, -1)


def _shuffled(y: Any, z: Any, rng: np.random.Generator) -> Any:
    """Groups shuffled within labels."""
    out = z.copy()
    for label in range(2):
        rows = np.flatnonzero(y == label)
        out[rows] = z[rng.permutation(rows)]
    return out


def of_scores(q: Array, y: Any, z: Any, gives: str) -> tuple[Any, ...]:
    """Score v, its floor and AUROC of every point; a decision is a drawn score of two values."""
    rng = np.random.default_rng(0)
    drawn = (rng.random(q.shape) < q).astype(float) if gives == "decisions" else q
    groups = tuple(range(int(z.max()) + 1))
    shuffles = [_shuffled(y, z, rng) for _ in range(SHUFFLES)]
    rows = []
    for score in drawn:
        table = ScoreTable.from_codes(score, y, z, (0, 1), groups)
        seen = conditional_mutual_information(table.binned(BINS).counts)
        level = np.searchsorted(table.binned(BINS).values, score)
        by_chance = [_of_levels(level, y, other, len(groups)) for other in shuffles]
        rows.append((float(seen), float(np.mean(by_chance)), float(table.auroc()[0])))
    x, floor, area = np.array(rows).T
    return x, floor, area, 0.5


def _of_levels(level: Any, y: Any, z: Any, groups: int) -> float:
    size = int(level.max()) + 1
    counts = np.bincount((y * groups + z) * size + level, minlength=2 * groups * size)
    return float(conditional_mutual_information(counts.reshape(2, groups, size)))
