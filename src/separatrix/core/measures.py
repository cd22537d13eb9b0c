r"""The one list: criteria, and the metrics that are measured, bounded or maximised.

*Criteria.* Each asks that one thing says nothing about the group Z once another is known. It is the
conditional information I(·; Z | ·) of the table N[y, z, u] with its axes collapsed or permuted, so
one function measures all of them, one room tests them, and one identity binds them:

.. math:: I(U;Z) + I(Y;Z \mid U) = I(U;Z \mid Y) + I(Y;Z)

independence + sufficiency = separation + what the labels themselves say about the group. Where the
last term is not zero, the first two cannot both vanish, whatever is predicted.

*Metrics.* An entry of `METRICS` is an objective or a budget. It says how it is computed from
tables, which direction is better, its label and unit, what it needs, and how a rule is solved for
it. Audits, limits, estimators, `trace`, `select`, reports, gates and the command line read this
list.

*Solving, two labels.* A decision is known by its rates x[z] = (P(U=1|Y=0,z), P(U=1|Y=1,z)). A
budget is an information, or a bound max_i Σ_k R_{ik} d_k ≤ ε on widths d_k, the largest less the
smallest over the groups: of the rates x_{zy} of both labels, or of the shares of U = 1 (`pooled`).

>>> METRICS["eo_gap"].label, METRICS["eo_gap"].lower_is_better, METRICS["eo_gap"].criterion
('EO gap', True, 'separation')
>>> N = np.array([[[40.0, 10], [30, 20]], [[10, 40], [5, 45]]])
>>> values = {name: float(c.information(N)) for name, c in CRITERIA.items()}
>>> base = float(BASE_DEPENDENCE.information(N))
>>> bool(np.isclose(values["independence"] + values["sufficiency"], values["separation"] + base))
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from separatrix.core import information
from separatrix.core.counts import CountTable, diagonal
from separatrix.core.numerics import Array, quotient
from separatrix.errors import InputError

_NO_DECISIONS = 1e-12  # a share of decisions below this is none


@dataclass(frozen=True)
class Criterion:
    """One entry of the list.

    Args:
        name: as users pass it.
        symbol: the information that is 0 under it.
        gap_name, gap_label: its distance between groups in users' terms; a budget of that name
            bounds it.
        view: counts (..., y, z, u) → (..., what is known, z, what varies).
        varies: "prediction" or "label": what must not depend on the group.
        budgets: metrics that can be bounded for it; the first is the default.
        worst: the gap is the largest over what is known; otherwise the mean.
    """

    name: str
    symbol: str
    gap_name: str
    gap_label: str
    view: Callable[[Array], Array]
    varies: str
    budgets: tuple[str, ...] = ()
    worst: bool = False

    def information(self, counts: Array) -> Array:
        """The criterion's information in nats, from counts (..., y, z, u)."""
        return information.conditional_mutual_information(self.view(np.asarray(counts, dtype=np.float64)))

    def gap(self, counts: Array) -> Array:
        """The largest distance between two groups: mean or maximum over what is known.

        >>> N = np.array([[[40.0, 10], [30, 20]], [[10, 40], [5, 45]]])
        >>> float(CRITERIA["independence"].gap(N).round(3))     # P(U=1): 0.50 and 0.65
        0.15
        >>> float(CRITERIA["equal_opportunity"].gap(N).round(3))        # TPR: 0.8 and 0.9
        0.1
        """
        if self.name == "equal_opportunity":  # the label may have no rows
            return information.gaps_by_label(counts)[..., -1]
        view = self.view(np.asarray(counts, dtype=np.float64))
        apart, known = information.gaps_by_label(view), view.sum((-2, -1)) > 0
        if self.worst:
            return np.asarray(apart.max(-1))
        return np.asarray(apart.sum(-1) / np.maximum(known.sum(-1), 1))

    def table(self, table: CountTable) -> CountTable:
        """The table whose violation is this criterion's information, for `statistics`.

        Second moments go with it. Where labels vary, rows that count for several predictions
        (posteriors) are in several of its cells: their covariance is not in the new table.
        """
        known, varying = {
            "separation": (table.labels, table.predictions),
            "equal_opportunity": (table.labels[-1:], table.predictions),
            "sufficiency": (table.predictions, table.labels),
        }.get(self.name, (("any",), getattr(table, f"{self.varies}s")))
        moments = table.moments
        if moments is not None and self.varies == "prediction":
            moments = np.moveaxis(self.view(np.moveaxis(moments, -1, 0)), 0, -1)
        elif moments is not None:
            squares = np.diagonal(moments, axis1=-2, axis2=-1)
            if self is BASE_DEPENDENCE:
                squares = table.weight_squares[..., None]
            moments = diagonal(self.view(squares))
        return replace(table, counts=self.view(table.counts), labels=known, predictions=varying, moments=moments)


