"""Certified upper bounds: what is promised, under which guarantee, about which population.

Two guarantees. "finite-sample" holds for any number of rows. "large-sample" rests on a normal
approximation and needs far fewer rows; guarantees.md has its simulated failure rates.
Two compositions. v weighs the cells (y, z) by their shares. "observed" takes the shares of these
rows, "population" those of the law that the rows were drawn from.

*Folds.* Upper bounds from the rows of all folds, each counted under a rule that did not see it.
Fold k's rule is fitted to the rows of the other folds. Given those, the rows of fold k are a fresh
sample, so its table N_k[y, z, u] speaks of v_k, the population's violation of rule k. The tables
are never added: the rule of every other fold was fitted to the rows of this one, its errors there
have the opposite sign, and they cancel in the sum. Laid side by side, with (k, y) in place of
the label, they are one table whose violation is the mean of the v_k weighted by rows, and whose
equalized-odds gap is the plain mean of the folds' gaps; the bounds for one table apply to it.

What ships is the same procedure on all rows. In the linear model of such procedures (a rule's rates
follow the training rows' rates) the folds show how much a fit moves, and not where the fit on all
rows has moved to: an exactly equal fit has 2 n v of a χ² law, independent of the folds' tables. So
the bound on v is never below the upper quantile of that law. docs/reference/guarantees.md has the
derivation and the simulated failure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from separatrix.core.counts import CountTable
from separatrix.core.information import (
    check_confidence,
    conditional_mutual_information,
    violation_ceiling,
)
from separatrix.core.numerics import bisect
from separatrix.errors import InputError
from separatrix.statistics import bounds, exponent, inference
from separatrix.statistics.gaps import eo_gap_bound
from separatrix.statistics.inference import null_quantile

__all__ = [
    "COMPOSITIONS",
    "GUARANTEES",
    "check_promise",
    "default_composition",
    "eo_gap_bound",
    "folds_eo_gap_bound",
    "folds_violation_bound",
    "has_weights",
    "promise",
    "side_by_side",
    "simulated_failure",
    "violation_bound",
]

GUARANTEES = ("finite-sample", "large-sample")
COMPOSITIONS = ("observed", "population")
_OTHER_SHARE = 0.05  # of the error, for the bounds beside the exponent; hard labels
_SOFT_SHARE = 0.5  # the same for posteriors, whose small variance only the others see


def violation_bound(
    table: CountTable,
    confidence: float = 0.95,
    *,
    guarantee: str = "finite-sample",
    composition: str = "population",
) -> float:
    """Upper bound on v that fails with probability at most 1 − confidence.

    Args:
        table: the counts. Rows are independent; cells (y, z) without rows are taken to be empty.
        confidence: of the bound.
        guarantee: "finite-sample": the smaller of the exponent bound and, for the observed
            composition, of the bounds by simultaneous intervals, with the error shared.
            "large-sample": the one-sided limit where every fitted count n_yz P(u | y) is at least
            1 (posteriors and weighted rows: 5), else the normal form of the exponent.
        composition: "population" or "observed". The large-sample limit of well-filled cells is one
            for the population, and serves both.

    >>> from separatrix.columns.counting import count_labels
    >>> y, z, u = np.random.default_rng(0).integers(0, 2, (3, 20_000))    # truth: v = 0
    >>> t = count_labels(y, u, sensitive_features=z)
    >>> violation_bound(t, guarantee="large-sample") < violation_bound(t) < 1e-3
    True
    """
    check_confidence(confidence)
    check_promise(guarantee, composition)
    plug_in = float(conditional_mutual_information(table.counts))
    if guarantee == "large-sample":
        error = inference.noise(table)
        if inference.has_limit(table, error):  # may be below the plug-in value, which has a bias
            return inference.upper_limit(table, confidence, error)
        return max(exponent.normal_bound(table, confidence, composition), plug_in)
    if composition == "population":
        if has_weights(table):
            raise InputError(
                "Weighted rows have no finite-sample bound on v for the population's composition. "
                "Pass composition='observed' or guarantee='large-sample'."
            )
        return max(exponent.exponent_bound(table, confidence, composition), plug_in)
    top = float(violation_ceiling(table.counts))
    if has_weights(table):
        return max(min(bounds.upper_bound(table, confidence), top), plug_in)
    share = _OTHER_SHARE if table.moments is None else _SOFT_SHARE
    error_of = 1.0 - confidence
    found = exponent.exponent_bound(table, 1.0 - (1.0 - share) * error_of)
    found = min(found, bounds.upper_bound(table, 1.0 - share * error_of), top)
    return max(found, plug_in)


def default_composition(table: CountTable, guarantee: str = "finite-sample") -> str:
    """The population's, except where only the observed one has a bound: weighted rows."""
    check_promise(guarantee, COMPOSITIONS[0])
    weighted = guarantee == "finite-sample" and has_weights(table)
    return "observed" if weighted else "population"


def has_weights(table: CountTable) -> bool:
    """Whether some rows do not weigh one."""
    return not np.allclose(table.weight_squares, table.counts.sum(2))


