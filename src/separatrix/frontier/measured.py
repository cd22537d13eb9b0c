"""The trained candidates of a frontier, and the predictor behind a point.

What is shipped is the procedure run on all rows. With a finite-sample confidence it is that of fold
0, which did not see the rows of fold 0, and these rows certify it. The fold is fixed beforehand,
since the confidence would not cover a choice among folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.auditing.result import Audit
from separatrix.columns.counting import count_posteriors
from separatrix.columns.values import Coded
from separatrix.core.counts import CountTable
from separatrix.errors import InputError
from separatrix.frontier.base_scores import JOINT, KEPT, LABELS, WITHOUT
from separatrix.frontier.operating_point import OperatingPoint
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.tidy import select
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained_points import Candidate, Selection
from separatrix.optimum.plain import PlainRule
from separatrix.predictor.component import Component
from separatrix.predictor.predictor import Predictor
from separatrix.predictor.wrapped import (
    Wrapped,
    WrappedBlind,
    WrappedBlindScore,
    WrappedPlain,
    WrappedScore,
)
from separatrix.procedure.measuring import Measured

__all__ = [
    "CERTIFIED",
    "candidates_of",
    "held_out_audit",
    "held_out_table",
    "model_of",
    "path_of",
    "procedure_predictor",
    "trained_predictor",
]

CERTIFIED = KEPT  # the fold whose rows certify
_AUDIT = (
    "rows", "violation", "violation_corrected", "violation_interval", "violation_upper", "p_value",
    "utility", "eo_gap", "accuracy",
)  # fmt: skip


def candidates_of(
    frontier: Traced,
    method: Sequence[str] | None = None,
    *,
    fold: int = ALL_ROWS,
    certify: Sequence[int] = (),
    blind: bool = False,
) -> list[Candidate]:
    """Every trained point whose folds all trained, with the rows that certify it.

    Args:
        frontier: what was traced.
        method: only points of these methods.
        fold: whose model ships.
        certify: the folds whose rows certify it.
        blind: only points that do not see the group.
    """
    columns = frontier.columns
    firsts = [saved.first for saved in frontier.results.saved]
    saved = {(f.method, f.inputs): f.recipe for f in firsts if f.fold == fold}
    wanted = None if method is None else set(method)
    names = ("method", "inputs", "trade_off", "policy")
    grouped: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*(columns[name].tolist() for name in names), strict=True)):
        sees = "x" if blind else key[1]
        own = saved.get(key[:2]) == columns["recipe"][i]  # not a rule around the base model
        if own and key[1] == sees and (wanted is None or key[0] in wanted):
            grouped.setdefault(key, []).append(i)
    candidates = []
    for (name, inputs, trade_off, policy), rows in grouped.items():
        if all(columns["status"][i] == "ok" for i in rows):
            tables, auroc = np.stack([*columns["counts"][rows]]), columns["auroc"][rows]
            path, more = (name, inputs), {"auroc": auroc}
            strict = methods.strict_end(name)
            one = Candidate(path, trade_off, policy, tables, more, strict=strict)
            held = tuple(_held_out(frontier, one, rows, k) for k in certify)
            candidates.append(replace(one, held_out=held))
    if not candidates and wanted:
        raise InputError(
            f"The frontier has no trained point of {', '.join(sorted(wanted))} to choose from: "
            "none was traced, or every one diverged or failed."
        )
    return candidates


def _held_out(frontier: Traced, candidate: Candidate, rows: Sequence[int], fold: int) -> CountTable:
    """The counts of a fold's rows under the fold's model."""
    if candidate.policy == "deterministic":
        here = next(i for i in rows if frontier.columns["fold"][i] == fold)
        return _hard(frontier, np.asarray(frontier.columns["counts"][here], dtype=np.float64))
    return _soft(frontier, candidate, frontier.rows["fold"] == fold)


def _hard(frontier: Traced, counts: NDArray[np.float64]) -> CountTable:
    """Counts of decisions, with the names of their axes."""
    labels, groups = frontier.labels, frontier.groups
    return CountTable(counts, labels, groups, labels, rows=round(counts.sum()))


def _soft(
    frontier: Traced, candidate: Candidate, rows: NDArray[np.bool_] | slice = slice(None)
) -> CountTable:
    """The counts of held-out posteriors."""
    method, inputs = path_of(candidate)
    q = frontier.held_out(method, candidate.trade_off, inputs=inputs)[rows].astype(np.float64)
    y, z = frontier.rows["y"][rows], frontier.rows["z"][rows]
    return count_posteriors(
        Coded(y, frontier.labels),
        q / q.sum(1, keepdims=True),
        sensitive_features=Coded(z, frontier.groups),
        labels=frontier.labels,
    )


def procedure_predictor(
    frontier: Traced, point: OperatingPoint, found: Measured, kind: str, k: int | None = None
) -> Predictor:
    """The predictor of a rule around the base model: of all rows, or of the outer fold k."""
    blind = kind == JOINT
    reads = {LABELS: frontier.manifest["base"]["reads"], WITHOUT: "x", JOINT: "joint"}[kind]
    rule = found.rule
    scores, rules = (WrappedScore, WrappedBlindScore), (Wrapped, WrappedBlind)
    wrap: Any = (scores if found.is_score else rules)[blind]
    if isinstance(rule, PlainRule):
        fitted: Any = WrappedPlain(rule)
        policy, uses_groups = "deterministic", reads == "xz"
    else:
        fitted = wrap(rule if found.is_score else rule.rule, 1)
        certain = (blind and found.is_score) or (not found.is_score and point.coin == 0.0)
        policy, uses_groups = "deterministic" if certain else "randomized", not blind
    level = next(iter(point.question.budgets.values()), 0.0)
    component = Component("postprocessing", level, policy, fitted, uses_groups=uses_groups)
    return Predictor(
        labels=frontier.labels,
        groups=frontier.groups,
        components=(component,),
        preprocessing=frontier.preprocessing() if frontier.sees_groups else None,
        grouping=frontier.grouping if uses_groups else None,
        bases=(frontier.base_model(kind, k),),
        reads=reads,
        about=_about(frontier, point, k),
    )


def trained_predictor(
    frontier: Traced, point: OperatingPoint, selection: Selection, fold: int = ALL_ROWS
) -> Predictor:
    """The predictor of the chosen trained point, or of a mixture of two."""
    option = selection.chosen
    components = tuple(_component(frontier, component, fold) for component in option.components)
    about = _about(frontier, point, None if fold == ALL_ROWS else fold)
    return _predictor(frontier, fold, components, option.weights, about)


def _about(frontier: Traced, point: OperatingPoint, k: int | None) -> dict[str, Any]:
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
    component = Component.of(method, trade_off, "randomized", saved.fitted(), lane)
    about = {"run": asdict(saved.runs[lane]), "card": frontier.manifest["card"]}
    return _predictor(frontier, fold, (component,), (1.0,), about)


def _predictor(
    frontier: Traced,
    fold: int,
    components: tuple[Component, ...],
    weights: tuple[float, ...],
    about: dict[str, Any],
) -> Predictor:
    prepared = frontier.preprocessing(fold)
    return Predictor(
        labels=frontier.labels,
        groups=frontier.groups,
        components=components,
        weights=weights,
        preprocessing=prepared,
        features=() if prepared is not None else tuple(frontier.manifest["features"]),
        grouping=frontier.grouping,
        about=about,
    )


def _component(frontier: Traced, candidate: Candidate, fold: int) -> Component:
    method, inputs = path_of(candidate)
    saved, lane = frontier.saved_run(method, candidate.trade_off, inputs=inputs, fold=fold)
    policy, threshold = candidate.policy, None
    if policy == "deterministic":
        threshold = _threshold(frontier, candidate, fold)
    return Component.of(method, candidate.trade_off, policy, saved.fitted(), lane, threshold)


def path_of(candidate: Candidate) -> tuple[str, str]:
    """Method and inputs of a candidate that `candidates_of` made."""
    assert isinstance(candidate.path, tuple)
    method, inputs = candidate.path
    return str(method), str(inputs)


def _threshold(frontier: Traced, candidate: Candidate, fold: int) -> float:
    """The threshold that the same model found on its own training rows."""
    method, inputs = path_of(candidate)
    if fold == ALL_ROWS:
        return frontier.results.final[method, inputs, candidate.trade_off]
    own = select(
        frontier.columns, policy="deterministic", method=method, inputs=inputs,
        trade_off=candidate.trade_off, fold=fold,
    )  # fmt: skip
    return float(own["threshold"][0])


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
