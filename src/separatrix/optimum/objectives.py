r"""What a decision may maximise, and what it may be asked to keep small: one list of each.

Two labels. A decision is known by its rates x[z] = (P(U=1|Y=0,z), P(U=1|Y=1,z)). With
a[z,y] = P(Y=y, Z=z), every objective but the utility is linear in them,

.. math:: f(x) = f_0 + \sum_z a_{z1} k_{z1} x_{z1} - \sum_z a_{z0} k_{z0} x_{z0}, \qquad k \ge 0,

and a budget is an information, or a bound max_i Σ_k R_{ik} d_k ≤ ε on widths d_k, the largest less
the smallest over the groups: of the rates x_{zy} of both labels, or of the shares of U = 1. The
predictive gap bounds the widths of P(Y=1|U=1,z) and of P(Y=1|U=0,z), which are not linear in x.
Cells (y, z) without weight take no part.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import listed
from separatrix.core.criteria import criterion_named
from separatrix.core.numbers import one_number
from separatrix.errors import InputError
from separatrix.optimum.rates import rates_utility, rates_violation, selection_rates

__all__ = [
    "BUDGETS",
    "OBJECTIVES",
    "Budget",
    "Cost",
    "Objective",
    "budget_for",
    "budget_named",
    "budgets_of",
    "objective_of",
    "parse_cost",
]

Array = NDArray[np.float64]
_NOBODY = 1e-12  # a share of decisions below this is none
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
            raise InputError(
                "`Cost` needs at least one cost above 0: with none every rule is best."
            )

    def per_group(self, groups: Sequence[Hashable]) -> Array:
        """The costs (groups, 2): of a false positive and of a false negative in each group."""
        columns = []
        for name in ("false_positive", "false_negative"):
            given = getattr(self, name)
            if isinstance(given, Mapping):
                missing = [group for group in groups if group not in given]
                extra = [group for group in given if group not in groups]
                if missing or extra:
                    what = (
                        f"no cost for {listed(missing)}"
                        if missing
                        else f"costs for {listed(extra)}"
                    )
                    raise InputError(f"`{name}` has {what}; the groups are {listed(groups)}.")
                columns.append([float(given[group]) for group in groups])
            else:
                columns.append([float(given)] * len(groups))
        return np.array(columns).T


@dataclass(frozen=True)
class Objective:
    """One entry of the list: `label` heads a column, `text` says what it is."""

    name: str
    label: str
    text: str


@dataclass(frozen=True)
class Budget:
    """One entry of the list.

    Args:
        name, label, text: as users pass it, for the head of a column, what it is.
        criterion: whose budget it is, see `core.criteria`.
        widths: R of the module's equation; None for an information and for the predictive gap.
        pooled: the rates are the shares of U = 1, whatever the label.
    """

    name: str
    label: str
    text: str
    criterion: str
    widths: tuple[tuple[float, ...], ...] | None = None
    pooled: bool = False

    @property
    def nats(self) -> bool:
        """Whether it is an information."""
        return self.widths is None and self.criterion != "sufficiency"

    def measure(self, rates: Array, mass: Array) -> Array:
        """What the rates (..., groups, 2) use of the budget; P(Y=y, Z=z) is (..., groups, 2).

        >>> x = np.array([[0.2, 0.7], [0.4, 0.8]])
        >>> float(BUDGETS["eo_gap"].measure(x, np.full((2, 2), 0.25)).round(3))
        0.15
        """
        if self.criterion == "sufficiency":
            return _predictive_gap(rates, mass)
        if self.pooled:
            rates, mass = selection_rates(rates, mass), mass.sum(-1, keepdims=True)
        if self.widths is None:
            return rates_violation(rates, mass)
        return np.asarray((_widths(rates, mass > 0) @ np.array(self.widths).T).max(-1))


def _widths(rates: Array, seen: NDArray[np.bool_]) -> Array:
    """The largest less the smallest over the groups: (..., groups, k) → (..., k)."""
    high, low = (np.where(seen, rates, end) for end in (-np.inf, np.inf))
    return np.maximum(high.max(-2) - low.min(-2), 0.0)


def _predictive_gap(rates: Array, mass: Array) -> Array:
    """The larger of the widths of P(Y=1|U=1,z) and P(Y=1|U=0,z).

    Groups without one of the labels, or without such a decision, take no part.
    """
    chosen = rates * mass
    widths = []
    for joint in (chosen, mass - chosen):
        n = joint.sum(-1, keepdims=True)
        seen = (mass > 0).all(-1, keepdims=True) & (n > _NOBODY * mass.sum(-1, keepdims=True))
        widths.append(_widths(joint[..., 1:] / np.where(seen, n, 1.0), seen)[..., 0])
    return np.maximum(*widths)


OBJECTIVES: dict[str, Objective] = {
    o.name: o
    for o in (
        Objective("utility", "u", "mutual information of decision and label, in nats"),
        Objective("accuracy", "accuracy", "share of rows decided right"),
        Objective("balanced_accuracy", "balanced accuracy", "mean of the two labels' shares right"),
        Objective("cost", "-cost", "minus the cost of the errors per row, see `Cost`"),
    )
}
BUDGETS: dict[str, Budget] = {
    b.name: b
    for b in (
        Budget("violation", "v", "I(U;Z|Y) in nats, zero under separation", "separation"),
        Budget(
            "eo_gap",
            "EO gap",
            "range of the groups' rates, mean of both labels",
            "separation",
            ((0.5, 0.5),),
        ),
        Budget(
            "eo_max",
            "EO max",
            "range of the groups' rates, larger label",
            "separation",
            ((1, 0), (0, 1)),
        ),
        Budget(
            "tpr_gap",
            "TPR gap",
            "range of the true-positive rates",
            "equal_opportunity",
            ((0, 1),),
        ),
        Budget("fpr_gap", "FPR gap", "range of the false-positive rates", "separation", ((1, 0),)),
        Budget(
            "independence",
            "I(U;Z)",
            "I(U;Z) in nats, zero under independence",
            "independence",
            pooled=True,
        ),
        Budget(
            "parity_gap",
            "parity gap",
            "range of the groups' shares of U = 1 (demographic parity)",
            "independence",
            ((1,),),
            pooled=True,
        ),
        Budget(
            "predictive_gap",
            "predictive gap",
            "range of P(Y=1|U=1) or of P(Y=1|U=0), the larger (predictive parity)",
            "sufficiency",
        ),
    )
}


def budget_named(name: str) -> Budget:
    """The budget of that name, or an error that lists them."""
    if name not in BUDGETS:
        raise InputError(f"`budget` must be one of {', '.join(map(repr, BUDGETS))}, got {name!r}.")
    return BUDGETS[name]


def budget_for(criterion: str, budget: str | None) -> Budget:
    """The budget of that name, or the first of the criterion where none is named.

    >>> budget_for("independence", None).name, budget_for("independence", "parity_gap").label
    ('independence', 'parity gap')
    """
    kind = criterion_named(criterion)
    if budget is None:
        return BUDGETS[kind.budgets[0]]
    found = budget_named(budget)
    if criterion not in ("separation", found.criterion):
        names = ", ".join(map(repr, kind.budgets))
        raise InputError(
            f"`budget={budget!r}` belongs to {found.criterion}; for criterion={criterion!r} pass "
            f"{names}, or leave `criterion` out."
        )
    return found


def budgets_of(
    criterion: str,
    max_gap: float | None = None,
    max_violation: float | None = None,
    max_eo_gap: float | None = None,
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
    found = {}
    if max_eo_gap is not None:
        if criterion != "separation":
            raise InputError(
                f"`max_eo_gap` belongs to separation; for criterion={criterion!r} pass `max_gap` "
                f"(its {kind.gap_label})."
            )
        if max_gap is not None:
            raise InputError("`max_gap` and `max_eo_gap` are the same for separation: pass one.")
        found["eo_gap"] = one_number(max_eo_gap, "max_eo_gap")
    if max_gap is not None:
        found[kind.gap_name] = one_number(max_gap, "max_gap")
    if max_violation is not None:
        nats = [name for name in kind.budgets if BUDGETS[name].nats]
        if not nats:
            raise InputError(
                f"{criterion!r} has no budget in nats: pass `max_gap` (its {kind.gap_label})."
            )
        found[nats[0]] = one_number(max_violation, "max_violation")
    return found


def objective_of(maximize: str | Cost) -> Objective:
    """The entry of what is maximised, or an error that lists them."""
    if isinstance(maximize, Cost):
        return OBJECTIVES["cost"]
    if maximize not in OBJECTIVES or maximize == "cost":
        names = ", ".join(repr(name) for name in OBJECTIVES if name != "cost")
        raise InputError(
            f"`maximize` must be one of {names} or Cost(false_positive=, false_negative=), "
            f"got {maximize!r}."
        )
    return OBJECTIVES[maximize]


def parse_cost(text: str) -> Cost:
    """A cost as the command line writes it.

    >>> parse_cost("fp=1,fn=5")
    Cost(false_positive=1.0, false_negative=5.0)
    """
    parts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    try:
        if set(parts) != {"fp", "fn"}:
            raise ValueError
        return Cost(float(parts["fp"]), float(parts["fn"]))
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
    def of(cls, maximize: str | Cost, mass: Array, groups: Sequence[Hashable]) -> Value:
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
