r"""The best decisions within a budget, with or without the group: column generation.

A rule of x alone has the rates R[y,z,u] = E[P(U=u|x) q(y,z|x)] / P(y,z): linear in the rule. A rule
that sees the group is one of x = (p, z) with q(y, z'|x) = p_y 1{z' = z} (`LabelLaw`). With the
prices of a budget (`master`) the best rule decides

.. math:: \arg\max_u \sum_{y,z} q(y,z|x) \, W[y,z,u], \qquad W = g - \text{price} / P(y,z),

for gains g[y,z,u]. That decision is a new column; a small programme mixes the columns found so far
so that the budget holds exactly, and its prices give the next W. For a known law the gain of the
priced decision is an upper bound for every rule, and the loop ends when mixture and bound meet. For
rows (`BlindRows`) the mixture is counted with their own labels, so the budget holds on them
whatever q says, and q is used for the prices only. The columns that are best under the law q are
there from the start, and the loop ends when no priced decision improves the mixture.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Levels
from separatrix.core.measures import Metric
from separatrix.errors import InputError
from separatrix.optimum.law import BlindLaw, BlindRows, LabelLaw
from separatrix.optimum.multiclass.master import DifferenceBudget, budget_of
from separatrix.optimum.objectives import Cost, Value, objective_of
from separatrix.optimum.roc.certified import most_useful_vertex
from separatrix.optimum.rules import BlindRule, HardMixture

__all__ = ["ColumnPoint", "Columns", "best_blind"]

Array = NDArray[np.float64]
_ROUNDS = 300  # columns at most, for one question; 4 labels × 3 groups need about 200
_CLOSE = 2e-6  # of the range of the gains: mixture and bound have met
_USEFUL = 1e-5  # nats: close enough for the utility of a law
_NOISE = 1e-4  # nats, and share of the gains: close enough for rows, not known that well
_HOLD = 0.5  # how much of the best prices the next ones keep: plain prices swing
_HOLD_MANY = 0.85  # of a price for every pair of groups and decision, which swing more


class ColumnPoint(NamedTuple):
    """The best mixture for one question.

    Args:
        weights: how often each decision is drawn, array (m,).
        columns: W of each, array (m, U, labels, groups).
        rates: P(U=u | y, z), array (labels, groups, U).
        value: what it gains.
        upper: a bound that no rule within the budget exceeds.
    """

    weights: Array
    columns: Array
    rates: Array
    value: float
    upper: float

    @property
    def rule(self) -> BlindRule:
        """It as a rule of q(y, z | x)."""
        return BlindRule(self.weights, self.columns)

    def group_rule(self, groups: Levels) -> HardMixture:
        """It as a rule of the posterior and the group."""
        return HardMixture(groups, self.weights, np.moveaxis(self.columns, -1, 1))


class Columns:
    """The columns for a law and a budget; they serve every objective and level.

    Args:
        law: rows, or the atoms of a law.
        budget: one of the list.

    >>> from separatrix.core.measures import BUDGETS
    >>> q = np.array([[[0.4, 0.4], [0.1, 0.1]], [[0.1, 0.1], [0.4, 0.4]], [[0, 0.4], [0.6, 0]]])
    >>> columns = Columns(BlindLaw(q, np.ones(3)), BUDGETS["eo_gap"])
    >>> right = np.eye(2)[:, None] * np.ones((2, 2, 1))
    >>> [round(columns.best(right, level).value, 3) for level in (0.0, 0.05, 1.0)]
    [0.533, 0.603, 0.733]
    """

    def __init__(self, law: BlindLaw | LabelLaw, budget: Metric) -> None:
        self.law, outputs = law, len(law.mass)
        self.programme = budget_of(budget, law.mass, outputs)
        many = outputs > 2 and isinstance(self.programme, DifferenceBudget)
        self.hold = _HOLD_MANY if many else _HOLD
        self._mass = np.where(law.mass > 0, law.mass, 1.0)[..., None]
        self.guide: Columns | None = None  # the law of q, for rows
        if isinstance(law, BlindRows):
            self.guide = Columns(BlindLaw(law.joint, law.weight), budget)
        self.priced: list[Array] = []
        self._copied = 0
        self.rates = np.zeros((0, *law.mass.shape, outputs))
        for u in range(outputs):
            self._add(np.broadcast_to(np.eye(outputs)[u], (*law.mass.shape, outputs)))

    def best(self, gains: Array, level: float, close: float = _CLOSE) -> ColumnPoint:
        """The mixture of the largest Σ P(y,z) g[y,z,u] R[y,z,u] within the budget, and a bound.

        Args:
            gains: g[y, z, u].
            level: the budget.
            close: the share of the gains' range that may be between mixture and bound.
        """
        worth = self.law.mass[..., None] * gains
        self._add(gains)
        self._follow(gains, level)
        close *= max(float(np.ptp(gains)), 1e-12)
        upper, held = np.inf, None
        for _ in range(_ROUNDS):
            # The best mixture of the columns so far, and what it says the budget costs.
            values = np.tensordot(self.rates, worth, 3)
            found = self.programme.mix(values, self.rates, level)
            value = float(found.weights @ values)
            new = (found.price, found.spent)
            mean = new if held is None else _between(held, new, self.hold)
            improved = False
            # Steadied prices bound better; the mixture's own find a column wherever there is one.
            for price, spent in (mean, new):
                rates = self._add(gains - price / self._mass)
                bound = float(((worth - price) * rates).sum()) + spent
                if bound < upper:
                    upper, held = bound, (price, spent)
                if float(((worth - new[0]) * rates).sum()) + new[1] > value + close:
                    improved = True
                    break
            if upper - value <= close or not improved:
                break
        return self._point(found.weights, value, max(upper, value))

    def most(self, value: Value, level: float) -> ColumnPoint:
        """The best mixture for an objective of the list; two labels."""
        mass = self.law.mass
        if value.price is not None:
            gains = np.zeros((*mass.shape, 2))
            gains[..., 1] = value.price.T
            point = self.best(gains, level)
            return point._replace(
                value=point.value + value.constant, upper=point.upper + value.constant
            )
        prior = mass.sum(1)

        def touch(angle: float) -> tuple[ColumnPoint, Array, float]:
            gains = np.zeros((*mass.shape, 2))
            gains[..., 1] = (np.array([-np.cos(angle), np.sin(angle)]) / prior)[:, None]
            point = self.best(gains, level)
            return point, (mass * point.rates[..., 1]).sum(1) / prior, point.upper

        close = _USEFUL if self.guide is None else _NOISE
        point, upper = most_useful_vertex(touch, prior, close)
        return point._replace(value=float(value(point.rates[..., 1].T)), upper=upper)

    def _follow(self, gains: Array, level: float) -> None:
        """Add the columns that the law of q needs for the same question."""
        if self.guide is None:
            return
        self.guide.best(gains, level, _NOISE)
        for priced in self.guide.priced[self._copied :]:
            self._add(np.moveaxis(priced, 0, -1))
        self._copied = len(self.guide.priced)

    def _add(self, gains: Array) -> Array:
        """The rates of argmax_u ⟨gains_u, q⟩, which is a column from now on."""
        priced = np.moveaxis(np.asarray(gains, dtype=np.float64), -1, 0)
        rates = self.law.decided(priced) / self._mass
        if not len(self.rates) or np.abs(self.rates - rates).max((1, 2, 3)).min() > 1e-12:
            self.priced.append(priced)
            self.rates = np.concatenate([self.rates, rates[None]])
        return rates

    def _point(self, weights: Array, value: float, upper: float) -> ColumnPoint:
        kept = np.flatnonzero(weights > 1e-9)
        share = weights[kept] / weights[kept].sum()
        columns = np.stack([self.priced[i] for i in kept])
        return ColumnPoint(share, columns, np.tensordot(share, self.rates[kept], 1), value, upper)


def best_blind(columns: Columns, maximize: str | Cost, level: float, groups: Levels) -> ColumnPoint:
    """The best mixture for an objective of the list, any number of labels.

    For more than two labels the same prices bound every linear objective. The utility is not one,
    and its search in the plane of two rates has no counterpart there.
    """
    mass = columns.law.mass
    if len(mass) == 2:
        return columns.most(Value.of(maximize, mass.T, groups), level)
    name = objective_of(maximize).name
    if name not in ("accuracy", "balanced_accuracy"):
        raise InputError(
            "Without the group and with more than two labels `maximize` must be 'accuracy' or "
            f"'balanced_accuracy', got {maximize!r}."
        )
    prior = mass.sum(1)
    present = prior > 0
    worth = np.ones(len(mass))
    if name == "balanced_accuracy":
        worth = np.where(present, 1.0 / np.where(present, prior, 1.0), 0.0) / present.sum()
    gains = np.eye(len(mass))[:, None] * worth[:, None, None] * np.ones((*mass.shape, 1))
    return columns.best(gains, level)


def _between(
    held: tuple[Array, float], new: tuple[Array, float], hold: float
) -> tuple[Array, float]:
    """Prices between two, which bound as well."""
    return hold * held[0] + (1.0 - hold) * new[0], hold * held[1] + (1.0 - hold) * new[1]
