"""Values that an audit may not exceed, for a pipeline that must stop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from separatrix.auditing.base import named_cells
from separatrix.auditing.continuous import ContinuousAudit
from separatrix.auditing.result import Audit
from separatrix.auditing.scores import ScoreAudit
from separatrix.core.measures import METRICS
from separatrix.errors import InputError
from separatrix.statistics.gaps import unseen_cells

__all__ = [
    "CONTINUOUS_NAMES",
    "DECISION_NAMES",
    "FLOOR_NAMES",
    "SCORE_NAMES",
    "exceeded",
    "parse_ceilings",
    "value_of",
]

_VIOLATION = "violation", "violation_corrected", "violation_upper"
_OTHERS = "independence", "sufficiency"
_OF_TABLES = {n: m for n, m in METRICS.items() if m.criterion and m.needs == "table"}
FLOOR_NAMES = tuple(name for name, m in _OF_TABLES.items() if not m.lower_is_better)
DECISION_NAMES = tuple(
    dict.fromkeys(
        (
            *_VIOLATION,
            # 1 − impact ratio is gated by the ratio itself, from below
            *(name for name, m in _OF_TABLES.items() if m.lower_is_better and not m.relative),
            *("eo_gap_upper", "ppv_gap", "npv_gap", "auditor_bound"),
        )
    )
)
_OF_LABEL = {"tpr_gap": slice(-1, None), "fpr_gap": slice(0, 1)}  # gaps of one label
_OF_PREDICTION = {"ppv_gap": slice(1, 2), "npv_gap": slice(0, 1), "predictive_gap": slice(None)}
_RATES = {"eo_gap", "eo_max", "gap", *_OF_LABEL, *_OF_PREDICTION}
_BOUNDED = "eo_gap_upper (of a score: gap_upper), which allows for that"
CONTINUOUS_NAMES = "violation_at_resolution", "violation_lower", "rmse"
SCORE_NAMES = (*_VIOLATION, *_OTHERS, "parity_gap", "calibration_gap", "gap", "gap_upper")


def parse_ceilings(
    texts: Sequence[str], names: Sequence[str], option: str = "--fail-above"
) -> dict[str, float]:
    """`NAME=VALUE` texts as a mapping; the strictest value counts where a name comes twice.

    >>> parse_ceilings(["eo_gap=0.05", "violation=1e-3"], DECISION_NAMES)
    {'eo_gap': 0.05, 'violation': 0.001}
    """
    ceilings: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        name = name.strip()
        if name not in names:
            other = " It is a minimum: pass it to --fail-below." if name in FLOOR_NAMES else ""
            raise InputError(
                f"{option} knows no value {name!r}.{other} There are {', '.join(names)}. Write "
                f"NAME=VALUE, such as {names[0]}=0.05."
            )
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not np.isfinite(value):
            raise InputError(f"{option} {text!r} needs a number after '=', such as {name}=0.05.")
        strictest = max if option == "--fail-below" else min
        ceilings[name] = strictest(value, ceilings.get(name, value))
    return ceilings


def exceeded(
    audit: Audit | ScoreAudit | ContinuousAudit,
    ceilings: dict[str, float],
    floors: dict[str, float] | None = None,
) -> str:
    """One sentence that names what is too large or too small; empty where nothing is.

    >>> from separatrix import audit
    >>> a = audit([0, 1] * 50, [0, 0] * 50, sensitive_features=[0, 0, 1, 1] * 25)
    >>> exceeded(a, {"eo_gap": 0.1})
    ''
    """
    found = {name: value_of(audit, name) for name in ceilings}
    above = [
        f"{name} is {found[name]:.6g}, above {value:g}"
        for name, value in ceilings.items()
        if found[name] > value
    ]
    for name, least in (floors or {}).items():
        if (value := value_of(audit, name)) < least:
            above.append(f"{name} is {value:.6g}, below {least:g}")
    if not above:
        for name, value in found.items():
            _refuse_unknown(audit, name, value)
    return "; ".join(above) + "." if above else ""


def _refuse_unknown(audit: Audit | ScoreAudit | ContinuousAudit, name: str, value: float) -> None:
    """Refuse to pass a gap of rates that no row shows: it may be anything."""
    if isinstance(audit, ContinuousAudit) or name not in _RATES:
        return
    table, known = audit.table, slice(None)
    counts, levels = table.counts, table.labels
    if name in _OF_PREDICTION:
        counts, levels, known = counts.swapaxes(0, 2), table.predictions, _OF_PREDICTION[name]
    elif name in _OF_LABEL:
        known = _OF_LABEL[name]
    unseen = unseen_cells(counts[known], table.counts.sum((0, 2)) > 0)
    if np.isnan(value) or unseen.any():
        cells = named_cells(levels[known], table.groups, np.argwhere(unseen).tolist()) or "a group"
        raise InputError(
            f"{name} cannot be judged: {cells} has no rows, so its rate may be anything. Collect "
            f"such rows, or set a ceiling for {_BOUNDED}."
        )


def value_of(audit: Audit | ScoreAudit | ContinuousAudit, name: str) -> float:
    """A value of the audit, or of one of its criteria; NaN where no row tells."""
    if isinstance(audit, ContinuousAudit):
        if getattr(audit, name) is None:
            raise InputError(f"This audit has no {name}: it needs a numeric outcome.")
        return float(getattr(audit, name))
    if name in _OTHERS:
        return audit.criteria[name].value
    gaps = {gap: x.value for found in audit.criteria.values() for gap, x in found.gaps.items()}
    if name in gaps:
        value = gaps[name]
        return float("nan") if value is None else value
    if not hasattr(audit, name):
        raise InputError(f"This audit has no {name}: it needs two labels and two predictions.")
    return float(getattr(audit, name))