def promise(guarantee: str, composition: str) -> str:
    """Both in plain words, for every output.

    >>> promise("finite-sample", "population")
    'holds for any number of rows, for the population that the rows were drawn from'
    """
    check_promise(guarantee, composition)
    rows = {
        "finite-sample": "holds for any number of rows",
        "large-sample": "holds for large samples",
    }[guarantee]
    people = {
        "observed": "for people with the observed shares of labels and groups",
        "population": "for the population that the rows were drawn from",
    }[composition]
    return f"{rows}, {people}"


def check_promise(guarantee: str, composition: str) -> None:
    """Refuse a guarantee or a composition that does not exist."""
    for name, value, known in (
        ("guarantee", guarantee, GUARANTEES),
        ("composition", composition, COMPOSITIONS),
    ):
        if not isinstance(value, str) or value not in known:
            raise InputError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")


def simulated_failure(
    table: CountTable,
    confidence: float = 0.95,
    *,
    composition: str = "population",
    draws: int = 200,
    random_state: int = 0,
) -> float:
    """How often the large-sample bound fails on tables like this one, by simulation.

    The law has the table's shares, and its rates moved along the observed differences of the groups
    until v equals the bound: the hardest place for it. Draws are hard labels; weighted rows count
    as their effective number.
    """

    def bound(one: CountTable) -> float:
        return violation_bound(one, confidence, guarantee="large-sample", composition=composition)

    law = _at_violation(table, bound(table))
    counts = table.counts
    n = int(np.floor(counts.sum() ** 2 / table.weight_squares.sum()))
    rng = np.random.default_rng(random_state)
    failed = 0
    for drawn in rng.multinomial(n, law.ravel(), size=draws).reshape(draws, *counts.shape):
        one = CountTable(drawn.astype(float), table.labels, table.groups, table.predictions, n)
        people = law
        if composition == "observed":
            mass = law.sum(2, keepdims=True)
            people = drawn.sum(2, keepdims=True) * law / np.where(mass > 0, mass, 1.0)
        truth = float(conditional_mutual_information(people))
        failed += bound(one) < truth - 1e-12
    return failed / draws


def _at_violation(table: CountTable, violation: float) -> NDArray[np.float64]:
    """The table's law with its rates tilted until v is as given, or as near as they get."""
    mass = table.counts.sum(2, keepdims=True)
    label = np.where(mass.sum(1, keepdims=True) > 0, mass.sum(1, keepdims=True), 1.0)
    pooled = (table.counts.sum(1, keepdims=True) + 1e-9) / label
    tilt = np.log((table.counts + 0.5 * pooled) / (np.where(mass > 0, mass, 1.0) + 0.5) / pooled)

    def at(size: float) -> NDArray[np.float64]:
        rates = pooled * np.exp(np.clip(size * tilt, -500.0, 500.0))
        return mass * rates / rates.sum(2, keepdims=True) / mass.sum()

    high = 1.0
    while conditional_mutual_information(at(high)) < violation and high < 1e3:
        high *= 2.0
    low, _ = bisect(
        lambda size: conditional_mutual_information(at(size)) < violation, 0.0, high, 50
    )
    return at(float(low))


def folds_violation_bound(tables: Sequence[CountTable], confidence: float = 0.95) -> float:
    """Large-sample upper bound on v of a procedure, from one table per fold.

    Args:
        tables: counts of each fold's rows under the rule that did not see them.
        confidence: the bound fails with probability about 1 − confidence at most.

    >>> from separatrix.columns.counting import count_labels
    >>> rows = np.random.default_rng(0).integers(0, 2, (5, 3, 4_000))    # truth: v = 0
    >>> folds = [count_labels(y, u, sensitive_features=z) for y, z, u in rows]
    >>> of_all = folds_violation_bound(folds)
    >>> of_all < violation_bound(folds[0], guarantee="large-sample")
    True
    """
    found = violation_bound(side_by_side(tables), confidence, guarantee="large-sample")
    return max(found, null_quantile(CountTable.merge(tables), confidence))


def folds_eo_gap_bound(tables: Sequence[CountTable], confidence: float = 0.95) -> float:
    """Large-sample upper bound on the equalized-odds gap of a procedure, as above."""
    return eo_gap_bound(side_by_side(tables), confidence, "large-sample")


def side_by_side(tables: Sequence[CountTable]) -> CountTable:
    r"""One table with the labels (k, y), so that :math:`v = \sum_k (n_k / n)\, v_k`.

    >>> a = CountTable(np.array([[[3.0, 1.0], [1.0, 3.0]]]), ("y",), (0, 1), (0, 1), rows=8)
    >>> side_by_side([a, a]).labels
    ((0, 'y'), (1, 'y'))
    """
    first = tables[0]
    labels = tuple((k, y) for k, table in enumerate(tables) for y in table.labels)
    counts = np.concatenate([table.counts for table in tables])
    moments = None
    if any(table.moments is not None for table in tables):
        moments = np.concatenate([table.second_moments for table in tables])
    rows = sum(table.rows for table in tables)
    return CountTable(counts, labels, first.groups, first.predictions, rows, moments)
