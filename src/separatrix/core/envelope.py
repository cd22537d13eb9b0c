"""Points in the (v, u) plane: Pareto set, concave envelope, hypervolume, price of separation.

A point is one predictor: its violation v = I(U;Z|Y) and its utility u = I(U;Y). Small v and large u
are good. A point with a NaN coordinate (a run that diverged) takes no part; among equal points the
first one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.core.numbers import as_floats
from separatrix.errors import InputError

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class Mixture(NamedTuple):
    """Use predictor `second` with probability `weight`, else `first`; the coin is revealed."""

    first: int
    second: int
    weight: float


def pareto(violation: ArrayLike, utility: ArrayLike) -> Index:
    """Indices of the points that no other point beats, by increasing violation.

    A point is beaten by one with v no larger and u no smaller that differs in at least one of them.

    >>> pareto([0.0, 0.1, 0.2, 0.2], [0.1, 0.3, 0.2, 0.4])
    array([0, 1, 3])
    """
    v, u = _points(violation, utility)
    index = np.flatnonzero(~(np.isnan(v) | np.isnan(u)))
    order = index[np.lexsort((index, -u[index], v[index]))]
    best = np.maximum.accumulate(np.r_[-np.inf, u[order]])[:-1]
    return order[u[order] > best]


def staircase(violation: ArrayLike, utility: ArrayLike, levels: ArrayLike) -> Array:
    r"""U(v) = max{u' : v' ≤ v}; NaN left of the first point.

    Proposition "Deterministic frontier is non-decreasing".

    >>> staircase([0.1, 0.3], [0.2, 0.5], [0.0, 0.1, 0.2, 1.0])
    array([nan, 0.2, 0.2, 0.5])
    """
    v, u = _points(violation, utility)
    front = pareto(v, u)
    place = np.searchsorted(v[front], np.asarray(levels, dtype=np.float64), side="right")
    return np.r_[np.nan, u[front]][place]


@dataclass(frozen=True, eq=False)
class Envelope:
    r"""The smallest concave non-decreasing curve above a set of points.

    Revealed mixtures attain it (Theorem "Randomized frontier equals the concave closure"): their
    coin is independent of (X,Y,Z), so v and u of a mixture are the averages of those of its parts.

    Args:
        violation, utility: the vertices, both strictly increasing.
        index: which of the points each vertex is.
    """

    violation: Array
    utility: Array
    index: Index

    def at(self, violation: ArrayLike) -> Array:
        """Best utility of a mixture with at most this violation; NaN left of all points."""
        x = _levels(violation)
        return np.where(x < self.violation[0], np.nan, np.interp(x, self.violation, self.utility))

    def mixture(self, violation: float) -> Mixture:
        """The two points and the weight of the second that realise `at(violation)`."""
        x = float(_levels(violation))
        if x < self.violation[0]:
            least = self.violation[0]
            raise InputError(f"No mixture of them has a violation of at most {x:.6g}: the smallest is {least:.6g}.")
        right = int(np.searchsorted(self.violation, x, side="right"))
        if right == len(self.violation):
            return Mixture(int(self.index[-1]), int(self.index[-1]), 0.0)
        left = right - 1
        weight = (x - self.violation[left]) / (self.violation[right] - self.violation[left])
        return Mixture(int(self.index[left]), int(self.index[right]), float(weight))

    def price(self) -> Array:
        """Marginal price of separation du/dv of each segment, strictest first."""
        return np.diff(self.utility) / np.diff(self.violation)

    def hypervolume(self, v_max: float) -> float:
        """Area under the envelope between its first vertex and `v_max`, above u = 0."""
        _check_reference(v_max)
        v = np.append(self.violation[self.violation < v_max], v_max)
        return float(np.trapezoid(np.maximum(self.at(v), 0.0), v))


def concave_envelope(violation: ArrayLike, utility: ArrayLike) -> Envelope:
    """Upper concave envelope of the points, from the strictest to the most useful one.

    >>> e = concave_envelope([0.0, 0.1, 0.2, 0.4], [0.0, 0.1, 0.3, 0.2])
    >>> e.index, e.at(0.1), e.mixture(0.05)
    (array([0, 2]), array(0.15), Mixture(first=0, second=2, weight=0.25))
    """
    v, u = _points(violation, utility)
    front = pareto(v, u)
    if not len(front):
        raise InputError("There are no points: every violation or utility is NaN, or none was passed.")
    hull: list[int] = []
    for i in front.tolist():
        while len(hull) > 1 and _turns_left(v, u, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    index = np.array(hull, dtype=np.intp)
    return Envelope(v[index], u[index], index)


def hypervolume(violation: ArrayLike, utility: ArrayLike, v_max: float) -> float:
    r"""Area under the points' staircase, with the reference (v_max, 0).

    Points with v ≥ v_max or u ≤ 0 add nothing. For the area under the envelope ask the `Envelope`.

    >>> round(hypervolume([0.1, 0.3], [0.2, 0.5], v_max=0.4), 6)
    0.09
    """
    _check_reference(v_max)
    v, u = _points(violation, utility)
    front = pareto(v, u)
    v, u = v[front], np.maximum(u[front], 0.0)
    width = np.maximum(np.diff(np.r_[np.minimum(v, v_max), v_max]), 0.0)
    return float(np.sum(width * u))


def utility_fraction(violation: ArrayLike, utility: ArrayLike, limit: Envelope) -> float:
    """Hypervolume of a method's envelope over that of the limit's, where the latter rises.

    Left of the method's strictest point its envelope continues to the constant predictor (0, 0).
    >>> round(utility_fraction([0.1], [0.2], concave_envelope([0.0, 0.1], [0.1, 0.2])), 4)
    0.6667
    """
    v, u = _points(violation, utility)
    envelope = concave_envelope(np.r_[v, 0.0], np.r_[u, 0.0])
    reference = float(limit.violation[-1])
    total = limit.hypervolume(reference) if reference > 0.0 else 0.0
    if total <= 0.0:
        raise InputError("The limit has no area: its best utility needs no violation.")
    return envelope.hypervolume(reference) / total


class Secant(NamedTuple):
    """The line through the X-only and the unconstrained reference point (section 2.3)."""

    slope: float
    violation: float
    utility: float

    def at(self, violation: ArrayLike) -> Array:
        """Extrapolated utility: left of the X-only point an upper bound on a concave frontier."""
        return self.utility + self.slope * (_levels(violation) - self.violation)


def secant(x_only: tuple[float, float], unconstrained: tuple[float, float]) -> Secant:
    r"""Local price of separation between two reference predictors, each given as (v, u).

    .. math:: \frac{u_{XZ} - u_X}{v_{XZ} - v_X}

    The unconstrained predictor violates separation more than the X-only one.

    >>> s = secant((0.01, 0.2), (0.03, 0.3))
    >>> round(s.slope, 6), round(float(s.at(0.0)), 6)
    (5.0, 0.15)
    """
    (v0, u0), (v1, u1) = x_only, unconstrained
    return Secant((u1 - u0) / (v1 - v0), v0, u0)


def _turns_left(v: Array, u: Array, a: int, b: int, c: int) -> bool:
    """Whether b lies on or below the segment from a to c."""
    return bool((v[b] - v[a]) * (u[c] - u[a]) >= (u[b] - u[a]) * (v[c] - v[a]))


def _points(violation: Any, utility: Any) -> tuple[Array, Array]:
    v, u = as_floats(violation, "violation"), as_floats(utility, "utility")
    if v.ndim != 1 or v.shape != u.shape:
        raise InputError(f"Points need one violation and one utility each, got shapes {v.shape} and {u.shape}.")
    if np.isinf(v).any() or np.isinf(u).any():
        raise InputError("A violation or utility is infinite; pass NaN for a lost run.")
    return v, u


def _levels(violation: ArrayLike) -> Array:
    x = as_floats(violation, "violation")
    if np.isnan(x).any():
        raise InputError("`violation` is NaN; pass the level of separation that you ask for.")
    return x


def _check_reference(v_max: float) -> None:
    if not (np.isfinite(v_max) and v_max > 0.0):
        raise InputError(f"The reference violation `v_max` must be positive and finite, got {v_max}.")
