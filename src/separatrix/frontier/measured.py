"""The predictor behind a point of a frontier.

What is shipped is the procedure run on all rows. With a finite-sample confidence it is that of fold
0, which did not see the rows of fold 0, and these rows certify it. The fold is fixed beforehand,
since the confidence would not cover a choice among folds.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.auditing.result import Audit
from separatrix.core.counts import CountTable
from separatrix.frontier.base_models import JOINT, KEPT, LABELS, WITHOUT
from separatrix.frontier.operating_point import OperatingPoint
from separatrix.frontier.sweep.keys import ALL_ROWS, PointKey
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained import Mixture
from separatrix.optimum.plain import DrawnLabel, PlainRule
from separatrix.predictor.branch import Base, Branch, policy_rule
from separatrix.predictor.predictor import Predictor
from separatrix.procedure.measuring import Measured

__all__ = [
    "CERTIFIED",
    "held_out_audit",
    "held_out_table",
    "model_of",
    "procedure_predictor",
    "trained_predictor",
]

CERTIFIED = KEPT  # the fold whose rows certify
_AUDIT = (
    "rows", "violation", "violation_corrected", "violation_interval", "violation_upper", "p_value",
    "utility", "eo_gap", "accuracy",
)  # fmt: skip


def procedure_predictor(
    frontier: Traced, point: OperatingPoint, found: Measured, kind: str, k: int | None = None
) -> Predictor:
    """The predictor of a rule around the base model: of all rows, or of the outer fold k."""
    reads = {LABELS: frontier.manifest["base"]["reads"], WITHOUT: "x", JOINT: "joint"}[kind]
    solved = found.is_score or isinstance(found.rule, PlainRule)
    branch = Branch(
        Base(frontier.base_model(kind, k), reads), found.rule if solved else found.rule.rule
    )
    return Predictor(
        labels=frontier.labels,
        groups=frontier.groups,
        branches=(branch,),
        preprocessing=frontier.preprocessing() if frontier.sees_groups else None,
        grouping=frontier.grouping if branch.uses_groups else None,
        about=_about(frontier, point, k),
    )


def trained_predictor(frontier: Traced, point: OperatingPoint, mixture: Mixture) -> Predictor:
    """The predictor of a trained point, or of a revealed mixture of two, trained on all rows."""
    branches = tuple(_branch(frontier, one.key) for one in mixture.points)
    return _predictor(frontier, ALL_ROWS, branches, mixture.weights, _about(frontier, point))


def _about(frontier: Traced, point: OperatingPoint, k: int | None = None) -> dict[str, Any]:
    """What is known about a point, for its card."""
    without = "" if k is None else f" but those of fold {k}, which certify it"
    audit = None if point.audit is None else point.audit.to_dict()
    return {
        "choice": point.to_dict(),
        "audit": {name: audit[name] for name in _AUDIT if name in audit} if audit else {},
        "card": frontier.manifest["card"],
        "base": frontier.manifest["base"]["note"],
        "trained on": f"all rows{without}",
    }


def model_of(
    frontier: Traced, method: str, trade_off: float, *, inputs: str = "xz", fold: int = ALL_ROWS
) -> Predictor:
    """The model behind one point of a frontier: of one fold, or of all rows."""
    saved, lane = frontier.saved_run(method, trade_off, inputs=inputs, fold=fold)
    base = Base.from_lane(method.partition(":")[0], trade_off, saved.fitted(), lane)
    about = {"run": asdict(saved.runs[lane]), "card": frontier.manifest["card"]}
    return _predictor(frontier, fold, (Branch(base, DrawnLabel()),), (1.0,), about)


def _predictor(
    frontier: Traced,
    fold: int,
    branches: tuple[Branch, ...],
    weights: tuple[float, ...],
    about: dict[str, Any],
) -> Predictor:
    prepared = frontier.preprocessing(fold)
    return Predictor(
        labels=frontier.labels,
        groups=frontier.groups,
        branches=branches,
        weights=weights,
        preprocessing=prepared,
        features=() if prepared is not None else tuple(frontier.manifest["features"]),
        grouping=frontier.grouping,
        about=about,
    )


def _branch(frontier: Traced, key: PointKey) -> Branch:
    """The model of a point, with the threshold that it found on its own training rows."""
    method, inputs, recipe, trade_off, policy = key
    saved, lane = frontier.saved_run(f"{method}:{recipe}", trade_off, inputs=inputs)
    cut = np.nan
    if policy == "deterministic":
        cut = frontier.results.final[method, inputs, recipe, trade_off]
    base = Base.from_lane(method, trade_off, saved.fitted(), lane)
    return Branch(base, policy_rule(policy, len(frontier.labels), cut))


def held_out_table(
    frontier: Traced, counts: NDArray[np.float64], squares: NDArray[np.float64]
) -> CountTable:
    """Counts of drawn decisions with their second moments.

    Two labels: these follow from the squares, since (q + 1 − q)² = 1. More: those of hard
    decisions are taken, which are larger, so bounds err on the wide side.
    """
    k = counts.shape[-1]
    moments = counts[..., None] * np.eye(k)
    if k == 2:
        moments[..., 0, 0], moments[..., 1, 1] = squares[..., 0], squares[..., 1]
        moments[..., 0, 1] = moments[..., 1, 0] = 0.5 * (counts.sum(-1) - squares.sum(-1))
    names = frontier.labels, frontier.groups, frontier.labels
    rows = round(float(counts.sum()))
    return CountTable(counts, *names, rows=rows, moments=moments).simplest()


def held_out_audit(
    frontier: Traced, tables: NDArray[np.float64], squares: NDArray[np.float64]
) -> Audit | None:
    """The audit of all rows' held-out decisions; None for a single label or group."""
    if min(tables.shape[-3:-1]) < 2:
        return None
    return Audit.of(held_out_table(frontier, tables.sum(0), squares.sum(0)))
