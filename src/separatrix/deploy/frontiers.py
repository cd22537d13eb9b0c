"""The candidates of a traced frontier, and the predictor behind an option.

By fold means, what is shipped is the model trained on all rows. With a confidence it is the model
of fold 0, which did not see the rows of fold 0, and these rows are its hold-out. The fold is fixed
beforehand, since the confidence would not cover a choice among folds.
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
from separatrix.deploy.points import Candidate, Option, Selection
from separatrix.deploy.predictor import Component, Predictor
from separatrix.errors import InputError
from separatrix.runs.keys import ALL_ROWS
from separatrix.runs.tidy import select
from separatrix.runs.traced import Traced

__all__ = ["candidates_of", "model_of", "predictor_of"]

CERTIFIED = 0  # the fold whose rows certify
_AUDIT = (
    "rows", "violation", "violation_corrected", "violation_interval", "violation_upper", "p_value",
    "utility", "eo_gap", "accuracy",
)  # fmt: skip


def candidates_of(
    frontier: Traced, method: str | Sequence[str] | None = None, certified: bool = False
) -> list[Candidate]:
    """Every point whose folds all trained, with its hold-out table where one is needed."""
    columns = frontier.columns
    fold = CERTIFIED if certified else ALL_ROWS
    firsts = [saved.first for saved in frontier.results.saved]
    saved = {(first.method, first.inputs) for first in firsts if first.fold == fold}
    wanted = None if method is None else {method} if isinstance(method, str) else set(method)
    names = ("method", "inputs", "trade_off", "policy")
    grouped: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*(columns[name].tolist() for name in names), strict=True)):
        if key[:2] in saved and (wanted is None or key[0] in wanted):
            grouped.setdefault(key, []).append(i)
    candidates = []
    for (name, inputs, trade_off, policy), rows in grouped.items():
        if all(columns["status"][i] == "ok" for i in rows):
            tables, auroc = np.stack([*columns["counts"][rows]]), columns["auroc"][rows]
            path, more = (name, inputs), {"auroc": auroc}
            strict = methods.strict_end(name)
            one = Candidate(path, trade_off, policy, tables, more, strict=strict)
            held = _hold_out(frontier, one, rows) if certified else None
            candidates.append(replace(one, hold_out=held))
    if not candidates:
        named = f" of {', '.join(sorted(wanted))}" if wanted else ""
        raise InputError(
            f"The frontier has no trained point to choose from{named}: every one diverged, failed "
            "or was not kept."
        )
    return candidates


def _hold_out(frontier: Traced, candidate: Candidate, rows: Sequence[int]) -> CountTable:
    """The counts of fold 0's rows under fold 0's model."""
    if candidate.policy == "deterministic":
        here = next(i for i in rows if frontier.columns["fold"][i] == CERTIFIED)
        return _hard(frontier, np.asarray(frontier.columns["counts"][here], dtype=np.float64))
    return _soft(frontier, candidate, frontier.rows["fold"] == CERTIFIED)


def _hard(frontier: Traced, counts: NDArray[np.float64]) -> CountTable:
    """Counts of decisions, with the names of their axes."""
    labels, groups = frontier.labels, frontier.groups
    return CountTable(counts, labels, groups, labels, rows=round(counts.sum()))


def _soft(
    frontier: Traced, candidate: Candidate, rows: NDArray[np.bool_] | slice = slice(None)
) -> CountTable:
    """The counts of held-out posteriors."""
    method, inputs = _path(candidate)
    q = frontier.held_out(method, candidate.trade_off, inputs=inputs)[rows].astype(np.float64)
    y, z = frontier.rows["y"][rows], frontier.rows["z"][rows]
    return count_posteriors(
        Coded(y, frontier.labels),
        q / q.sum(1, keepdims=True),
        sensitive_features=Coded(z, frontier.groups),
        labels=frontier.labels,
    )


def predictor_of(frontier: Traced, selection: Selection, option: Option) -> Predictor:
    """The predictor of an option, with what is known about it for its card."""
    fold = ALL_ROWS if selection.confidence is None else CERTIFIED
    means = [(c.means["violation"], c.means["utility"]) for c in selection.candidates]
    audits = [_audit(frontier, component) for component in option.components]
    without = "" if fold == ALL_ROWS else f" but those of fold {fold}, which certify it"
    about = {
        "choice": selection.to_dict(),
        "audit": {f"branch {i}": audit for i, audit in enumerate(audits)},
        "options": {kind: one.to_dict() for kind, one in selection.options.items()},
        "points": means,
        "point": (option.means["violation"], option.means["utility"]),
        "card": frontier.manifest["card"],
        "trained on": f"all rows{without}",
    }
    components = tuple(_component(frontier, component, fold) for component in option.components)
    return _predictor(frontier, fold, components, option.weights, about)


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
    method, inputs = _path(candidate)
    saved, lane = frontier.saved_run(method, candidate.trade_off, inputs=inputs, fold=fold)
    policy, threshold = candidate.policy, None
    if policy == "deterministic":
        threshold = _threshold(frontier, candidate, fold)
    return Component.of(method, candidate.trade_off, policy, saved.fitted(), lane, threshold)


def _path(candidate: Candidate) -> tuple[str, str]:
    """Method and inputs of a candidate that `candidates_of` made."""
    assert isinstance(candidate.path, tuple)
    method, inputs = candidate.path
    return str(method), str(inputs)


def _threshold(frontier: Traced, candidate: Candidate, fold: int) -> float:
    """The fold's own threshold; the median of them for the model trained on all rows."""
    method, inputs = _path(candidate)
    named: dict[str, Any] = {"method": method, "inputs": inputs, "trade_off": candidate.trade_off}
    if fold != ALL_ROWS:
        named["fold"] = fold
    own = select(frontier.columns, policy="deterministic", **named)
    return float(np.median(own["threshold"]))


def _audit(frontier: Traced, candidate: Candidate) -> dict[str, Any]:
    """Audit of rows that did not train: each by its own fold's model, or those that certify."""
    if candidate.hold_out is not None:
        table = candidate.hold_out
    elif candidate.policy == "deterministic":
        table = _hard(frontier, candidate.tables.sum(0))
    else:
        table = _soft(frontier, candidate)
    found = Audit.of(table).to_dict()
    return {name: found[name] for name in _AUDIT if name in found}
