r"""Rules for more than two labels that hold on rows that they were not fitted to.

An audit of n' unseen rows sees v plus the sampling error of the rates, about

.. math:: \frac{1}{2} \Big(\frac{1}{n} + \frac{1}{n'}\Big) \sum_{y,z,u} (1 - P(z|y))
          \frac{\mathrm{Var}(q_u | y, z)}{P(u|y)},

n the rows that the rule is fitted to. Every cell (y, z) counts alike, however few rows it has, and
softer decisions have less variance. Σ_u Var(q_u)/P(u) is about twice the divergence of a rule from
its mean. So at the price β of the violation, this error has the price of a temperature,

.. math:: τ_z = c \frac{β K}{n P(z)},

which small groups feel most (`LabelDual.priced`). The factor c and the pseudo-rows of a group
(`LabelLaw`) are chosen by gain − βv on the rows of one half, for rules fitted to the other.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.core.numerics import Array, Index, effective_size
from separatrix.optimum.law import LabelLaw
from separatrix.optimum.multiclass.dual import DualPoint, DualState, LabelDual
from separatrix.optimum.objectives import gains_of

_FACTORS = (0.3, 1.0, 3.0)  # c
_BORROWED = (30.0, 300.0)  # pseudo-rows of a group


class _Rows(NamedTuple):
    """Rows that a rule is fitted to, or seen on."""

    p: Array
    y: Index
    z: Index
    weight: Array


class LabelRules:
    """The best rules along the price of the violation, and what they show on unseen rows.

    Args:
        p: posteriors (n, labels) of rows that trained nothing.
        y, z: codes of labels and groups.
        weight: weight of each row.
        n_groups: how many groups.
        maximize: "utility", "accuracy", "balanced_accuracy" or a matrix of gains.

    >>> rng = np.random.default_rng(0)
    >>> p, z = rng.dirichlet(np.ones(3), 2000), rng.integers(0, 2, 2000)
    >>> y = (p.cumsum(1) < rng.random((2000, 1))).sum(1)
    >>> rules = LabelRules(p, y, z, np.ones(2000), 2, "accuracy")
    >>> cheap, dear = rules.point(0.001), rules.point(10.0)
    >>> bool(cheap.value > dear.value), bool(cheap.violation > dear.violation)
    (True, True)
    """

    def __init__(self, p: Array, y: Index, z: Index, weight: Array, n_groups: int, maximize: Any) -> None:
        self.rows, self.groups = _Rows(p, y, z, weight), n_groups
        self.gains = gains_of(maximize, weight @ p / weight.sum())
        half = _halves(y, z)
        self.halves = [_Rows(*(column[half == k] for column in self.rows)) for k in (0, 1)]
        self._duals: dict[tuple[int, float], LabelDual] = {}
        self._starts: dict[tuple[int, float], DualState] = {}  # each price starts from the last
        self._chosen: tuple[float, float] | None = None

    def point(self, price: float, choice: tuple[float, float] | None = None) -> DualPoint:
        """The rule of a price β, fitted to all rows; `choice` is (c, pseudo-rows)."""
        return self._fitted(-1, self.rows, price, choice or self.choice(price))

    def tables(self, price: float, choice: tuple[float, float]) -> Array:
        """N[half, y, z, u] of rules fitted to one half, on the rows of the other."""
        groups = tuple(range(self.groups))
        out = []
        for half, (rows, other) in enumerate(zip(self.halves, self.halves[::-1], strict=True)):
            rule = self._fitted(half, rows, price, choice).rule(groups)
            q = rule.predict_proba(other.p, sensitive_features=other.z)
            table = np.zeros((self.rows.p.shape[1], self.groups, q.shape[1]))
            np.add.at(table, (other.y, other.z), other.weight[:, None] * q)
            out.append(table)
        return np.stack(out)

    def value(self, table: Array) -> Array:
        """The objective of tables (..., y, z, u)."""
        if self.gains is None:
            return np.asarray(mutual_information(table))
        law = table.sum(-2) / table.sum((-3, -2, -1))[..., None, None]
        return np.asarray((law * self.gains).sum((-2, -1)))

    def choice(self, price: float) -> tuple[float, float]:
        """c and pseudo-rows with the largest gain − βv on rows that the rules were not fitted to.

        Decided once, at the first price that is asked for.
        """
        if self._chosen is None:
            scores = {}
            for borrowed, factor in product(_BORROWED, _FACTORS):
                tables = self.tables(price, (factor, borrowed))
                lost = price * conditional_mutual_information(tables)
                scores[factor, borrowed] = float((self.value(tables) - lost).mean())
            self._chosen = max(scores, key=lambda choice: scores[choice])
        return self._chosen

    def _fitted(self, half: int, rows: _Rows, price: float, choice: tuple[float, float]) -> DualPoint:
        factor, borrowed = choice
        if (half, borrowed) not in self._duals:
            law = LabelLaw(rows.p, rows.z, rows.weight, self.groups, borrowed)
            self._duals[half, borrowed] = LabelDual(law, "utility" if self.gains is None else self.gains)
        dual = self._duals[half, borrowed]
        # the temperature of all rows, in halves too: a softer rule would show a smaller gap
        size = effective_size(self.rows.weight)
        share = np.maximum(dual.law.mass.sum(0), 1.0 / size)
        tau = factor * price * rows.p.shape[1] / (size * share)
        point = dual.priced(price, tau, self._starts.get((half, borrowed)))
        self._starts[half, borrowed] = point.start
        return point


def _halves(y: Index, z: Index) -> Index:
    """The half of each row; rows of a cell (y, z) are spread evenly."""
    order = np.random.default_rng(0).permutation(len(y))
    order = order[np.lexsort((z[order], y[order]))]
    half = np.empty(len(y), dtype=np.intp)
    half[order] = np.arange(len(y)) % 4 // 2
    return half
