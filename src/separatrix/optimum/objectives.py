r"""What a decision may maximise, on given groups: a value that is linear in its rates, or u.

Two labels. A decision is known by its rates x[z] = (P(U=1|Y=0,z), P(U=1|Y=1,z)). With
a[z,y] = P(Y=y, Z=z), every objective but the utility is linear in them,

.. math:: f(x) = f_0 + \sum_z a_{z1} k_{z1} x_{z1} - \sum_z a_{z0} k_{z0} x_{z0}, \qquad k \ge 0.

The objectives and the budgets are entries of `core.measures`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from separatrix.columns.values import listed
from separatrix.core.information import rates_utility
from separatrix.core.measures import BUDGETS, OBJECTIVES, Metric, criterion_named
from separatrix.core.numbers import one_number
from separatrix.core.numerics import Array
from separatrix.errors import InputError

PerGroup = float | Mapping[Hashable, float]


@dataclass(frozen=True)
class Cost:
    """The cost of each kind of error, as an objective: what is maximised is minus the cost per row.

    Args:
        false_positive: cost of the second label where the first is true; one number, or a mapping
            from each group to its number.
        false_negative: cost of the first label where the second is true, likewise.

    >>> Cost(false_positive=1, false_negative=5)
    Cost(false_positive=1, false_negative=5)
    """

    false_positive: PerGroup = 1.0
    false_negative: PerGroup = 1.0

    def __post_init__(self) -> None:
        total = 0.0
        for name in ("false_positive", "false_negative"):
            given = getattr(self, name)
            for value in given.values() if isinstance(given, Mapping) else (given,):
                if not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
                    raise InputError(
                        f"`{name}` must be a finite cost of at least 0, or a mapping from each "
                        f"group to one, got {value!r}."
                    )
                total += float(value)
        if total <= 0:
            raise InputError("`Cost` needs at least one cost above 0: with none every rule is best.")

    def per_group(self, groups: Sequence[Hashable]) -> Array:
        """The costs (groups, 2): of a false positive and of a false negative in each group."""
        columns = []
        for name in ("false_positive", "false_negative"):
            given = getattr(self, name)
            costs = given if isinstance(given, Mapping) else dict.fromkeys(groups, given)
            missing = [group for group in groups if group not in costs]
            extra = [group for group in costs if group not in groups]
            if missing or extra:
                what = f"no cost for {listed(missing)}" if missing else f"costs for {listed(extra)}"
                raise InputError(f"`{name}` has {what}; the groups are {listed(groups)}.")
            columns.append([float(costs[group]) for group in groups])
        return np.array(columns).T


def budgets_of(
    criterion: str, max_gap: float | None = None, max_violation: float | None = None, max_eo_gap: float | None = None
) -> dict[str, float]:
    """The budgets that a user gave for a criterion: its gap, its information in nats, or both.

    Args:
        criterion: one of the list.
        max_gap: of its own gap: EO, parity, predictive or TPR gap.
        max_violation: of its information in nats.
        max_eo_gap: separation's gap by its own name.

    >>> budgets_of("independence", max_gap=0.05), budgets_of("separation", max_eo_gap=0.02)
    ({'parity_gap': 0.05}, {'eo_gap': 0.02})
    """
    kind = criterion_named(criterion)
    nats = next((name for name in kind.budgets if BUDGETS[name].nats), "")
    if max_eo_gap is not None and criterion != "separation":
        raise InputError(
            f"`max_eo_gap` belongs to separation; for criterion={criterion!r} pass `max_gap` (its {kind.gap_label})."
        )
    if max_eo_gap is not None and max_gap is not None:
        raise InputError("`max_gap` and `max_eo_gap` are the same for separation: pass one.")
    if max_violation is not None and not nats:
        raise InputError(f"{criterion!r} has no budget in nats: pass `max_gap` (its {kind.gap_label}).")
    given = {"max_eo_gap": max_eo_gap, "max_gap": max_gap, "max_violation": max_violation}
    budgets = {"max_eo_gap": "eo_gap", "max_gap": kind.gap_name, "max_violation": nats}
    return {budgets[option]: one_number(level, option) for option, level in given.items() if level is not None}


def objective_of(maximize: str | Cost) -> Metric:
    """The entry of what is maximised, or an error that lists them."""
    if isinstance(maximize, Cost):
        return OBJECTIVES["cost"]
    if not isinstance(maximize, str) or maximize not in OBJECTIVES or maximize == "cost":
        names = ", ".join(repr(name) for name in OBJECTIVES if name != "cost")
        raise InputError(
            f"`maximize` must be one of {names} or Cost(false_positive=, false_negative=), got {maximize!r}."
        )
    return OBJECTIVES[maximize]


def gains_of(maximize: Any, prior: Array) -> Array | None:
    """g[y, u] of an objective's name or matrix for these labels; None for the utility."""
    k = len(prior)
    if isinstance(maximize, str):
        if maximize == "utility":
            return None
        if maximize == "accuracy":
            return np.eye(k)
        if maximize == "balanced_accuracy":
            return np.diag(1.0 / (k * np.maximum(prior, 1e-12)))
    with suppress(TypeError, ValueError):
        gains = np.asarray(maximize, dtype=np.float64)
        if gains.shape == (k, k) and np.isfinite(gains).all():
            return gains
    raise InputError(
        f"For {k} labels `maximize` must be 'utility', 'accuracy', 'balanced_accuracy' or a matrix "
        f"({k}, {k}) of gains [label, decision], got {maximize!r}."
    )


def parse_cost(text: str) -> Cost:
    """A cost as the command line writes it.

    >>> parse_cost("fp=1,fn=5")
    Cost(false_positive=1.0, false_negative=5.0)
    """
    costs = dict(entry.split("=", 1) for entry in text.split(",") if "=" in entry)
    try:
        if set(costs) != {"fp", "fn"}:
            raise ValueError
        return Cost(float(costs["fp"]), float(costs["fn"]))
    except ValueError:
        raise InputError(f"A cost is written fp=1,fn=5, got {text!r}.") from None


@dataclass(frozen=True, eq=False)
class Value:
    """An objective on given groups; `price` is ±k of the module's equation, None for the utility.

    Args:
        mass: P(Y=y, Z=z), array (groups, 2).
        price: array (groups, 2), the first column not above and the second not below zero.
        constant: f_0.
    """

    mass: Array
    price: Array | None
    constant: float

    @classmethod
    def from_objective(cls, maximize: str | Cost, mass: Array, groups: Sequence[Hashable]) -> Value:
        """The objective for these groups."""
        name, prior = objective_of(maximize).name, mass.sum(0)
        if name == "utility":
            return cls(mass, None, 0.0)
        if isinstance(maximize, Cost):
            cost = maximize.per_group(groups)
            return cls(mass, cost * [-1.0, 1.0], -float(mass[:, 1] @ cost[:, 1]))
        if name == "accuracy":
            return cls(mass, np.broadcast_to([-1.0, 1.0], mass.shape), float(prior[0]))
        return cls(mass, np.broadcast_to([-0.5, 0.5] / prior, mass.shape), 0.5)

    def __call__(self, rates: Array) -> Array:
        """The objective of rates (..., groups, 2)."""
        if self.price is None:
            return rates_utility((rates * self.mass).sum(-2) / self.mass.sum(0), self.mass.sum(0))
        return np.asarray(self.constant + (self.mass * self.price * rates).sum((-2, -1)))
