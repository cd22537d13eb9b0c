"""Audit of arrays, and the two scores for other libraries' scorers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from separatrix.auditing.continuous import ContinuousAudit
from separatrix.auditing.result import Audit
from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.columns.quantities import Attribute, Target, check_kinds, quantities
from separatrix.columns.values import Coded, as_array
from separatrix.core import information
from separatrix.core.counts import CountTable
from separatrix.errors import InputError

__all__ = [
    "audit", "count_table", "refuse_label_options", "utility_score", "violation_score",
]  # fmt: skip


@overload
def audit(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: Sequence[Hashable] | None = None,
    target: Literal["labels"] = "labels",
    sensitive: Literal["groups"] = "groups",
    confidence: float = 0.95,
    guarantee: str = "finite-sample",
    composition: str | None = None,
    random_state: int = 0,
) -> Audit: ...


@overload
def audit(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    target: Target = "labels",
    sensitive: Attribute = "groups",
    confidence: float = 0.95,
    random_state: int = 0,
) -> ContinuousAudit: ...


def audit(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: Sequence[Hashable] | None = None,
    target: Target = "labels",
    sensitive: Attribute = "groups",
    confidence: float = 0.95,
    guarantee: str = "finite-sample",
    composition: str | None = None,
    random_state: int = 0,
) -> Audit | ContinuousAudit:
    """How far from separation are these predictions, and how sure are we?

    Args:
        y_true: true labels, or numbers.
        y_pred: hard labels (1-d), or posteriors (2-d, one column per label in sorted order,
            `labels` overrides), from which the decision is drawn. Where the outcome or the
            attribute is continuous: one number (or label) per row.
        sensitive_features: groups; several columns (frame, array, list) make their intersection.
        sample_weight: a weight per row. Weighted rows get wider bounds.
        labels: all labels, in the order of the posterior's columns.
        target: "labels", or "continuous" for a numeric outcome.
        sensitive: "groups", or "continuous" for one numeric attribute such as age.
        confidence: of the intervals and of the certified bounds.
        guarantee: of the certified bounds: "finite-sample" or "large-sample" (guarantees.md).
        composition: the people that the bound on v is about: "population", the default, or
            "observed", the default for weighted rows under a finite-sample guarantee.
        random_state: seed of the Monte Carlo test, of the shuffles and of the interval of the gap.

    Returns:
        An `Audit`: print it, or read `violation`, `violation_interval`, `p_value`, `cells`, …
        A `ContinuousAudit` if one of the two is continuous: `violation_lower`, `p_value`, …

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 2_000))
    >>> copies = np.where(rng.random(2_000) < 0.2, z, y)    # one in five copies the group
    >>> a = audit(y, copies, sensitive_features=z)
    >>> round(a.violation, 3), round(a.utility, 3), a.p_value < 0.001
    (0.075, 0.369, True)
    """
    if check_kinds(target, sensitive):
        refuse_label_options(labels, guarantee, composition)
        rows = quantities(
            y_true,
            y_pred,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            target=target,
            sensitive=sensitive,
        )
        return ContinuousAudit.of(rows, confidence, random_state)
    table = count_table(y_true, y_pred, sensitive_features, sample_weight, labels)
    return Audit.of(table, confidence, random_state, guarantee=guarantee, composition=composition)


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


def refuse_label_options(labels: object, guarantee: str, composition: str | None) -> None:
    """Refuse what only labels and groups have: a list of labels, and a certified upper bound."""
    asked = {"labels": labels, "composition": composition}
    asked["guarantee"] = None if guarantee == "finite-sample" else guarantee
    for name, value in asked.items():
        if value is not None:
            raise InputError(
                f"`{name}` belongs to an audit of labels and groups, got {value!r}; leave it out "
                "where the outcome or the attribute is continuous."
            )
