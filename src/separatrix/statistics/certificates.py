r"""Certified upper bounds: what is promised, under which guarantee, about which population.

Two guarantees. "finite-sample" holds for any number of rows. "large-sample" rests on a normal
approximation and needs far fewer rows; docs/guarantees.md has its simulated failure rates.
Two compositions. v weighs the cells (y, z) by their shares. "observed" takes the shares of these
rows, "population" those of the law that the rows were drawn from.
"""

from __future__ import annotations

import numpy as np

from separatrix.core.counts import CountTable
from separatrix.core.information import (
    check_confidence,
    conditional_mutual_information,
    violation_ceiling,
)
from separatrix.errors import InputError
from separatrix.statistics import bounds, exponent, inference
from separatrix.statistics.gaps import eo_gap_bound

__all__ = [
    "COMPOSITIONS",
    "GUARANTEES",
    "check_promise",
    "default_composition",
    "eo_gap_bound",
    "has_weights",
    "promise",
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
            5, else the normal form of the exponent.
        composition: "population" or "observed". The large-sample limit of well-filled cells is one
            for the population, and serves both.

    >>> from separatrix.columns.counting import count_labels
    >>> y, z, u = np.random.default_rng(0).integers(0, 2, (3, 20_000))    # truth: v = 0
    >>> t = count_labels(y, u, sensitive_features=z)
    >>> violation_bound(t, guarantee="large-sample") < violation_bound(t) < 5e-4
    True
    """
    check_confidence(confidence)
    check_promise(guarantee, composition)
    plug_in = float(conditional_mutual_information(table.counts))
    if guarantee == "large-sample":
        error = inference.noise(table)
        if error.estimable:
            found = inference.upper_limit(table, confidence, error)
        else:
            found = exponent.normal_bound(table, confidence, composition)
        return max(found, plug_in)
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
        if value not in known:
            raise InputError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")
