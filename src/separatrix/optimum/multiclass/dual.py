r"""The best rules for any number of labels under a violation: one convex dual and a certificate.

A rule has the table N[y,z,u] (`law`). The violation is a maximum of linear functions of it,
:math:`v(N) = H(Z|Y) + \max_t \langle \log t, N \rangle` over laws t(z|y,u). With
:math:`t \propto P(z|y) e^{ν/β}` every rule with v ≤ ε therefore gains at most

.. math:: D_0(ν, β) + βε, \quad D_τ = \sum_i w_i τ \operatorname{lse}_u \Bigl( \sum_y p_{iy}
   W[y,z_i,u] / τ \Bigr), \quad W = g - ν + β \log \sum_z P(z|y) e^{ν/β},

for gains g[y,u] and *any* ν and β > 0: that is the upper bound. D_τ + βε is convex in (ν, β);
where it is least, the rule softmax(p W_z / τ) has v = ε. In the variable ν √P(y,z) the curvature of
rare and common cells is alike, and L-BFGS needs tens of steps instead of thousands.

The utility is convex in N, so that its tangent g = log P(u|y)/P(u) at a rule is below it: the best
rule for the tangent's gains has at least the same u. Repeated, u rises to a local optimum
without a bound.

The law is that of the posteriors: P(y|x,z) = p. Posteriors that are not calibrated give a bound for
a law that is not the data's.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from separatrix.columns.values import Levels
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.core.numerics import Array, bisect
from separatrix.optimum.law import LabelLaw
from separatrix.optimum.objectives import gains_of
from separatrix.optimum.rules import SoftmaxChannel, Solution

_TEMPERATURES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)  # of the range of the gains, or nats for u
_BOUND_GAP = 1e-5  # bound and value this close, in the range of the gains, are good enough
_EVALUATIONS = 300  # at each temperature, for fixed gains
_STEP, _ROUNDS = 25, 12  # evaluations between two tangents, and how many tangents
_STILL = 1e-3  # a tangent that moves the utility by less than this share of it is the last
_STUCK = -4.0  # a start with a lower log price stays there, since its slope in log β vanishes
_LOG_PRICE = (-14.0, 14.0)  # of the violation, for gains with a range of one
_FEW, _RANDOM = 500, 5  # numbers of a law that is small, and its random starts
_RAREST = 1e-9  # mass of a cell, for the scale of its variable, and of a value, for its logarithm


class DualState(NamedTuple):
    """Where a search is: (ν √P(y,z), log β), the gains and log π."""

    x: Array
    gains: Array
    log_base: Array


class DualPoint(NamedTuple):
    """A rule π(u) exp(p · weight_z), then `mix`; and its numbers on the law.

    Args:
        weight: (groups, U, labels).
        log_base: log π (U,).
        mix: (U, U), what each value is replaced by.
        table: N[y, z, u] of the rule.
        value, violation, utility: of the rule.
        upper: bound of every rule within the level; NaN where nothing is proven.
        start: where a search for a near level, or price, may start.
    """

    weight: Array
    log_base: Array
    mix: Array
    table: Array
    value: float
    violation: float
    utility: float
    upper: float
    start: DualState

    def rule(self, groups: Levels) -> SoftmaxChannel:
        """It as a channel."""
        bias, mix = np.tile(self.log_base, (len(groups), 1)), np.tile(self.mix, (len(groups), 1, 1))
        return SoftmaxChannel(groups, self.weight, bias, mix)


class LabelDual:
    """The dual for a law and an objective. A point says where the next search may start.

    Args:
        law: of posteriors and groups.
        maximize: as in `limit`; a matrix g[y, u] is what deciding u for a row of label y is worth.
        groups: their names.
    """

    budget, strictest = "violation", 1e-6  # nats: below, rounding decides

    def __init__(self, law: LabelLaw, maximize: Any, groups: Levels = ()) -> None:
        self.law, self.mass, self.maximize, self.groups = law, law.mass, maximize, groups
        gains = gains_of(maximize, law.prior)
        self.utility, self.offset, self.scale = gains is None, 0.0, 1.0
        if gains is None:
            scaled, *others = _informative(law)
        else:
            self.offset, self.scale = float(gains.min()), float(np.ptp(gains)) or 1.0
            scaled, others = (gains - self.offset) / self.scale, []
        self._shape = (*law.mass.shape, scaled.shape[1])
        self._metric = np.sqrt(np.maximum(law.mass, _RAREST))[..., None]
        within = law.mass / np.maximum(law.mass.sum(0), 1e-300)  # P(y | z)
        lift = np.clip(1.0 - law.prior[:, None] / np.maximum(within, 1e-6), -10.0, 10.0)

        def start(gains: Array) -> DualState:
            x = (gains[:, None] * lift[..., None] * self._metric).ravel()
            return DualState(np.r_[x, 0.0], gains, np.zeros(gains.shape[1]))

        self._first, *self._others = map(start, (scaled, *others))

    def solve(self, levels: Array, start: DualState | None = None) -> list[Solution]:
        """Solutions of rising levels: the loosest first, each the start of the next.

        The utility has many local optima. Where a level ends below a stricter one, it is searched
        once more from there.
        """
        points: list[DualPoint] = []
        for level in levels[::-1].tolist():
            points.insert(0, self.point(level, points[0].start if points else start))
        for j in range(1, len(points)):
            if points[j].value < points[j - 1].value:
                again = self.point(float(levels[j]), points[j - 1].start)
                points[j] = max(points[j], again, key=lambda point: point.value)
        cell = np.where(self.mass > 0, self.mass, 1.0)[..., None]
        return [Solution(p.value, p.upper, p.table / cell, partial(p.rule, self.groups), p.start) for p in points]

    def spaced(self, points: int) -> Array:
        """Levels up to what the rule of the largest gain uses."""
        top = max(self.point(np.inf).violation, 2 * self.strictest)
        return np.maximum(top * np.linspace(0.0, 1.0, points + 1)[1:] ** 2, self.strictest)

    def point(self, level: float, start: DualState | None = None) -> DualPoint:
        """The best rule with v ≤ level > 0 on the law, and the upper bound of every such rule.

        The temperature is lowered until value and bound meet.

        Args:
            level: the budget.
            start: that of a point of a near level; None for the gains themselves.
        """
        if np.isinf(level):  # the rule of the largest gain
            best = self._free(level)
            return self._measured(best, best.value)
        best, upper = self._cooled(start or self._first, level)
        for other in self._others:  # the utility has many local optima
            best = max(best, self._cooled(other, level)[0], key=lambda point: point.value)
        return self._measured(best, max(upper, best.value))

    def _cooled(self, state: DualState, level: float) -> tuple[DualPoint, float]:
        """The best rule of a search at falling temperatures, and the best bound on its way."""
        best, upper, start = self._free(level), np.inf, state
        if not self.utility:
            upper = self.law.most(np.broadcast_to(state.gains[:, None], self._shape))
        for tau in _TEMPERATURES:
            if upper - best.value <= _BOUND_GAP:
                break
            state = state._replace(x=np.r_[state.x[:-1], max(state.x[-1], _STUCK)])
            state, weight = self._search(state, level, np.full(self._shape[1], tau), _LOG_PRICE)
            if tau == _TEMPERATURES[0]:
                start = state
            if not self.utility:
                upper = min(upper, self._bound(state, level))
            point = self._within(weight, state, level)
            best = point if point.value > best.value else best
        return best._replace(start=start), upper

    def _measured(self, point: DualPoint, upper: float) -> DualPoint:
        """The point in the units of the gains; nothing is proven for the utility."""
        upper = np.nan if self.utility else upper
        return point._replace(value=self.offset + self.scale * point.value, upper=self.offset + self.scale * upper)

    def priced(self, price: float, tau: Array, start: DualState | None = None) -> DualPoint:
        r"""The rule that maximises gain − β v − Σ_z τ_z P(z) KL(q ‖ π), π(u) = P(u).

        Args:
            price: β > 0 in the units of the gains.
            tau: temperature of each group, in the units of the gains.
            start: that of the point of a near price.
        """
        beta = float(np.log(price / self.scale))
        if start is None:
            free = self.law.table(self._sharp())  # of the rule of the largest gain, without a price of the violation
            start = self._first._replace(log_base=_log(free.sum((0, 1))))
        state = start._replace(x=np.r_[start.x[:-1], beta])
        state, weight = self._search(state, 0.0, tau / self.scale, (beta, beta), follow=True)
        point = self._within(weight, state, np.inf)
        return point._replace(value=self.offset + self.scale * point.value)

    def _search(
        self, state: DualState, level: float, tau: Array, log_price: tuple[float, float], follow: bool = False
    ) -> tuple[DualState, Array]:
        """The best ν and β; tangent by tangent where the gains, or π (`follow`), are the rule's."""
        repeated, reached = self.utility or follow, np.nan
        bounds = [(None, None)] * (len(state.x) - 1) + [log_price]
        options = {"maxfun": _STEP if repeated else _EVALUATIONS, "maxcor": 20, "ftol": 1e-10}
        for _ in range(_ROUNDS if repeated else 1):
            args = state, level, tau
            optimum = minimize(self._dual, state.x, args, "L-BFGS-B", True, bounds=bounds, options=options)
            state = state._replace(x=optimum.x)
            weight = self._prices(state)[0] / tau[:, None]
            if not repeated:
                break
            table = self.law.table(weight, state.log_base)
            u = float(mutual_information(table))
            if abs(u - reached) < _STILL * u + _RAREST:
                break
            reached, solved = u, state  # the rule is that of the gains and π before this line
            if self.utility:
                state = state._replace(gains=tangent(table))
            if follow:
                state = state._replace(log_base=_log(table.sum((0, 1))))
        else:
            state = solved
        return state, weight

    def _dual(self, x: Array, state: DualState, level: float, tau: Array) -> tuple[float, Array]:
        """D_τ + βε and its gradient in (ν √P(y,z), log β)."""
        state = state._replace(x=x)
        prices, t, divergence, beta = self._prices(state)
        total, table = self.law.sweep(prices, tau, state.log_base)
        pooled = table.sum(1, keepdims=True)
        slope = beta * (level - float((pooled[:, 0] * divergence).sum()))
        return total + beta * level, np.r_[((t * pooled - table) / self._metric).ravel(), slope]

    def _bound(self, state: DualState, level: float) -> float:
        """D_0 + βε."""
        prices, _, _, beta = self._prices(state)
        return self.law.most(prices) + beta * level

    def _prices(self, state: DualState) -> tuple[Array, Array, Array, float]:
        """W, t(z|y,u), KL(t ‖ P(z|y)) for each (y, u), and β."""
        beta, share = float(np.exp(state.x[-1])), self.law.share[..., None]
        ratio = state.x[:-1].reshape(self._shape) / self._metric / beta
        ratio -= np.where(share > 0, ratio, -np.inf).max(1, keepdims=True)
        t = share * np.exp(np.minimum(ratio, 0.0))  # above zero only where nobody is
        total = t.sum(1, keepdims=True)
        likelihood = ratio - np.log(total)  # log t/P
        t /= total
        return state.gains[:, None] - beta * likelihood, t, (t * likelihood).sum(1), beta

    def _sharp(self) -> Array:
        return np.broadcast_to(self._first.gains[:, None], self._shape) * (100.0 / _TEMPERATURES[-1])

    def _free(self, level: float) -> DualPoint:
        return self._within(self._sharp(), self._first, level)

    def _within(self, weight: Array, state: DualState, level: float) -> DualPoint:
        """The rule, thinned towards the best constant until v ≤ level."""
        table = self.law.table(weight, state.log_base)
        constant = int((self.law.prior @ state.gains).argmax())
        fixed = np.zeros(self._shape)
        fixed[..., constant] = table.sum(-1)

        def within(share: Any) -> bool:
            return bool(conditional_mutual_information((1.0 - share) * table + share * fixed) <= level)

        share = 0.0 if within(0.0) else float(bisect(within, 1.0, 0.0, 50)[0])
        mixed = (1.0 - share) * table + share * fixed
        mix = (1.0 - share) * np.eye(self._shape[-1])
        mix[:, constant] += share
        u, v = float(mutual_information(mixed)), float(conditional_mutual_information(mixed))
        value = u if self.utility else float((mixed.sum(1) * state.gains).sum())
        return DualPoint(np.moveaxis(weight, 0, -1), state.log_base, mix, mixed, value, v, u, np.nan, state)


