"""Did the violation change? Two audits, or two models on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from separatrix.auditing.result import Audit
from separatrix.columns.counting import count_labels
from separatrix.columns.groups import as_groups
from separatrix.columns.values import as_levels, check_lengths
from separatrix.core.crosstab import crosstab
from separatrix.core.information import check_confidence
from separatrix.errors import InputError
from separatrix.report.words import preformatted
from separatrix.statistics import certificates, inference
from separatrix.statistics.inference import paired_change


@dataclass(frozen=True)
class Comparison:
    """Did v change from b to a? `change` is v_a − v_b, bias-corrected, with an interval."""

    change: float
    interval: tuple[float, float]
    confidence: float

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        low, high = self.interval
        verdict = "no clear difference"
        if high < 0 or low > 0:
            verdict = f"the violation is {'lower' if high < 0 else 'higher'}"
        interval = f"{self.confidence:.0%} interval {low:+.5f} … {high:+.5f}"
        return f"change in v: {self.change:+.5f} nats, {interval}: {verdict}"


def compare(
    a: Any, b: Any, *, y_true: Any = None, sensitive_features: Any = None, confidence: float | None = None
) -> Comparison:
    """Did v really drop? The change v_a − v_b with an interval.

    Two audits, of the same people or of different ones: each interval is taken at half the error,
    so both hold at once however the audits depend on each other.

    Two hard predictions of the same rows, with `y_true` and `sensitive_features`: what they share
    cancels, so the large-sample interval is far narrower. If cells are too small for it
    (`Audit.estimable`), the two audits are compared instead.

    Args:
        a, b: audits, or predicted labels.
        y_true, sensitive_features: labels and groups of the rows of both predictions.
        confidence: of the interval; by default the lower one of the two audits, or 0.95.

    >>> from separatrix import audit
    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 4_000))
    >>> b = np.where(rng.random(4_000) < 0.2, z, y)
    >>> a = np.where(rng.random(4_000) < 0.03, y, b)        # a few of them put right
    >>> paired = compare(a, b, y_true=y, sensitive_features=z)
    >>> apart = compare(*(audit(y, u, sensitive_features=z) for u in (a, b)))
    >>> paired.interval[1] < 0 < apart.interval[1]
    True
    """
    if y_true is None and sensitive_features is None:
        return _of_audits(a, b, confidence)
    if isinstance(a, Audit) or isinstance(b, Audit):
        raise InputError("`y_true` and `sensitive_features` belong to two predictions; audits are compared without.")
    for name, value in (("y_true", y_true), ("sensitive_features", sensitive_features)):
        if value is None:
            raise InputError(f"`{name}` is missing: predictions are compared on the same rows.")
    return _of_rows(a, b, y_true, sensitive_features, 0.95 if confidence is None else confidence)


def _of_audits(a: Audit, b: Audit, confidence: float | None) -> Comparison:
    for name, value in (("a", a), ("b", b)):
        if not isinstance(value, Audit):
            raise InputError(
                f"`{name}` must be an Audit, got {type(value).__name__}. Make one with `audit(...)`, or pass `y_true` "
                "and `sensitive_features` of the same rows."
            )
    if confidence is None:
        confidence = min(a.confidence, b.confidence)
    check_confidence(confidence)
    (a_low, a_high), (b_low, b_high) = (_span(x, 0.5 * (1.0 + confidence)) for x in (a, b))
    change = a.violation_corrected - b.violation_corrected
    return Comparison(change, (a_low - b_high, a_high - b_low), confidence)


def _of_rows(a: Any, b: Any, y_true: Any, groups: Any, confidence: float) -> Comparison:
    y, z = as_levels(y_true, "y_true"), as_groups(groups)
    u_a, u_b = as_levels(a, "a"), as_levels(b, "b")
    check_lengths({"y_true": y, "sensitive_features": z, "a": u_a, "b": u_b})
    pair = u_a.codes.astype(np.intp) * len(u_b.levels) + u_b.codes
    shape = len(y.levels), len(z.levels), len(u_a.levels) * len(u_b.levels)
    joint = crosstab([y.codes, z.codes, pair], shape).reshape(*shape[:2], len(u_a.levels), len(u_b.levels))
    change, interval, known = paired_change(joint, confidence)
    if known:
        return Comparison(change, interval, confidence)
    tables = [count_labels(y, u, sensitive_features=z) for u in (u_a, u_b)]
    first, second = (Audit.from_table(table, confidence) for table in tables)
    return _of_audits(first, second, confidence)


def _span(a: Audit, confidence: float) -> tuple[float, float]:
    if a.estimable:
        return inference.noise(a.table).interval(confidence)
    people = certificates.default_composition(a.table)
    return 0.0, certificates.violation_bound(a.table, confidence, composition=people)
