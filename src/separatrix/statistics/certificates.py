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

*Planning.* `sample_size` says how many rows a bound needs to be small, or a test to reject.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chndtr, gammaincinv

from separatrix.core.counts import CountTable
from separatrix.core.information import check_confidence, conditional_mutual_information, violation_ceiling
from separatrix.core.numbers import as_floats, one_number, one_of, whole_number
from separatrix.core.numerics import Array, bisect
from separatrix.errors import InputError
from separatrix.statistics import bounds, exponent
from separatrix.statistics.gaps import eo_gap_bound
from separatrix.statistics.inference import noise

GUARANTEES = {"finite-sample": "holds for any number of rows", "large-sample": "holds for large samples"}
COMPOSITIONS = {
    "observed": "for people with the observed shares of labels and groups",
    "population": "for the population that the rows were drawn from",
}
_OTHER_SHARE = 0.05  # of the error, for the bounds beside the exponent; hard labels
_SOFT_SHARE = 0.5  # the same for posteriors, whose small variance only the others see
_MOST_ROWS = 10**9  # that `sample_size` answers
_DRAWS = 81  # tables drawn at each number of rows


def violation_bound(
    table: CountTable, confidence: float = 0.95, *, guarantee: str = "finite-sample", composition: str = "population"
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
    _check_promise(guarantee, composition)
    plug_in = float(conditional_mutual_information(table.counts))
    if guarantee == "large-sample":
        error = noise(table)
        if error.has_upper_limit:  # may be below the plug-in value, which has a bias
            return error.upper_limit(confidence)
        return max(exponent.normal_bound(table, confidence, composition), plug_in)
    if composition == "population":
        if table.weighted:
            raise InputError(
                "Weighted rows have no finite-sample bound on v for the population's composition. "
                "Pass composition='observed' or guarantee='large-sample'."
            )
        return max(exponent.exponent_bound(table, confidence, composition), plug_in)
    top = float(violation_ceiling(table.counts))
    if table.weighted:
        return max(min(bounds.upper_bound(table, confidence), top), plug_in)
    share, error_of = _OTHER_SHARE if table.moments is None else _SOFT_SHARE, 1.0 - confidence
    by_exponent = exponent.exponent_bound(table, 1.0 - (1.0 - share) * error_of)
    by_intervals = bounds.upper_bound(table, 1.0 - share * error_of)
    return max(min(by_exponent, by_intervals, top), plug_in)


def default_composition(table: CountTable, guarantee: str = "finite-sample") -> str:
    """The population's, except where only the observed one has a bound: weighted rows."""
    one_of(guarantee, "guarantee", *GUARANTEES)
    return "observed" if guarantee == "finite-sample" and table.weighted else "population"


def promise(guarantee: str, composition: str) -> str:
    """Both in plain words, for every output.

    >>> promise("finite-sample", "population")
    'holds for any number of rows, for the population that the rows were drawn from'
    """
    return f"{GUARANTEES[guarantee]}, {COMPOSITIONS[composition]}"


def _check_promise(guarantee: str, composition: str) -> None:
    """Refuse a guarantee or a composition that does not exist."""
    one_of(guarantee, "guarantee", *GUARANTEES)
    one_of(composition, "composition", *COMPOSITIONS)


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

    def bound(drawn: CountTable) -> float:
        return violation_bound(drawn, confidence, guarantee="large-sample", composition=composition)

    counts = table.counts
    mass = counts.sum(2, keepdims=True)
    rows = np.where(mass > 0, mass, 1.0)
    of_label = mass.sum(1, keepdims=True)
    pooled = (counts.sum(1, keepdims=True) + 1e-9) / np.where(of_label > 0, of_label, 1.0)
    tilt = np.log((counts + 0.5 * pooled) / (rows + 0.5) / pooled)
    law = _at_violation(mass / mass.sum(), pooled, tilt, bound(table))
    share, rng, failed = law.sum(2, keepdims=True), np.random.default_rng(random_state), 0
    for drawn in rng.multinomial(int(table.effective_size), law.ravel(), size=draws).reshape(draws, *counts.shape):
        observed = drawn.sum(2, keepdims=True) * law / np.where(share > 0, share, 1.0)
        truth = float(conditional_mutual_information(observed if composition == "observed" else law))
        failed += bound(CountTable.numbered(drawn)) < truth - 1e-12
    return failed / draws


def _at_violation(mass: Array, rates: Array, tilt: Array, violation: float) -> Array:
    """The law of cells of this mass whose rates are tilted until v is as given, or nearly."""

    def tilted(size: float) -> Array:
        moved = rates * np.exp(np.clip(size * tilt, -500.0, 500.0))
        return np.asarray(mass * moved / moved.sum(2, keepdims=True))

    def below(size: float) -> bool:
        return bool(conditional_mutual_information(tilted(size)) < violation)

    high = 1.0
    while below(high) and high < 1e3:
        high *= 2.0
    return tilted(float(bisect(below, 0.0, high)[0]))


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
    bound = violation_bound(side_by_side(tables), confidence, guarantee="large-sample")
    return max(bound, noise(CountTable.merge(tables)).null_quantile(confidence))


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


def sample_size(
    *,
    max_violation: float | None = None,
    max_eo_gap: float | None = None,
    violation: float | None = None,
    eo_gap: float | None = None,
    labels: int = 2,
    groups: int = 2,
    predictions: int | None = None,
    shares: ArrayLike | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
    guarantee: str = "finite-sample",
    composition: str = "population",
) -> int:
    """Rows needed to certify a budget, or to detect a violation.

    Pass one of the first four. Labels, groups and predictions are as even as `shares` allows, which
    needs the most rows for a gap.

    Args:
        max_violation, max_eo_gap: the budget to certify when there is no violation at all: with
            this many rows `violation_upper` (or `eo_gap_upper`) is at most the budget with
            probability `power`.
        violation, eo_gap: what to detect: with this many rows the test of v = 0 rejects at
            1 − `confidence` with probability `power`. A gap is taken to be between two groups, the
            others in the middle.
        labels, groups, predictions: how many; predictions as many as labels unless given.
        shares: P(label, group), array (labels, groups); even unless given.
        confidence, guarantee, composition: of the bound, as in `audit`.

    Returns:
        The number of rows, within one percent.

    >>> sample_size(violation=0.01) < sample_size(violation=0.005)
    True
    >>> 1_400 < sample_size(max_violation=0.005, power=0.5, composition="observed") < 1_500
    True
    """
    check_confidence(confidence)
    _check_promise(guarantee, composition)
    if not 0.0 < one_number(power, "power") < 1.0:
        raise InputError(f"`power` must lie strictly between 0 and 1, got {power}.")
    labels, groups = whole_number(labels, "labels", 1), whole_number(groups, "groups", 2)
    k = whole_number(labels if predictions is None else predictions, "predictions", 2)
    share = np.ones((labels, groups)) if shares is None else as_floats(shares, "shares")
    if share.shape != (labels, groups) or not (share > 0).all() or not np.isfinite(share).all():
        raise InputError(
            f"`shares` must be a positive array ({labels}, {groups}), one number for each label "
            f"and group, got shape {share.shape}."
        )
    share = share / share.sum()
    targets = {"max_violation": max_violation, "max_eo_gap": max_eo_gap, "violation": violation, "eo_gap": eo_gap}
    given = {name: value for name, value in targets.items() if value is not None}
    if len(given) != 1:
        raise InputError(f"Pass one of {', '.join(targets)}, got {', '.join(given) or 'none'}.")
    ((name, value),) = given.items()
    target = one_number(value, name)
    if not 0.0 < target < (1.0 if "gap" in name else np.log(min(k, groups))):
        raise InputError(f"`{name}` must be positive and below its largest value, got {target}.")
    half = 0.5 * labels * (groups - 1) * (k - 1)  # of the degrees of freedom of v̂
    even = np.repeat(share[:, :, None] / k, k, 2)

    def detected(n: int) -> bool:
        v = target if name == "violation" else _of_gap(share, k, target)
        critical = 2.0 * float(gammaincinv(half, confidence))
        return float(chndtr(critical, 2.0 * half, 2.0 * n * v)) <= 1.0 - power

    def bound(table: CountTable) -> float:
        if name == "max_eo_gap":
            return eo_gap_bound(table, confidence, guarantee)
        return violation_bound(table, confidence, guarantee=guarantee, composition=composition)

    def certified(n: int) -> bool:
        if name == "max_violation" and guarantee == "finite-sample":
            # the quantile of v̂: a χ² law, larger where cells are small
            high = float(gammaincinv(half, power)) / half
            return bound(_typical(even, n, noise(CountTable.numbered(n * even)).null_bias * high)) <= target
        drawn = np.random.default_rng(0).multinomial(n, even.ravel(), _DRAWS)  # the same ones at every call
        tables = (CountTable.numbered(counts.reshape(even.shape)) for counts in drawn)
        return float(np.quantile([bound(table) for table in tables], power)) <= target

    enough, high = certified if name.startswith("max") else detected, 16
    while not enough(high):
        high *= 2
        if high > _MOST_ROWS:
            raise InputError(f"{name}={target:g} takes more than {_MOST_ROWS:,} rows: ask for less.")
    low = high // 2
    while high - low > max(0.005 * high, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _typical(even: Array, n: int, violation: float) -> CountTable:
    """A table of n rows with even predictions but for noise, and this plug-in v."""
    mass = even.sum(2, keepdims=True)
    tilt = np.random.default_rng(0).normal(size=even.shape)
    tilt -= (mass * tilt).sum(1, keepdims=True) / mass.sum(1, keepdims=True)
    return CountTable.numbered(n * _at_violation(mass, np.ones(1), tilt, violation))


def _of_gap(share: Array, k: int, gap: float) -> float:
    """v of a law in which two groups are apart by the gap in each label."""
    rates = np.full((*share.shape, k), 1.0 / k)
    half = k // 2
    lower = np.repeat([-1.0 / half, 1.0 / (k - half)], [half, k - half])
    # the groups with the largest and the smallest share: rarely the easiest pair
    first, second = int(share.sum(0).argmax()), int(share.sum(0).argmin())
    for z, side in ((first, 0.5), (second if second != first else -1, -0.5)):
        rates[:, z] = np.clip(rates[:, z] + side * gap * lower, 0.0, 1.0)
    return float(conditional_mutual_information(share[:, :, None] * rates))