# fmt: off
CRITERIA: dict[str, Criterion] = {c.name: c for c in (
    # the same error rates in every group: equalized odds
    Criterion("separation", "I(U;Z|Y)", "eo_gap", "EO gap", lambda counts: counts, "prediction",
              ("violation", "eo_gap", "eo_max", "fpr_gap")),
    # the same share of each decision in every group: demographic or statistical parity
    Criterion("independence", "I(U;Z)", "parity_gap", "parity gap",
              lambda counts: counts.sum(-3, keepdims=True), "prediction",
              ("independence", "parity_gap", "impact_gap")),
    # a decision means the same in every group: predictive parity, calibration within groups
    Criterion("sufficiency", "I(Y;Z|U)", "predictive_gap", "predictive gap",
              lambda counts: np.swapaxes(counts, -1, -3), "label", ("predictive_gap",), worst=True),
    # the same true-positive rate in every group: equality of opportunity
    Criterion("equal_opportunity", "I(U;Z|Y=1)", "tpr_gap", "TPR gap",
              lambda counts: counts[..., -1:, :, :], "prediction", ("tpr_gap",)),
)}
# the same share of each label in every group: equal base rates
BASE_DEPENDENCE = Criterion(
    "base_dependence", "I(Y;Z)", "base_gap", "base-rate gap",
    lambda counts: np.swapaxes(counts.sum(-1, keepdims=True), -1, -3), "label",
)
# fmt: on


@dataclass(frozen=True)
class Metric:
    """One thing that is measured of decisions or of a score.

    Args:
        name: as users pass it.
        label: short, for the head of a table or a button.
        axis: what it is, for the axis of a figure.
        of: function of tables (..., y, z, u); None where a table does not tell.
        lower_is_better: its direction.
        unit: "nats", "cost" (unbounded), or "" for a share.
        needs: "table", "scores", "costs" or "numbers": what it is computed from.
        criterion: of a budget: what it bounds the violation of; empty for an objective. A budget
            is a maximum, or a minimum where larger is better.
        solved: how a rule for two labels is found. A budget: by "information", "widths" or
            "predictive values"; an objective: by "prices" (linear in the rates) or "information";
            empty: it is measured, and no rule is solved for it.
        widths: R of the module's equation.
        pooled: the rates are the shares of U = 1, whatever the label.
        relative: the widths are divided by the largest rate: 1 − smallest / largest.
        many_labels: rules for more than two labels can be solved within it too.
        mixes: a revealed mixture of two policies has the weighted mean of their values (a budget:
            at most that).
        leads: shown in every table and figure; the others are in `points`, promises and where
            their criterion was asked for.
    """

    name: str
    label: str
    axis: str
    of: Callable[[Array], Array] | None = None
    lower_is_better: bool = False
    unit: str = ""
    needs: str = "table"
    criterion: str = ""
    solved: str = ""
    widths: tuple[tuple[float, ...], ...] | None = None
    pooled: bool = False
    relative: bool = False
    many_labels: bool = False
    mixes: bool = True
    leads: bool = False

    @property
    def head(self) -> str:
        """The label with a capital letter, single letters as they are."""
        return self.label if len(self.label) == 1 else self.label[0].upper() + self.label[1:]

    @property
    def nats(self) -> bool:
        """Whether it is an information; small values are then written with an exponent."""
        return self.unit == "nats"

    def __call__(self, tables: Array) -> Array:
        """The metric of tables (..., y, z, u)."""
        if self.of is None:
            raise InputError(f"{self.label} needs {self.needs}: a table of counts does not tell.")
        return self.of(tables)

    def measure(self, rates: Array, mass: Array) -> Array:
        """What the rates (..., groups, 2) use of a budget; P(Y=y, Z=z) is (..., groups, 2).

        Cells (y, z) without weight take no part.

        >>> x = np.array([[0.2, 0.7], [0.4, 0.8]])
        >>> float(METRICS["eo_gap"].measure(x, np.full((2, 2), 0.25)).round(3))
        0.15
        """
        if self.solved == "predictive values":
            return _predictive_gap(rates, mass)
        if self.pooled:
            rates, mass = information.selection_rates(rates, mass), mass.sum(-1, keepdims=True)
        if self.widths is None:
            return information.rates_violation(rates, mass)
        widths = _widths(rates, mass > 0)
        if self.relative:
            high = np.where(mass > 0, rates, 0.0).max(-2)
            widths = quotient(widths, high)
        return np.asarray((widths @ np.array(self.widths).T).max(-1))


