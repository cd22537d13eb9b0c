"""The one door of each audit: arrays, a frame of any library, or files; the same result always."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from separatrix.auditing.continuous import ContinuousAudit
from separatrix.auditing.result import Audit
from separatrix.auditing.scores import ScoreAudit
from separatrix.auditing.tables import count_rows, count_score_rows, count_table
from separatrix.columns.counting import count_scores
from separatrix.columns.frames import Roles, named_roles
from separatrix.columns.groups import group_columns
from separatrix.columns.readers import whole_columns
from separatrix.columns.scores import quantities
from separatrix.columns.values import Coded, as_array
from separatrix.core import information
from separatrix.core.numbers import one_of
from separatrix.errors import InputError


def audit(
    y_true: Any,
    y_pred: Any = None,
    *,
    sensitive_features: Any,
    target: str | None = None,
    prediction: str | Sequence[str] | None = None,
    sample_weight: Any = None,
    labels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    guarantee: str = "finite-sample",
    composition: str | None = None,
    random_state: int = 0,
) -> Audit:
    """Do these decisions treat the groups differently, and how sure are we?

    Pass arrays, or a table and the names of its columns.

    Args:
        y_true: true labels; or a table: a frame (pandas, polars, pyarrow, DuckDB, Dask, PySpark,
            whose engine then counts), a mapping of columns, a CSV or Parquet file, a pattern such
            as `part-*.csv`.
        y_pred: labels (n,), or posteriors (n, K), one column per label in sorted order (`labels`
            overrides), from which the decision is drawn. Not with a table.
        sensitive_features: groups; several columns (frame, array, list) make their intersection.
            Of a table: names of columns.
        target, prediction: of a table: the column of true labels, and the column of decisions, or
            one column of posteriors for each label.
        sample_weight: a weight per row; of a table: its column. Weighted rows get wider bounds.
        labels: all labels, in the order of the posterior's columns.
        confidence: of the intervals and of the certified bounds.
        guarantee: of the certified bounds: "finite-sample" or "large-sample" (guarantees.md).
        composition: the people that the bound on v is about: "population", the default, or
            "observed", the default for weighted rows under a finite-sample guarantee.
        random_state: seed of the Monte Carlo test, of the shuffles and of the interval of the gap.

    Returns:
        An `Audit`: print it, or read `eo_gap`, `eo_gap_interval`, `violation`, `p_value`, …

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 2_000))
    >>> copies = np.where(rng.random(2_000) < 0.2, z, y)    # one in five copies the group
    >>> a = audit(y, copies, sensitive_features=z)
    >>> round(a.violation, 3), round(a.utility, 3), a.p_value < 0.001
    (0.075, 0.369, True)
    >>> table = {"repaid": y, "decision": copies, "sex": z}
    >>> b = audit(table, target="repaid", prediction="decision", sensitive_features="sex")
    >>> b.eo_gap == a.eo_gap
    True
    """
    roles = named_roles(y_true, y_pred, target, prediction, sensitive_features, sample_weight)
    if roles is None:
        rows = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        table = count_table(y_true, y_pred, labels=labels, **rows)
    else:
        y, z, pred, weight = roles
        table = count_rows(y_true, y=y, z=z, pred=pred, weight=weight, labels=labels)
    columns = _group_names(roles, sensitive_features)
    result = Audit.from_table(table, confidence, random_state, guarantee=guarantee, composition=composition)
    return replace(result, sensitive_columns=columns)


def audit_score(
    y_true: Any,
    score: Any = None,
    *,
    sensitive_features: Any,
    target: str | None = None,
    prediction: str | None = None,
    sample_weight: Any = None,
    bins: int = 20,
    confidence: float = 0.95,
    guarantee: str = "finite-sample",
    composition: str | None = None,
    random_state: int = 0,
) -> ScoreAudit:
    """Does this score treat the groups differently at any threshold, and how sure are we?

    Only the order of the scores matters: probabilities, logits and ranks give the same audit.
    Up to a million rows every distinct score counts. Beyond that, the engine counts a histogram
    with 16,384 bins of equal width; `gap_upper` also covers the thresholds inside the bins.

    Args:
        y_true: true labels, two of them, the second in sorted order is the positive one; or a
            table, as in `audit`.
        score: one number per row; a larger one favours the second label. With a table the name of
            its column, as in `limit`.
        sensitive_features: groups, as in `audit`.
        target, prediction: of a table: the columns of true labels and of the score; as in `audit`.
        sample_weight: a weight per row; of a table: its column.
        bins: quantile bins of the score in which v = I(S; Z | Y) is counted. Equal scores stay
            together, so a score with few values gets fewer bins.
        confidence: of the interval and of the bounds.
        guarantee, composition: of the bound on v, as in `audit`.
        random_state: seed of the shuffles.

    Returns:
        A `ScoreAudit`: print it, or read `gap`, `gap_upper`, `violation`, `auroc_by_group`, …

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 4_000))
    >>> s = audit_score(y, rng.normal(size=4_000) + 2 * y + 0.5 * z, sensitive_features=z)
    >>> round(s.gap, 2), s.gap_floor < 0.05 < s.gap < s.gap_upper
    (0.14, True)
    """
    if isinstance(score, str) and target is not None and prediction is None:
        score, prediction = None, score
    roles = named_roles(y_true, score, target, prediction, sensitive_features, sample_weight, array="score")
    if roles is None:
        table = count_scores(y_true, score, sensitive_features=sensitive_features, sample_weight=sample_weight)
    else:
        y, z, column, weight = roles
        table = count_score_rows(y_true, y=y, z=z, score=column, weight=weight)
    columns = _group_names(roles, sensitive_features)
    result = ScoreAudit.from_table(table, bins, confidence, random_state, guarantee=guarantee, composition=composition)
    return replace(result, sensitive_columns=columns)


def audit_regression(
    y_true: Any,
    y_pred: Any = None,
    *,
    sensitive_features: Any,
    target: str | None = None,
    prediction: str | None = None,
    sample_weight: Any = None,
    numeric_target: bool = True,
    numeric_sensitive: bool = False,
    confidence: float = 0.95,
    random_state: int = 0,
) -> ContinuousAudit:
    """Do predictions of a number, or with a numeric attribute, treat the groups differently?

    Args:
        y_true: true outcomes, numbers; or a table, as in `audit`, whose rows come into memory.
        y_pred: one number per row. Not with a table.
        sensitive_features: groups, as in `audit`, or one column of numbers.
        target, prediction: of a table: the columns of outcomes and of predictions.
        sample_weight: a weight per row; of a table: its column.
        numeric_target: False where the outcome is a label and only the attribute is a number.
        numeric_sensitive: whether the attribute is a number, such as age.
        confidence: of the bound and of the intervals.
        random_state: seed of the shuffles.

    Returns:
        A `ContinuousAudit`: print it, or read `violation_lower`, `p_value`, `by_group`, …

    >>> rng = np.random.default_rng(0)
    >>> z, ability = rng.integers(0, 2, 4_000), rng.normal(size=4_000)
    >>> wage = ability + rng.normal(size=4_000)
    >>> audit_regression(wage, ability + 0.5 * z, sensitive_features=z).violation_lower > 0.01
    True
    """
    one_of(numeric_target, "numeric_target", True, False)
    one_of(numeric_sensitive, "numeric_sensitive", True, False)
    if not (numeric_target or numeric_sensitive):
        raise InputError("Labels and groups have `audit`; here one of them must be a number.")
    roles = named_roles(y_true, y_pred, target, prediction, sensitive_features, sample_weight)
    names = "y_true", "sensitive_features", "y_pred"
    columns = () if numeric_sensitive else _group_names(roles, sensitive_features)
    if roles is not None:
        names = roles.words
        y_true, y_pred, sensitive_features, sample_weight = whole_columns(y_true, roles)
    rows = quantities(
        y_true,
        y_pred,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        target="continuous" if numeric_target else "labels",
        sensitive="continuous" if numeric_sensitive else "groups",
        names=names,
    )
    return replace(ContinuousAudit.from_rows(rows, confidence, random_state), sensitive_columns=columns)


def _group_names(roles: Roles | None, groups: Any) -> tuple[str, ...]:
    """The names of the columns of groups; none where an array has no name."""
    if roles is not None:
        return tuple(roles.groups)
    names = () if isinstance(groups, Coded) else tuple(group_columns(groups))
    return () if any(name.startswith("sensitive_features") for name in names) else names


def violation_score(
    y_true: ArrayLike, y_pred: ArrayLike, *, sensitive_features: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Plug-in v = I(U; Z | Y) as a metric function of scikit-learn scorers and MetricFrame.

    Lower is better. Zero if there is one group only.

    >>> violation_score([0, 0, 1, 1], [0, 1, 1, 1], sensitive_features=["f", "m", "f", "m"])
    0.34657359027997264
    """
    table = count_table(y_true, y_pred, sensitive_features=sensitive_features, sample_weight=sample_weight)
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
    table = count_table(y_true, y_pred, sensitive_features=groups, sample_weight=sample_weight)
    return float(information.mutual_information(table.counts))
