"""What rows that were set aside show of decisions and scores, and whether a promise held there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import separatrix as sx
from separatrix.columns.counting import soft_sums
from separatrix.core import score_tables
from separatrix.core.measures import table_measures
from separatrix.procedure.promise import mean_cost, unseen_score
from separatrix.statistics.unseen import unseen

Array = NDArray[np.float64]


def distribution(point: Any, X: Any, z: Any) -> Array:
    """P(U | row) of what ships; of a score the distribution over its levels, 100 at most."""
    if not point.is_score:
        return np.asarray(point.predictor.predict_proba(X, sensitive_features=z))
    q = point.predictor.branch_proba(X, np.asarray(z))[0]
    return score_tables.merged(q, q.mean(0), 100)


def shown_by(q: Array, y: Any, z: Any, shape: tuple[int, int], aim: Any = "") -> dict[str, Any]:
    """Metric → (value, error) on these rows, their own noise taken out as a promise does it.

    Args:
        q: P(U | row), (n, K).
        y, z: codes.
        shape: how many labels and groups.
        aim: what was maximised: "auroc" for scores, a `Cost` is measured too.
    """
    table, moments = soft_sums(q, y, z, shape)
    assert moments is not None
    if aim == "auroc":
        return dict(unseen_score(table[None], moments[None]))
    measures: dict[str, Any] = {**table_measures()}
    if isinstance(aim, sx.Cost):
        costs = aim.per_group(tuple(range(shape[1])))
        measures["cost"] = lambda tables: mean_cost(costs, tables)
    square = np.diagonal(moments, axis1=-2, axis2=-1)
    return dict(unseen(table[None], square[None], measures))


def held(promised: Sequence[float], shown: Sequence[float]) -> bool:
    """Within two joint standard errors; both are (value, error)."""
    error = float(np.hypot(promised[1], shown[1]))
    return abs(promised[0] - shown[0]) <= 2.0 * error + 1e-9
