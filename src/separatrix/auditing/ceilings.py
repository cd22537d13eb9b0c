"""Values that an audit may not exceed, for a pipeline that must stop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from separatrix.auditing.base import named_cells
from separatrix.auditing.continuous import ContinuousAudit
from separatrix.auditing.result import Audit
from separatrix.auditing.scores import ScoreAudit
from separatrix.core.counts import suggestion
from separatrix.core.measures import METRICS
from separatrix.errors import InputError
from separatrix.statistics.gaps import unseen_cells

_VIOLATION = "violation", "violation_corrected", "violation_upper"
_BUDGETS = [m for m in METRICS.values() if m.criterion and m.needs == "table"]
FLOOR_NAMES = tuple(m.name for m in _BUDGETS if not m.lower_is_better)
# 1 − impact ratio is gated by the ratio itself, from below
_MAXIMA = [m.name for m in _BUDGETS if m.lower_is_better and not m.relative]
_MORE = "eo_gap_upper", "ppv_gap", "npv_gap", "auditor_bound"
DECISION_NAMES = tuple(dict.fromkeys((*_VIOLATION, *_MAXIMA, *_MORE)))
_OF_SCORES = "independence", "sufficiency", "parity_gap", "calibration_gap", "gap", "gap_upper"
SCORE_NAMES = *_VIOLATION, *_OF_SCORES
CONTINUOUS_NAMES = "violation_at_resolution", "violation_lower", "rmse"
# the labels, or the predictions, whose rates a gap compares
_LABELS = dict.fromkeys(("eo_gap", "eo_max", "gap"), slice(None))
_LABELS |= {"fpr_gap": slice(0, 1), "tpr_gap": slice(-1, None)}
_PREDICTIONS = {"predictive_gap": slice(None), "npv_gap": slice(0, 1), "ppv_gap": slice(1, 2)}


def parse_ceilings(texts: Sequence[str], names: Sequence[str], option: str = "--fail-above") -> dict[str, float]:
    """`NAME=VALUE` texts as a mapping; the strictest value counts where a name comes twice.

    >>> parse_ceilings(["eo_gap=0.05", "violation=1e-3"], DECISION_NAMES)
    {'eo_gap': 0.05, 'violation': 0.001}
    """
    ceilings: dict[str, float] = {}
    strictest = max if option == "--fail-below" else min
    for text in texts:
        name, _, number = text.partition("=")
        name = name.strip()
        if name not in names:
            other = " It is a minimum: pass it to --fail-below." if name in FLOOR_NAMES else ""
            near = suggestion(name, names) or f"There are {', '.join(names)}."
            said = other or f" {near}"
            raise InputError(f"{option} knows no value {name!r}.{said} Write NAME=VALUE, such as {names[0]}=0.05.")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not np.isfinite(value):
            raise InputError(f"{option} {text!r} needs a number after '=', such as {name}=0.05.")
        ceilings[name] = strictest(value, ceilings.get(name, value))
    return ceilings


def exceeded(
    audit: Audit | ScoreAudit | ContinuousAudit, ceilings: dict[str, float], floors: dict[str, float] | None = None
) -> str:
    """One sentence that names what is too large or too small; empty where nothing is.

    >>> from separatrix import audit
    >>> a = audit([0, 1] * 50, [0, 0] * 50, sensitive_features=[0, 0, 1, 1] * 25)
    >>> exceeded(a, {"eo_gap": 0.1})
    ''
    """
    values = {name: value_of(audit, name) for name in (*ceilings, *(floors or {}))}
    said = [f"{n} is {values[n]:.6g}, above {x:g}" for n, x in ceilings.items() if values[n] > x]
    said += [f"{n} is {values[n]:.6g}, below {x:g}" for n, x in (floors or {}).items() if values[n] < x]
    if said:
        return "; ".join(said) + "."
    for name in ceilings:
        _refuse_unknown(audit, name, values[name])
    return ""


def _refuse_unknown(audit: Audit | ScoreAudit | ContinuousAudit, name: str, value: float) -> None:
    """Refuse to pass a gap of rates that no row shows: it may be anything."""
    known = _LABELS.get(name, _PREDICTIONS.get(name))
    if isinstance(audit, ContinuousAudit) or known is None:
        return
    counts, levels = audit.table.counts, audit.table.labels
    if name in _PREDICTIONS:
        counts, levels = counts.swapaxes(0, 2), audit.table.predictions
    unseen = unseen_cells(counts[known], counts.sum((0, 2)) > 0)
    if np.isnan(value) or unseen.any():
        cells = named_cells(levels[known], audit.table.groups, np.argwhere(unseen).tolist())
        raise InputError(
            f"{name} cannot be judged: {cells or 'a group'} has no rows, so its rate may be anything. Set a ceiling "
            "for eo_gap_upper (of a score: gap_upper), which allows for that."
        )


def value_of(audit: Audit | ScoreAudit | ContinuousAudit, name: str) -> float:
    """A value of the audit, or of one of its criteria; NaN where no row tells."""
    needs, known = "a numeric outcome", {}
    if not isinstance(audit, ContinuousAudit):
        needs = "two labels and two predictions"
        known = {criterion: dependence.value for criterion, dependence in audit.criteria.items()}
        for dependence in audit.criteria.values():
            known |= {gap: np.nan if x.value is None else x.value for gap, x in dependence.gaps.items()}
    value = known.get(name, getattr(audit, name, None))
    if value is None:
        raise InputError(f"This audit has no {name}: it needs {needs}.")
    return float(value)