def _widths(rates: Array, seen: NDArray[np.bool_]) -> Array:
    """The largest less the smallest over the groups: (..., groups, k) → (..., k)."""
    high, low = (np.where(seen, rates, end) for end in (-np.inf, np.inf))
    return np.maximum(high.max(-2) - low.min(-2), 0.0)


def _predictive_gap(rates: Array, mass: Array) -> Array:
    """The larger of the widths of P(Y=1|U=1,z) and P(Y=1|U=0,z), which are not linear in x.

    Groups without one of the labels, or without such a decision, take no part.
    """
    chosen = rates * mass
    widths = []
    for joint in (chosen, mass - chosen):
        n = joint.sum(-1, keepdims=True)
        decided = n > _NO_DECISIONS * mass.sum(-1, keepdims=True)
        seen = (mass > 0).all(-1, keepdims=True) & decided
        widths.append(_widths(joint[..., 1:] / np.where(seen, n, 1.0), seen)[..., 0])
    return np.maximum(*widths)


def _impact_ratio(counts: Array) -> Array:
    """The smallest share of the last prediction in a group, divided by the largest.

    Groups without rows take no part; 1 where nobody gets that prediction.

    >>> float(_impact_ratio(np.array([[[40.0, 10], [30, 20]], [[10, 40], [5, 45]]])).round(4))
    0.7692
    """
    by_group = information.law(counts).sum(-3)
    mass = by_group.sum(-1)
    share = by_group[..., -1] / np.where(mass > 0, mass, 1.0)
    low = np.where(mass > 0, share, np.inf).min(-1)
    high = np.where(mass > 0, share, -np.inf).max(-1)
    return np.divide(low, high, out=np.ones_like(low), where=high > 0)


_budget = partial(Metric, lower_is_better=True)
# fmt: off
METRICS: dict[str, Metric] = {m.name: m for m in (
    _budget("violation", "v", "violation v = I(U;Z|Y), nats",
            information.conditional_mutual_information, unit="nats", criterion="separation",
            solved="information", many_labels=True, leads=True),
    Metric("utility", "u", "utility u = I(U;Y), nats", information.mutual_information, unit="nats",
           solved="information", leads=True),
    _budget("eo_gap", "EO gap", "equalized-odds gap", information.eo_gap, criterion="separation",
            solved="widths", widths=((0.5, 0.5),), many_labels=True, leads=True),
    Metric("accuracy", "accuracy", "accuracy", information.accuracy, solved="prices", leads=True),
    Metric("balanced_accuracy", "balanced accuracy", "balanced accuracy",
           information.balanced_accuracy, solved="prices", leads=True),
    Metric("auroc", "AUROC", "AUROC", needs="scores", mixes=False, leads=True),
    Metric("cost", "cost per row", "cost of the errors per row", lower_is_better=True, unit="cost",
           needs="costs", solved="prices"),
    _budget("eo_max", "EO max", "equalized-odds difference, the larger label",
            lambda counts: information.gaps_by_label(counts).max(-1), criterion="separation",
            solved="widths", widths=((1, 0), (0, 1)), many_labels=True),
    _budget("tpr_gap", "TPR gap", "range of the true-positive rates",
            CRITERIA["equal_opportunity"].gap, criterion="equal_opportunity", solved="widths",
            widths=((0, 1),)),
    _budget("fpr_gap", "FPR gap", "range of the false-positive rates",
            lambda counts: information.gaps_by_label(counts)[..., 0], criterion="separation",
            solved="widths", widths=((1, 0),)),
    _budget("independence", "I(U;Z)", "independence I(U;Z), nats",
            CRITERIA["independence"].information, unit="nats", criterion="independence",
            solved="information", pooled=True),
    _budget("parity_gap", "parity gap", "range of the groups' shares of U = 1",
            CRITERIA["independence"].gap, criterion="independence", solved="widths", widths=((1,),),
            pooled=True),
    Metric("impact_ratio", "impact ratio", "smallest share of U = 1 in a group, by the largest",
           _impact_ratio, criterion="independence", mixes=False),
    _budget("impact_gap", "1 − impact ratio", "1 − smallest share of U = 1 by the largest",
            lambda counts: 1.0 - _impact_ratio(counts), criterion="independence", solved="widths",
            widths=((1,),), pooled=True, relative=True, mixes=False),
    _budget("sufficiency", "I(Y;Z|U)", "sufficiency I(Y;Z|U), nats",
            CRITERIA["sufficiency"].information, unit="nats", criterion="sufficiency"),
    _budget("predictive_gap", "predictive gap", "range of P(Y=1|U=1) or of P(Y=1|U=0), the larger",
            CRITERIA["sufficiency"].gap, criterion="sufficiency", solved="predictive values"),
    _budget("score_violation", "score v", "v of the score in 20 quantile bins, nats", unit="nats",
            needs="scores", criterion="separation", mixes=False),
    _budget("score_gap", "largest gap", "largest EO gap over all thresholds", needs="scores",
            criterion="separation", mixes=False),
    Metric("r2", "R²", "R²", needs="numbers"),
    Metric("rmse", "RMSE", "RMSE", lower_is_better=True, unit="cost", needs="numbers"),
)}
# fmt: on
OBJECTIVES = {name: m for name, m in METRICS.items() if m.solved and not m.criterion}
BUDGETS = {name: m for name, m in METRICS.items() if m.solved and m.criterion}


