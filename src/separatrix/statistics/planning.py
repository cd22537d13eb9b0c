"""How many rows an audit needs: to certify that v or the gap is small, or to see that it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chndtr, gammaincinv

from separatrix.core.counts import CountTable
from separatrix.core.information import check_confidence, conditional_mutual_information
from separatrix.core.numbers import as_floats, one_number, whole_number
from separatrix.core.numerics import bisect
from separatrix.errors import InputError
from separatrix.statistics.certificates import check_promise, violation_bound
from separatrix.statistics.gaps import eo_gap_bound
from separatrix.statistics.inference import noise

Array = NDArray[np.float64]
_MOST = 10**9
_DRAWS = 81  # tables drawn at each number of rows


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
    check_promise(guarantee, composition)
    if not 0.0 < one_number(power, "power") < 1.0:
        raise InputError(f"`power` must lie strictly between 0 and 1, got {power}.")
    labels, groups = whole_number(labels, "labels", 1), whole_number(groups, "groups", 2)
    k = whole_number(labels if predictions is None else predictions, "predictions", 2)
    share = _shares(shares, labels, groups)
    asked = {"max_violation": max_violation, "max_eo_gap": max_eo_gap}
    asked |= {"violation": violation, "eo_gap": eo_gap}
    given = {name: value for name, value in asked.items() if value is not None}
    if len(given) != 1:
        raise InputError(f"Pass one of {', '.join(asked)}, got {', '.join(given) or 'none'}.")
    name, value = next(iter(given.items()))
    target = one_number(value, name)
    if not 0.0 < target < (1.0 if "gap" in name else np.log(min(k, groups))):
        raise InputError(f"`{name}` must be positive and below its largest value, got {target}.")
    freedom = labels * (groups - 1) * (k - 1)
    how: dict[str, Any] = {"guarantee": guarantee, "composition": composition}
    if name == "max_violation" and guarantee == "finite-sample":

        def enough(n: int) -> bool:
            even = _table(n * np.repeat(share[:, :, None] / k, k, 2), n)
            # the quantile of v̂: a χ² law, larger where cells are small
            high = float(gammaincinv(0.5 * freedom, power)) / (0.5 * freedom)
            table = _typical(share, k, n, noise(even).null_bias * high)
            return violation_bound(table, confidence, **how) <= target

    elif name.startswith("max"):

        def enough(n: int) -> bool:
            if name == "max_eo_gap":
                kept = [eo_gap_bound(t, confidence, guarantee) for t in _drawn(share, k, n)]
            else:
                kept = [violation_bound(t, confidence, **how) for t in _drawn(share, k, n)]
            return float(np.quantile(kept, power)) <= target

    else:
        v = target if name == "violation" else _of_gap(share, k, target)
        critical = 2.0 * float(gammaincinv(0.5 * freedom, confidence))

        def enough(n: int) -> bool:
            return float(chndtr(critical, freedom, 2.0 * n * v)) <= 1.0 - power

    return _smallest(enough, f"{name}={target:g}")


def _smallest(enough: Callable[[int], bool], what: str) -> int:
    high = 16
    while not enough(high):
        high *= 2
        if high > _MOST:
            raise InputError(f"{what} takes more than {_MOST:,} rows: ask for less.")
    low = high // 2
    while high - low > max(0.005 * high, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _shares(shares: ArrayLike | None, labels: int, groups: int) -> Array:
    if shares is None:
        return np.full((labels, groups), 1.0 / (labels * groups))
    found = as_floats(shares, "shares")
    if found.shape != (labels, groups) or not (found > 0).all() or not np.isfinite(found).all():
        raise InputError(
            f"`shares` must be a positive array ({labels}, {groups}), one number for each label "
            f"and group, got shape {found.shape}."
        )
    return found / found.sum()


def _table(counts: Array, n: int) -> CountTable:
    y, z, u = (tuple(range(size)) for size in counts.shape)
    return CountTable(counts, y, z, u, rows=n)


def _typical(share: Array, k: int, n: int, violation: float) -> CountTable:
    """A table with these shares, even predictions but for noise, and this plug-in v."""
    tilt = np.random.default_rng(0).normal(size=(*share.shape, k))
    tilt -= (share[:, :, None] * tilt).sum(1, keepdims=True) / share.sum(1)[:, None, None]

    def at(size: float) -> Array:
        rates = np.exp(size * tilt)
        return n * share[:, :, None] * rates / rates.sum(2, keepdims=True)

    _, size = bisect(lambda x: conditional_mutual_information(at(x)) < violation, 0.0, 30.0, 60)
    return _table(at(float(size)), n)


def _drawn(share: Array, k: int, n: int) -> Iterator[CountTable]:
    """Tables of n rows with even predictions, the same ones at every call."""
    law = np.repeat(share[:, :, None] / k, k, 2)
    for counts in np.random.default_rng(0).multinomial(n, law.ravel(), _DRAWS):
        yield _table(counts.reshape(law.shape).astype(np.float64), n)


def _of_gap(share: Array, k: int, gap: float) -> float:
    """v of a law in which two groups are apart by the gap in each label."""
    rates = np.full((*share.shape, k), 1.0 / k)
    half = k // 2
    lower = np.r_[np.full(half, -1.0 / half), np.full(k - half, 1.0 / (k - half))]
    # the groups with the largest and the smallest share: rarely the easiest pair
    first, second = int(share.sum(0).argmax()), int(share.sum(0).argmin())
    second = second if second != first else share.shape[1] - 1
    for z, side in ((first, 0.5), (second, -0.5)):
        rates[:, z] = np.clip(rates[:, z] + side * gap * lower, 0.0, 1.0)
    return float(conditional_mutual_information(share[:, :, None] * rates))
