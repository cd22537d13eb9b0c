"""Two models on the same rows: did the violation change?"""

from __future__ import annotations

from typing import Any

import numpy as np

from separatrix.auditing.result import Audit, Comparison, compare
from separatrix.columns.counting import count_labels
from separatrix.columns.groups import as_groups
from separatrix.columns.values import as_levels, check_lengths
from separatrix.core.crosstab import crosstab
from separatrix.statistics.paired import paired_change

__all__ = ["compare_paired"]


def compare_paired(
    y_true: Any, y_pred_a: Any, y_pred_b: Any, *, sensitive_features: Any, confidence: float = 0.95
) -> Comparison:
    """The change v_a − v_b of two hard predictions of the same rows, with a large-sample interval.

    What the two share cancels, so the interval is far narrower than that of `compare`, which does
    not know that the rows are the same. Where cells are too small for it (`Audit.estimable`), the
    answer is that of `compare`.

    Args:
        y_true: true labels.
        y_pred_a, y_pred_b: predicted labels.
        sensitive_features: groups, as in `audit`.
        confidence: of the interval.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 4_000))
    >>> b = np.where(rng.random(4_000) < 0.2, z, y)
    >>> a = np.where(rng.random(4_000) < 0.03, y, b)        # a few of them put right
    >>> found = compare_paired(y, a, b, sensitive_features=z)
    >>> from separatrix import audit
    >>> union = compare(*(audit(y, u, sensitive_features=z) for u in (a, b)))
    >>> found.interval[1] < 0 < union.interval[1]
    True
    """
    y, z = as_levels(y_true, "y_true"), as_groups(sensitive_features)
    a, b = as_levels(y_pred_a, "y_pred_a"), as_levels(y_pred_b, "y_pred_b")
    names = "y_true", "sensitive_features", "y_pred_a", "y_pred_b"
    check_lengths(dict(zip(names, (y, z, a, b), strict=True)))
    pair = a.codes.astype(np.intp) * len(b.levels) + b.codes
    shape = len(y.levels), len(z.levels), len(a.levels) * len(b.levels)
    counts = crosstab([y.codes, z.codes, pair], shape)
    joint = counts.reshape(*shape[:2], len(a.levels), len(b.levels))
    change, interval, known = paired_change(joint, confidence)
    if not known:
        tables = [count_labels(y, u, sensitive_features=z) for u in (a, b)]
        return compare(*(Audit.of(table, confidence) for table in tables))
    return Comparison(change, interval, confidence)
