"""Arrays to the table of an audit, and the two scores for other libraries' scorers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.columns.values import Coded, as_array
from separatrix.core import information
from separatrix.core.counts import CountTable

__all__ = ["count_table", "utility_score", "violation_score"]


def violation_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Plug-in v = I(U; Z | Y) as a metric function of scikit-learn scorers and MetricFrame.

    Lower is better. Zero if there is one group only.

    >>> violation_score([0, 0, 1, 1], [0, 1, 1, 1], sensitive_features=["f", "m", "f", "m"])
    0.34657359027997264
    """
    table = count_table(y_true, y_pred, sensitive_features, sample_weight)
    return float(information.conditional_mutual_information(table.counts))


def utility_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Plug-in u = I(U; Y) as a metric function; the groups do not matter and may be left out.

    >>> round(utility_score([0, 0, 1, 1], [0, 0, 1, 1]), 4)
    0.6931
    """
    alike = np.zeros(len(as_array(y_true, "y_true")), dtype=np.int8)
    groups = alike if sensitive_features is None else sensitive_features
    table = count_table(y_true, y_pred, groups, sample_weight)
    return float(information.mutual_information(table.counts))


def count_table(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    sample_weight: ArrayLike | None = None,
    labels: Sequence[Hashable] | None = None,
    *,
    names: tuple[str, str, str] = ("y_true", "sensitive_features", "y_pred"),
) -> CountTable:
    """The table of hard labels, or of posteriors."""
    u = y_pred.codes if isinstance(y_pred, Coded) else as_array(y_pred, names[2])
    single = u.ndim == 1 or (u.ndim == 2 and u.shape[1] == 1)
    count = count_labels if single else count_posteriors
    return count(
        y_true,
        y_pred if single else u,
        sensitive_features=sensitive_features,
        labels=labels,
        sample_weight=sample_weight,
        names=names,
    )
