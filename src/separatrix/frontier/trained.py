r"""Trained points: chosen by fold means along the paper's envelope, and what they promise.

The v and u of a revealed mixture are the weighted means of its parts, so what mixtures reach is the
upper concave envelope of the points, and within one budget two points are enough:

.. math:: \max_{i, j, w} \; w a_i + (1 - w) a_j \quad \text{with} \quad
          w b_i + (1 - w) b_j \le \beta \text{ for every budget } \beta.

What the folds say about the best of many points flatters it. Each fold reports the point that the
other folds would have chosen, and the difference is taken off the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.columns.values import Levels
from separatrix.core.measures import METRICS, label_of
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier.results import select
from separatrix.frontier.store import ALL_ROWS, PointKey
from separatrix.optimum.objectives import Cost
from separatrix.procedure.promise import mean_cost, measures_for
from separatrix.procedure.request import Request
from separatrix.report.words import budget_text
from separatrix.statistics.unseen import Promise, unseen

if TYPE_CHECKING:
    from separatrix.frontier.frontier import Frontier

Array = NDArray[np.float64]
Measure = Callable[[Array], Any]
_DECIDED = {"deterministic": "decided", "randomized": "drawn"}
_SAME = 1e-9  # rounding


@dataclass(frozen=True, eq=False)
class TrainedPoint:
    """One point of a trained path.

    Args:
        key: which.
        tables: counts N[y, z, u] of each fold's test rows, (folds, y, z, u).
    """

    key: PointKey
    tables: Array = field(repr=False)

    def mean(self, measure: Measure) -> float:
        """The fold mean of a function of tables."""
        return float(np.mean(measure(self.tables)))

    def __str__(self) -> str:
        recipe = "" if self.key.recipe == "default" else f" ({self.key.recipe})"
        known = " without the group" if self.key.inputs == "x" else ""
        label = f"{methods.style(self.key.method).label}{recipe}{known}"
        return f"{label} λ={self.key.trade_off:g}, {_DECIDED[self.key.policy]}"


@dataclass(frozen=True, eq=False)
class Mixture:
    """One trained point, or a revealed mixture of two.

    Args:
        points: its parts.
        weights: how often each is drawn.
    """

    points: tuple[TrainedPoint, ...]
    weights: tuple[float, ...] = (1.0,)

    @property
    def tables(self) -> Array:
        """Counts (folds, y, z, u) of the decisions, whichever part made them."""
        parts = zip(self.weights, self.points, strict=True)
        return np.asarray(sum(w * point.tables for w, point in parts))

    def in_folds(self, measure: Measure) -> Array:
        """A metric in each fold where the drawn part is known: the weighted mean."""
        parts = zip(self.weights, self.points, strict=True)
        return np.asarray(sum(w * np.asarray(measure(point.tables)) for w, point in parts))

    def __str__(self) -> str:
        if len(self.points) == 1:
            return str(self.points[0])
        parts = zip(self.weights, self.points, strict=True)
        return " + ".join(f"{w:.3g} × ({point})" for w, point in parts)


@dataclass(frozen=True, eq=False)
class Trained(Mixture):
    """A mixture that was chosen, and what unseen rows will show of it.

    Args:
        promise: by metric.
        flattery: what choosing the best of many adds to the objective; taken off the promise.
    """

    promise: Mapping[str, Promise] = field(default_factory=dict)
    flattery: float = 0.0
    is_score, eased = False, 0  # as of a measured procedure

    @property
    def squares(self) -> Array:
        """As large as possible: those of hard decisions."""
        return self.tables


def trained_points(
    frontier: Frontier, method: Sequence[str] | None = None, *, blind: bool = False
) -> list[TrainedPoint]:
    """Every trained point whose folds all trained and whose model is kept, decided ones first.

    Args:
        frontier: what was traced.
        method: only points of these, as "cmi" or with a recipe, as "cmi:score".
        blind: only points that do not see the group.
    """
    columns = frontier.columns
    final = [saved.first for saved in frontier.results.saved if saved.first.fold == ALL_ROWS]
    stored = {(run.method, run.inputs, run.recipe) for run in final}
    rows: dict[PointKey, list[int]] = {}
    names = (columns[name].tolist() for name in PointKey._fields)
    for i, values in enumerate(zip(*names, strict=True)):
        key = PointKey(*values)
        wanted = method is None or any(map(key.asked_by, method))
        if wanted and key[:3] in stored and (key.inputs == "x" or not blind):
            rows.setdefault(key, []).append(i)
    points = [
        TrainedPoint(key, np.stack([*columns["counts"][places]]))
        for key, places in rows.items()
        if all(columns["status"][i] == "ok" for i in places)
    ]
    if not points and method:
        raise InputError(
            f"The frontier has no trained point of {', '.join(sorted(method))} to choose from: "
            "none was traced, or every one diverged or failed."
        )
    return sorted(points, key=lambda point: point.key.policy)


def trained(points: Sequence[TrainedPoint], request: Request, groups: Levels) -> Trained:
    """The best mixture for a request, with an honest promise.

    Raises:
        InfeasibleError: no mixture keeps the budgets; it says the smallest that one keeps.
    """
    mixture = best_mixture(points, request, groups)
    flattery = _flattery(points, mixture, request, groups)
    measures = measures_for(request.maximize, groups)
    sign = 1.0 if isinstance(request.maximize, Cost) else -1.0
    each = [unseen(point.tables, point.tables, measures) for point in mixture.points]
    promise = {name: _mean([values[name] for values in each], mixture.weights) for name in measures}
    if request.aim in promise:
        promise[request.aim] = _shifted(promise[request.aim], sign * flattery)
    return Trained(mixture.points, mixture.weights, promise, flattery)


def objective_of_tables(request: Request, groups: Levels) -> Measure:
    """What is maximised, as a function of tables (..., y, z, u): minus the mean of a `Cost`."""
    aim = request.maximize
    if isinstance(aim, Cost):
        costs = aim.per_group(groups)
        return lambda tables: -mean_cost(costs, tables)
    if callable(aim):
        return aim
    measure = METRICS[aim].of
    if measure is None:
        raise InputError(f"{aim!r} is not a metric of decisions; trained points are.")
    return measure


def best_mixture(points: Sequence[TrainedPoint], request: Request, groups: Levels) -> Mixture:
    """The best trained point or mixture of two whose fold means keep every budget."""
    value = objective_of_tables(request, groups)
    values = np.array([point.mean(value) for point in points])
    if np.isnan(values).all():
        raise InputError(f"{request.aim} is not defined for any trained point.")
    values = np.where(np.isnan(values), -np.inf, values)
    budget = np.array(list(request.budgets.values()))
    measures = [METRICS[name].of for name in request.budgets]
    limits = np.array([[p.mean(of) for of in measures if of is not None] for p in points])
    limits = limits.reshape(len(points), len(budget))
    pair = best_pair(values, limits, budget)
    if pair is None:
        raise _infeasible(points, values, limits, request)
    i, j, w = pair
    alone = np.where((limits <= budget + 1e-12).all(1), values, -np.inf)
    single = int(alone.argmax())
    if alone[single] >= w * values[i] + (1.0 - w) * values[j] - _SAME:
        return Mixture((points[single],))
    return Mixture((points[i], points[j]), (w, 1.0 - w))


def best_pair(values: Array, limits: Array, budget: Array) -> tuple[int, int, float] | None:
    """Pair (i, j) and weight of i with the best mean value whose mean limits keep every budget.

    Args:
        values: (M,), −inf for what may not be used.
        limits: (M, budgets).
        budget: (budgets,).
    """
    first, second = np.triu_indices(len(values))
    use = np.isfinite(values[first]) & np.isfinite(values[second])
    first, second = first[use], second[use]
    if not len(first):
        return None
    low, high = np.zeros(len(first)), np.ones(len(first))
    for k, b in enumerate(budget):
        # w · slope ≤ slack
        slack, slope = b - limits[second, k], limits[first, k] - limits[second, k]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = slack / slope
        high = np.where(slope > 0, np.minimum(high, ratio), high)
        low = np.where(slope < 0, np.maximum(low, ratio), low)
        high = np.where((slope == 0) & (slack < 0), -1.0, high)
    possible = low <= high
    if not possible.any():
        return None
    weight = np.where(values[first] >= values[second], high, low)
    mean = np.where(possible, weight * values[first] + (1.0 - weight) * values[second], -np.inf)
    k = int(np.argmax(mean))
    return int(first[k]), int(second[k]), float(weight[k])


def held_out_law(frontier: Frontier, mixture: Mixture) -> Array:
    """P(U = u | row) of every row, (n, K), by models that did not see it."""
    law = np.zeros((len(frontier.rows["y"]), len(frontier.labels)))
    for weight, point in zip(mixture.weights, mixture.points, strict=True):
        method, inputs, recipe, trade_off, policy = point.key
        q = frontier.held_out(f"{method}:{recipe}", trade_off, inputs=inputs).astype(np.float64)
        if policy == "randomized":
            law += weight * q / q.sum(1, keepdims=True)
            continue
        records = select(frontier.columns, **point.key._asdict())
        cuts = np.empty(int(records["fold"].max()) + 1)
        cuts[records["fold"]] = records["threshold"]
        second = q[:, 1] > cuts[frontier.rows["fold"]]
        chosen = second.astype(np.intp) if q.shape[1] == 2 else q.argmax(1)
        law += weight * np.eye(q.shape[1])[chosen]
    return law


def _mean(promises: Sequence[Promise], weights: Sequence[float]) -> Promise:
    """The weighted mean; errors of parts that share their rows are added, not squared."""
    return Promise(*(float(x) for x in np.dot(weights, promises)))


def _shifted(promise: Promise, by: float) -> Promise:
    value, error, low, high = promise
    return Promise(value + by, error, low + by, high + by)


def _flattery(points: Sequence[TrainedPoint], chosen: Mixture, request: Request, groups: Levels) -> float:
    """By how much the best of many looks better than what the other folds would have chosen."""
    folds = len(points[0].tables)
    if folds < 3:
        return 0.0
    value, gains = objective_of_tables(request, groups), []
    chosen_values = chosen.in_folds(value)
    for k in range(folds):
        rest = np.arange(folds) != k
        whole = {point.key: point for point in points}
        others = [replace(point, tables=point.tables[rest]) for point in points]
        try:
            other = best_mixture(others, request, groups)
        except InfeasibleError:
            continue
        same = replace(other, points=tuple(whole[point.key] for point in other.points))
        gains.append(float(same.in_folds(value)[k] - chosen_values[k]))
    return max(-float(np.mean(gains)), 0.0) if gains else 0.0


def _infeasible(points: Sequence[TrainedPoint], values: Array, limits: Array, request: Request) -> InfeasibleError:
    """The smallest budgets, in the proportion asked for, that a point keeps."""
    budget = np.array(list(request.budgets.values()))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(budget > 0, limits / budget, np.where(limits > 0, np.inf, 0.0)).max(1)
    if np.isinf(ratio).all():  # a budget of zero has no multiple
        ratio = limits.max(1)
    i = int(np.argmin(np.where(np.isfinite(values), ratio, np.inf)))
    smallest: Mapping[str, float] = dict(zip(request.budgets, limits[i].tolist(), strict=True))
    needed = budget_text({name: float(f"{most:.4g}") for name, most in smallest.items()})
    return InfeasibleError(
        f"No trained point keeps {budget_text(request.budgets)}. The smallest that one keeps is "
        f"{needed} ({points[i]}), at {label_of(request.aim)} {values[i]:.4f}.",
        dict(smallest),
        float(values[i]),
    )
