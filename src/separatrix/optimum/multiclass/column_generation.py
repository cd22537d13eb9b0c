r"""The best decisions within a budget, with or without the group: column generation.

A rule of x alone has the rates R[y,z,u] = E[P(U=u|x) q(y,z|x)] / P(y,z): linear in the rule. A rule
that sees the group is one of x = (p, z) with q(y, z'|x) = p_y 1{z' = z} (`LabelLaw`). With the
prices of a budget (below) the best rule decides

.. math:: \arg\max_u \sum_{y,z} q(y,z|x) \, W[y,z,u], \qquad W = g - \text{price} / P(y,z),

for gains g[y,z,u]. That decision is a new column; a small programme mixes the columns found so far
so that the budget holds exactly, and its prices give the next W. For a known law the gain of the
priced decision is an upper bound for every rule, and the loop ends when mixture and bound meet. For
rows (`BlindRows`) the mixture is counted with their own labels, so the budget holds on them
whatever q says, and q is used for the prices only. The columns that are best under the law q are
there from the start, and the loop ends when no priced decision improves the mixture.

*The mixture* of columns that is best within a budget, and the prices of the budget there. A column
is a decision known by its rates R[y, z, u] = P(U=u | y, z). For a budget on the
differences between groups the mixture is a linear programme with rows A R + B a ≤ b, a auxiliary
numbers in [0, 1]. Its prices μ ≥ 0 bound *every* rule with gains c·R:

.. math:: c \cdot R \le \max_R (c - A^\top μ) \cdot R + \sum_j [-(B^\top μ)_j]_+ + μ \cdot b .

The violation v is a maximum of linear functions: v(R') ≥ Σ P(y,z) log(R/R̄) R' for *every* R,
with equality at R' = R. So it is a budget of such cuts, each at the price μ and with b = ε. They
are added where the segment from the best mixture without any violation leaves the budget.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from separatrix.columns.values import Levels
from separatrix.core.measures import BUDGETS, Metric, budget_named
from separatrix.core.numerics import Array, Mask, bisect
from separatrix.errors import InputError
from separatrix.optimum.law import BlindLaw, BlindRows, LabelLaw
from separatrix.optimum.objectives import Value, gains_of
from separatrix.optimum.roc.certified import most_useful_vertex
from separatrix.optimum.roc.linear_programme import least_cost
from separatrix.optimum.rules import BlindRule, HardMixture, Rule, Solution

_MOST = 400  # differences between groups; with more the programmes take minutes
_CUTS = 60  # of the violation, for one mixture
_MET = 1e-6  # of the range of the gains: cuts and violation have met
_INSIDE = 1e-9  # rates below this are cut as if they were this
_NOTHING = 1e-12  # nats: a smaller violation is none
_TINY = 1e-300
_ROUNDS = 300  # columns at most, for one question; 4 labels × 3 groups need about 200
_BOUND_GAP, _BLIND_GAP = 1e-6, 2e-6  # of the range of the gains: mixture and bound have met
_USEFUL = 1e-5  # nats: close enough for the utility of a law
_NOISE = 1e-4  # nats, and share of the gains: close enough for rows, not known that well
_HOLD = 0.5  # how much of the best prices the next ones keep: plain prices swing
_HOLD_MANY = 0.85  # of a price for every pair of groups and decision, which swing more


class Mixture(NamedTuple):
    """Weights of the columns, what a rate R[y, z, u] costs, and what the budget itself costs."""

    weights: Array
    price: Array
    spent: float


class DifferenceBudget:
    """A budget on the groups' differences.

    Args:
        widths: array (rows, labels): max_i Σ_y widths[i, y] · TV_y ≤ ε.
        mass: P(y, z); cells without mass take no part.
        outputs: the number of decisions.
        relative: of two decisions, max_i Σ_y widths[i, y] · (1 − lo_y / hi_y) ≤ ε instead.
    """

    def __init__(self, widths: Array, mass: Array, outputs: int, relative: bool = False) -> None:
        self.relative = relative
        self.shape = (*mass.shape, outputs)
        cells = (mass > 0) & (widths.max(0) > 0)[:, None]
        on_rates, on_auxiliary, share = self._ranges(cells) if outputs == 2 else self._pairs(cells)
        self.on_rates = np.vstack([on_rates, np.zeros((len(widths), on_rates.shape[1]))])
        self.on_auxiliary = np.vstack([on_auxiliary, widths @ share])
        self.last = len(widths)

    def mix(self, gains: Array, rates: Array, level: float) -> Mixture:
        """The best mixture of columns with these gains (m,) and rates (m, labels, groups, U)."""
        m, (rows, more) = len(gains), self.on_auxiliary.shape
        right = np.r_[np.zeros(rows - self.last), np.full(self.last, level)]
        on_auxiliary = self.on_auxiliary
        if self.relative:  # (1 − ε) hi ≤ lo
            on_auxiliary, right = on_auxiliary.copy(), np.zeros(rows)
            on_auxiliary[-self.last :, more // 2 :] *= 1.0 - level
        scale = float(np.ptp(gains)) or 1.0
        matrix = np.hstack([self.on_rates @ rates.reshape(m, -1).T, on_auxiliary])
        x, mu = least_cost(np.r_[-gains / scale, np.zeros(more)], matrix, right, np.r_[np.ones(m), np.zeros(more)])
        mu, weights = mu * scale, np.maximum(x[:m], 0.0)
        spent = float(np.maximum(-(mu @ on_auxiliary), 0.0).sum() + mu @ right)
        return Mixture(weights / weights.sum(), (mu @ self.on_rates).reshape(self.shape), spent)

    def _ranges(self, cells: Mask) -> tuple[Array, Array, Array]:
        """Two decisions: the rates of U = 1 between lo_y and hi_y; TV_y is hi_y − lo_y."""
        labels = len(cells)
        y, z = np.nonzero(cells)
        n, index = len(y), np.arange(len(y))
        rates, auxiliary = np.zeros((2, n, *self.shape)), np.zeros((2, n, 2, labels))
        rates[0, index, y, z, 1], auxiliary[0, index, 1, y] = 1.0, -1.0
        rates[1, index, y, z, 1], auxiliary[1, index, 0, y] = -1.0, 1.0
        share = np.hstack([-np.eye(labels), np.eye(labels)])
        return rates.reshape(2 * n, -1), auxiliary.reshape(2 * n, -1), share

    def _pairs(self, cells: Mask) -> tuple[Array, Array, Array]:
        """More decisions: positive parts d of the differences of each pair, and widths t_y."""
        labels, outputs = len(cells), self.shape[2]
        pairs = [(y, *ab) for y in range(labels) for ab in combinations(np.flatnonzero(cells[y]), 2)]
        n = len(pairs)
        if n * outputs > _MOST:
            raise InputError(
                f"An EO budget for {labels} labels and {cells.shape[1]} groups has too many "
                "differences between groups to be solved. Use `budget='violation'`, or join groups."
            )
        difference, width = np.zeros((n, outputs, *self.shape)), np.zeros((n, labels))
        u = np.arange(outputs)
        for k, (y, a, b) in enumerate(pairs):
            difference[k, u, y, a, u], difference[k, u, y, b, u], width[k, y] = 1.0, -1.0, 1.0
        total = np.kron(np.eye(n), np.ones((1, outputs)))
        rates = np.vstack([difference.reshape(n * outputs, -1), np.zeros((n, np.prod(self.shape)))])
        auxiliary = np.block([[-np.eye(n * outputs), np.zeros((n * outputs, labels))], [total, -width]])
        share = np.hstack([np.zeros((labels, n * outputs)), np.eye(labels)])
        return rates, auxiliary, share


class ViolationBudget:
    """A budget on v = I(U;Z|Y), by cuts where the segment from no violation leaves it.

    Args:
        mass: P(y, z).
        outputs: the number of decisions.
    """

    def __init__(self, mass: Array, outputs: int) -> None:
        self.mass = mass[..., None]
        self.share = (mass / np.maximum(mass.sum(1, keepdims=True), _TINY))[..., None]  # P(z | y)
        self.none = DifferenceBudget(np.eye(len(mass)), mass, outputs)  # v = 0: no differences
        self.cuts = np.zeros((0, mass.size * outputs))

    def mix(self, gains: Array, rates: Array, level: float) -> Mixture:
        """As in `DifferenceBudget`."""
        inner = self.none.mix(gains, rates, 0.0)
        if level <= _NOTHING:
            return inner
        flat, scale = rates.reshape(len(rates), -1).T, float(np.ptp(gains)) or 1.0
        for _ in range(_CUTS):
            cuts = self.cuts @ flat
            # divided by the level, since the solver's tolerance is absolute
            x, mu = least_cost(-gains / scale, cuts / level, np.ones(len(cuts)), np.ones(len(gains)), exact=True)
            far = np.maximum(x, 0.0)
            step = far / far.sum() - inner.weights
            size = self._leaves(inner.weights, step, rates, level)
            weights = inner.weights + size * step
            if size < 1.0:
                self._cut(np.tensordot(weights, rates, 1))
            if (1.0 - size) * float(gains @ step) <= _MET * scale:
                break
        mu = mu * scale / level
        price = mu @ self.cuts[: len(mu)]
        self.cuts = self.cuts[np.r_[mu > 0, np.ones(len(self.cuts) - len(mu), dtype=bool)]]
        return Mixture(weights, price.reshape(rates.shape[1:]), float(mu.sum()) * level)

    def _leaves(self, start: Array, step: Array, rates: Array, level: float) -> float:
        """Where the segment leaves the budget: 1 if it does not."""
        first, way = (np.tensordot(weights, rates, 1) for weights in (start, step))

        def within(share: float) -> bool:
            return self._violation(first + share * way) <= level

        return 1.0 if within(1.0) else float(bisect(within, 0.0, 1.0, 40)[0])

    def _cut(self, mean: Array) -> None:
        """v(R') ≥ Σ P(y,z) log(R / R̄) R' for every R, with equality at R' = R."""
        inside = np.maximum(mean, _INSIDE)
        cut = self.mass * np.log(inside / (self.share * inside).sum(1, keepdims=True))
        self.cuts = np.concatenate([self.cuts, cut.reshape(1, -1)])

    def _violation(self, mean: Array) -> float:
        inside = np.maximum(mean, _TINY)
        ratio = np.log(inside / np.maximum((self.share * inside).sum(1, keepdims=True), _TINY))
        return float((self.mass * inside * ratio).sum())


class PooledBudget:
    """A budget on P(U=u | z), whatever the label: that of one label with the pooled rates.

    Args:
        inner: the budget of a single label.
        mass: P(y, z).
    """

    def __init__(self, inner: DifferenceBudget | ViolationBudget, mass: Array) -> None:
        of_group = mass.sum(0)
        self.inner, self.share = inner, mass / np.where(of_group > 0, of_group, 1.0)

    def mix(self, gains: Array, rates: Array, level: float) -> Mixture:
        """The best mixture of columns with these gains (m,) and rates (m, labels, groups, U)."""
        pooled = np.einsum("yz,myzu->mzu", self.share, rates)[:, None]
        mixture = self.inner.mix(gains, pooled, level)
        return mixture._replace(price=self.share[..., None] * mixture.price[0])


def budget_of(budget: Metric, mass: Array, outputs: int) -> DifferenceBudget | ViolationBudget | PooledBudget:
    """The programme of a budget of the list, for these labels and groups."""
    labels = len(mass)
    if budget.criterion == "sufficiency":
        raise InputError("A predictive gap needs rules that see the group; use another criterion without it.")
    if budget.pooled and labels == 2:
        whole = mass.sum(0, keepdims=True)
        if budget.widths is None:
            return PooledBudget(ViolationBudget(whole, outputs), mass)
        return PooledBudget(DifferenceBudget(np.array(budget.widths, float), whole, outputs, budget.relative), mass)
    if budget.name == "violation":
        return ViolationBudget(mass, outputs)
    if labels == 2:
        return DifferenceBudget(np.array(budget.widths, float), mass, outputs)
    present = (mass.sum(1) > 0).astype(np.float64)
    widths = {"eo_gap": present[None] / present.sum(), "eo_max": np.diag(present)}
    if budget.name not in widths:
        others = ", ".join(repr(name) for name, other in BUDGETS.items() if other.many_labels)
        raise InputError(f"More than two labels: the budget must be one of {others}, got {budget.name!r}.")
    return DifferenceBudget(widths[budget.name], mass, outputs)


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


class ColumnSolver:
    """Mixtures of decisions, with the group or of x alone; the columns found serve every level.

    Args:
        law: of the posteriors (with the group), the atoms of a law, or rows.
        groups: their names.
        maximize, budget: as in `limit`; for more than two labels no utility and no costs.

    >>> q = np.array([[[0.4, 0.4], [0.1, 0.1]], [[0.1, 0.1], [0.4, 0.4]], [[0, 0.4], [0.6, 0]]])
    >>> best = ColumnSolver(BlindLaw(q, np.ones(3)), (0, 1), "accuracy", "eo_gap")
    >>> [round(best.point(level).value, 3) for level in (0.0, 0.05, 1.0)]
    [0.533, 0.603, 0.733]
    """

    strictest = 0.0

    def __init__(self, law: BlindLaw | LabelLaw, groups: Levels, maximize: Any, budget: str) -> None:
        self.law, self.mass, self.groups = law, law.mass, groups
        self.maximize, self.budget, outputs = maximize, budget, len(law.mass)
        self.programme = budget_of(budget_named(budget), law.mass, outputs)
        self.value: Value | None = None  # of two labels
        if outputs == 2:
            self.value = Value.from_objective(maximize, law.mass.T, groups)
            price = self.value.price
            self.gains = None if price is None else np.stack([0.0 * price.T, price.T], axis=-1)
        else:
            gains = gains_of(maximize, law.mass.sum(1))
            if gains is None:
                raise InputError(
                    f"For {outputs} labels 'utility' goes with 'violation' and rules that see the "
                    "group; here `maximize` must be 'accuracy' or 'balanced_accuracy'."
                )
            self.gains = np.broadcast_to(gains[:, None], (*law.mass.shape, outputs))
        many = outputs > 2 and isinstance(self.programme, DifferenceBudget)
        self.hold = _HOLD_MANY if many else _HOLD
        self.close = _BLIND_GAP if isinstance(law, BlindLaw) else _BOUND_GAP
        self._cell = np.where(law.mass > 0, law.mass, 1.0)[..., None]
        self.guide: ColumnSolver | None = None  # the law of q, for rows
        if isinstance(law, BlindRows):
            self.guide = ColumnSolver(BlindLaw(law.joint, law.weight), groups, maximize, budget)
        self.priced: list[Array] = []
        self._copied, self.rates = 0, np.zeros((0, *law.mass.shape, outputs))
        for constant in np.eye(outputs):
            self._add(np.broadcast_to(constant, self.rates.shape[1:]))

    def solve(self, levels: Array, start: Any = None) -> list[Solution]:
        """Solutions of rising levels; the loosest first."""
        points = [self.point(level) for level in levels[::-1].tolist()][::-1]
        return [Solution(p.value, p.upper, p.rates, partial(self._rule, p)) for p in points]

    def spaced(self, points: int) -> Array:
        """Levels up to what the best rule without a budget uses."""
        top = float(budget_named(self.budget)(self.mass[..., None] * self.point(1.0).rates))
        return top * np.linspace(0.0, 1.0, points + 1)[1:] ** 2

    def point(self, level: float) -> ColumnPoint:
        """The best mixture within a level."""
        if self.gains is None:
            return self._most_useful(level)
        point = self._best(self.gains, level, self.close)
        constant = 0.0 if self.value is None else self.value.constant
        return point._replace(value=point.value + constant, upper=point.upper + constant)

    def _rule(self, point: ColumnPoint) -> Rule:
        if isinstance(self.law, BlindLaw):
            return point.rule
        return HardMixture(self.groups, point.weights, np.moveaxis(point.columns, -1, 1))

    def _most_useful(self, level: float) -> ColumnPoint:
        """The best mixture for the utility of two labels."""
        assert self.value is not None
        mass, prior = self.mass, self.mass.sum(1)

        def touch(angle: float) -> tuple[ColumnPoint, Array, float]:
            gains = np.zeros((*mass.shape, 2))
            gains[..., 1] = (np.array([-np.cos(angle), np.sin(angle)]) / prior)[:, None]
            point = self._best(gains, level, self.close)
            return point, (mass * point.rates[..., 1]).sum(1) / prior, point.upper

        close = _USEFUL if self.guide is None else _NOISE
        point, upper = most_useful_vertex(touch, prior, close)
        return point._replace(value=float(self.value(point.rates[..., 1].T)), upper=upper)

    def _best(self, gains: Array, level: float, close: float) -> ColumnPoint:
        """The mixture of the largest Σ P(y,z) g[y,z,u] R[y,z,u] within the budget, and a bound.

        Args:
            gains: g[y, z, u].
            level: the budget.
            close: the share of the gains' range that may be between mixture and bound.
        """
        worth = self.mass[..., None] * gains
        self._add(gains)
        if self.guide is not None:  # the columns that the law of q needs for the same question
            self.guide._best(gains, level, _NOISE)
            for priced in self.guide.priced[self._copied :]:
                self._add(np.moveaxis(priced, 0, -1))
            self._copied = len(self.guide.priced)
        close *= max(float(np.ptp(gains)), 1e-12)
        upper, held = np.inf, None
        for _ in range(_ROUNDS):
            # The best mixture of the columns so far, and what it says the budget costs.
            values = np.tensordot(self.rates, worth, 3)
            mixture = self.programme.mix(values, self.rates, level)
            value = float(mixture.weights @ values)
            new = mixture[1:]
            # Prices between two bound as well, and steadied ones better; the mixture's own find a
            # column wherever there is one.
            old, hold = held or new, self.hold if held else 0.0
            steadied = hold * old[0] + (1.0 - hold) * new[0], hold * old[1] + (1.0 - hold) * new[1]
            improved = False
            for price, spent in (steadied, new):
                rates = self._add(gains - price / self._cell)
                bound = float(((worth - price) * rates).sum()) + spent
                if bound < upper:
                    upper, held = bound, (price, spent)
                if float(((worth - new[0]) * rates).sum()) + new[1] > value + close:
                    improved = True
                    break
            if upper - value <= close or not improved:
                break
        drawn = np.flatnonzero(mixture.weights > 1e-9)
        share = mixture.weights[drawn] / mixture.weights[drawn].sum()
        columns, rates = np.stack([self.priced[i] for i in drawn]), np.tensordot(share, self.rates[drawn], 1)
        return ColumnPoint(share, columns, rates, value, max(upper, value))

    def _add(self, gains: Array) -> Array:
        """The rates of argmax_u ⟨gains_u, q⟩, which is a column from now on."""
        priced = np.moveaxis(np.asarray(gains, dtype=np.float64), -1, 0)
        rates = self.law.decided(priced) / self._cell
        if not len(self.rates) or np.abs(self.rates - rates).max((1, 2, 3)).min() > 1e-12:
            self.priced.append(priced)
            self.rates = np.concatenate([self.rates, rates[None]])
        return rates