def criterion_named(name: str) -> Criterion:
    """The criterion of that name, or an error that lists them.

    >>> criterion_named("independence").gap_name
    'parity_gap'
    """
    if not isinstance(name, str) or name not in CRITERIA:
        names = ", ".join(map(repr, CRITERIA))
        raise InputError(f"`criterion` must be one of {names}, got {name!r}.")
    return CRITERIA[name]


def budget_named(name: str) -> Metric:
    """The budget of that name, or an error that lists them."""
    if name == "impact_ratio":
        raise InputError("The impact ratio is a minimum: pass budget='impact_gap', which is 1 − impact ratio.")
    if not isinstance(name, str) or name not in BUDGETS:
        raise InputError(f"`budget` must be one of {', '.join(map(repr, BUDGETS))}, got {name!r}.")
    return BUDGETS[name]


def budget_for(criterion: str, budget: str | None) -> Metric:
    """The budget of that name, or the first of the criterion where none is named.

    >>> budget_for("independence", None).name, budget_for("independence", "parity_gap").label
    ('independence', 'parity gap')
    """
    kind = criterion_named(criterion)
    if budget is None:
        return BUDGETS[kind.budgets[0]]
    metric = budget_named(budget)
    if criterion not in ("separation", metric.criterion):
        names = ", ".join(map(repr, kind.budgets))
        said = f"belongs to {metric.criterion}; for criterion={criterion!r} pass {names}"
        raise InputError(f"`budget={budget!r}` {said}, or leave `criterion` out.")
    return metric


def label_of(name: str) -> str:
    """The label of a metric as people read it; a metric of the user's own has its name.

    >>> label_of("eo_gap"), label_of("my_metric")
    ('EO gap', 'my metric')
    """
    return METRICS[name].label if name in METRICS else name.replace("_", " ")


def table_measures() -> dict[str, Callable[[Array], Array]]:
    """The metrics that are functions of tables (..., y, z, u), by name."""
    return {name: m.of for name, m in METRICS.items() if m.of is not None}


def measure(tables: Array) -> dict[str, Array]:
    """Every metric that is a function of the tables (..., y, z, u), by name."""
    return {name: of(tables) for name, of in table_measures().items()}


def recorded_metrics() -> list[str]:
    """The metrics of a stored policy: functions of its table, or of its scores."""
    return [name for name, m in METRICS.items() if m.needs in ("table", "scores")]


def leading_metrics() -> list[str]:
    """The metrics of every table and figure."""
    return [name for name, m in METRICS.items() if m.leads]


def leading_budgets() -> list[str]:
    """The leading metrics that a budget bounds."""
    return [name for name, m in METRICS.items() if m.criterion and m.leads]


def leading_objectives() -> list[str]:
    """The leading metrics to maximise."""
    return [name for name, m in METRICS.items() if m.leads and not m.criterion]


def identity(counts: Array) -> str:
    """The impossibility theorem in the numbers of one table (y, z, u), as a sentence.

    >>> print(identity(np.array([[[40.0, 10], [30, 20]], [[10, 40], [5, 45]]])))
    Independence + sufficiency = separation + base dependence: 0.0116 + 0.0055 = 0.0171 + 0.0000 \
nats. Labels are equally frequent in all groups here: all three can be 0 at once.
    """
    parts = [float(CRITERIA[name].information(counts)) for name in ("independence", "sufficiency", "separation")]
    base = float(BASE_DEPENDENCE.information(counts))
    a, b, c, d = (f"{x:.4f}" for x in (*parts, base))
    said = f"Independence + sufficiency = separation + base dependence: {a} + {b} = {c} + {d} nats."
    if base < 5e-5:
        return f"{said} Labels are equally frequent in all groups here: all three can be 0 at once."
    return (
        f"{said} The labels themselves differ between groups, so whatever is predicted, "
        f"independence and sufficiency add up to at least {d}: no prediction has all three at 0."
    )
