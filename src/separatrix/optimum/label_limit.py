r"""The results of `limit` for more than two labels: certified for linear objectives, not for u."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Levels, listed
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.display import preformatted
from separatrix.errors import InputError
from separatrix.optimum.decision_limit import checked_level
from separatrix.optimum.duals import LinearDual
from separatrix.optimum.label_eo import EoColumns
from separatrix.optimum.objectives import BUDGETS
from separatrix.optimum.rules import HardMixture, SoftmaxChannel
from separatrix.optimum.softmax import SoftmaxPath

__all__ = ["LabelLimit", "SoftmaxLimit", "gains_of", "label_limit"]

Array = NDArray[np.float64]
_STRICTEST = 1e-6  # nats: below, rounding decides


@dataclass(frozen=True, eq=False)
class LabelLimit:
    """The best decisions among more than two labels under a budget, for a linear objective.

    Args:
        levels: the budgets, rising.
        values: the objective of the best rule found, on the law of the posteriors.
        upper: a proven upper bound on the objective of any rule within the budget, on that law.
        violation, utility: v and u of the rules, on that law.
        labels, groups: names of the axes.
    """

    levels: Array
    values: Array
    upper: Array
    violation: Array
    utility: Array
    labels: Levels
    groups: Levels
    dual: LinearDual | EoColumns = field(repr=False)
    budget: str = "violation"

    @property
    def gap(self) -> float:
        """How far, at most, the curve is below the true limit."""
        return float((self.upper - self.values).max())

    def rule(self, level: float) -> SoftmaxChannel | HardMixture:
        """The best rule found within the budget, solved for exactly that level."""
        return self.dual.rule(label_level(level, self.budget), self.groups)

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        rows = [
            f"{e:>15.4g} {x:>12.4f} {u:>12.4f}"
            for e, x, u in zip(self.levels, self.values, self.upper, strict=True)
        ]
        head = (
            f"Best decisions among {len(self.labels)} labels, {len(self.groups)} groups "
            f"({listed(self.groups)}), on the law of the posteriors"
        )
        return "\n".join(
            [
                head,
                f"{BUDGETS[self.budget].label + ' at most':>15} {'objective':>12} {'at most':>12}",
                *rows,
            ]
        )


@dataclass(frozen=True, eq=False)
class SoftmaxLimit:
    """u against v for more than two labels, as far as the softmax channels found reach.

    Args:
        violation, utility: the curve, strictest first; not certified.
        labels, groups: the names of the axes.
    """

    violation: Array
    utility: Array
    labels: Levels
    groups: Levels
    path: SoftmaxPath = field(repr=False)
    order: NDArray[np.intp] = field(repr=False)

    @property
    def levels(self) -> Array:
        """The violations."""
        return self.violation

    @property
    def values(self) -> Array:
        """The utilities."""
        return self.utility

    def envelope(self) -> Envelope:
        """What a public coin between two of the channels reaches on average."""
        return concave_envelope(self.violation, self.utility)

    def rule(self, level: float) -> SoftmaxChannel:
        """The best of the channels with v ≤ `level`."""
        v = checked_level(level, "violation")
        fits = np.flatnonzero(self.violation <= v)
        if not len(fits):
            raise InputError(
                f"No channel has a violation of at most {v:.3g}: the strictest has "
                f"{self.violation[0]:.3g}."
            )
        return self._at(int(fits[-1]))

    def revealed(self, level: float) -> tuple[SoftmaxChannel, SoftmaxChannel, float]:
        """Two channels and the probability of the second: the point of `envelope()` at `level`."""
        mixture = self.envelope().mixture(checked_level(level, "violation"))
        return self._at(mixture.first), self._at(mixture.second), mixture.weight

    def _at(self, point: int) -> SoftmaxChannel:
        step, path = self.order[point], self.path
        return SoftmaxChannel(self.groups, path.weight[step], path.bias[step], path.mix[step])

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        rows = [f"{v:>10.2g} {u:>10.4f}" for v, u in zip(self.violation, self.utility, strict=True)]
        head = (
            f"Channels for {len(self.labels)} labels, {len(self.groups)} groups "
            f"({listed(self.groups)}); nats, not certified"
        )
        return "\n".join([head, f"{'v':>10} {'u':>10}", *rows])


def label_limit(
    dual: LinearDual | EoColumns,
    levels: Array | None,
    points: int,
    labels: Levels,
    groups: Levels,
    budget: str,
) -> LabelLimit:
    """Solve at each level, laxest first; by default up to where the budget is slack."""
    if levels is None:
        spaced = np.linspace(0.0, 1.0, points + 1)[1:] ** 2
        if isinstance(dual, EoColumns):
            levels = dual.slack() * spaced
        else:
            levels = max(dual.solve(np.inf).violation, 2 * _STRICTEST) * spaced
            levels = np.maximum(levels, _STRICTEST)
    solved = [dual.solve(label_level(e, budget)) for e in levels[::-1].tolist()][::-1]
    values, upper, violation, utility = (
        np.array([getattr(point, name) for point in solved])
        for name in ("value", "upper", "violation", "utility")
    )
    upper = np.minimum.accumulate(upper[::-1])[::-1]  # a laxer bound serves every stricter level
    upper = np.maximum(upper, values)
    return LabelLimit(levels, values, upper, violation, utility, labels, groups, dual, budget)


def label_level(level: float, budget: str) -> float:
    """A level that can be answered."""
    v = checked_level(level, budget)
    if budget == "violation" and v < _STRICTEST:
        raise InputError(
            f"For more than two labels the budget on v must be at least {_STRICTEST:g} nats, "
            f"got {level:g}; exact separation is `maximize='utility'` and its first rule."
        )
    return v


def gains_of(maximize: Any, prior: Array) -> Array:
    """g[y, u] of an objective's name or matrix for these labels."""
    k = len(prior)
    if isinstance(maximize, str):
        if maximize == "accuracy":
            return np.eye(k)
        if maximize == "balanced_accuracy":
            return np.diag(1.0 / (k * prior))
    else:
        try:
            gains = np.asarray(maximize, dtype=np.float64)
        except (TypeError, ValueError):
            gains = np.zeros(0)
        if gains.shape == (k, k) and np.isfinite(gains).all():
            return gains
    raise InputError(
        f"For {k} labels `maximize` must be 'utility', 'accuracy', 'balanced_accuracy' or a matrix "
        f"({k}, {k}) of gains [label, decision], got {maximize!r}."
    )