def tangent(table: Array) -> Array:
    """g = log P(u|y) / P(u): u(N) ≥ ⟨g, N⟩ for every table with the same labels.

    >>> float(tangent(np.array([[[0.5, 0.0]], [[0.0, 0.5]]])).round(2)[0, 0])
    0.69
    """
    joint = np.maximum(table.sum(1), 1e-12)
    return np.asarray(np.log(joint / (joint.sum(1, keepdims=True) * joint.sum(0))))


def _log(law: Array) -> Array:
    return np.asarray(np.log(np.maximum(law, _RAREST)))


def _informative(law: LabelLaw) -> list[Array]:
    """Gains of informative rules, the best first: each from a start, tangent by tangent.

    The starts are three plain rules; for small laws, where others may end higher under a
    violation, also random ones.
    """
    k, groups = law.mass.shape
    starts = [np.diag(1.0 / np.maximum(law.prior, _RAREST) ** power) for power in (0.0, 0.5, 1.0)]
    few = sum(len(w) for _, _, w in law.rows) * k <= _FEW
    if few:
        rng = np.random.default_rng(0)
        starts += [np.log(rng.dirichlet(np.ones(k), k)).T for _ in range(_RANDOM)]
    optima: list[tuple[float, Array]] = []
    for gains in starts:
        for _ in range(10):
            prices = np.broadcast_to(gains[:, None], (k, groups, k))
            table = law.table(prices / np.ptp(gains) * 1e3)
            u, gains = float(mutual_information(table)), tangent(table)
        if all(abs(u - other) > 1e-6 for other, _ in optima):
            optima.append((u, gains))
    optima.sort(key=lambda optimum: -optimum[0])
    return [gains for _, gains in optima[: None if few else 1]]
