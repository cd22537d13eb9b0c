"""The candidates of a traced frontier, and the predictor behind an option.

By fold means, what is shipped is the model trained on all rows. With a confidence it is the model
of fold 0, which did not see the rows of fold 0, and these rows are its hold-out. The fold is fixed
beforehand: choosing it would be a choice too.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.auditing.result import Audit
from separatrix.core.counts import CountTable
from separatrix.datasets import Grouping, Preprocessing
from separatrix.deploy.choosing import select
from separatrix.deploy.points import Candidate, Metric, OperatingPoint, Option, Selection
from separatrix.deploy.predictor import Component, Predictor
from separatrix.errors import InputError

__all__ = ["Traced", "candidates_of", "operating_point"]

ALL_ROWS, CERTIFIED = -1, 0  # folds
_AUDIT = (
    "rows",
    "violation",
    "violation_corrected",
    "violation_interval",
    "violation_upper",
    "p_value",
    "utility",
    "eo_gap",
    "accuracy",
)


class Traced(Protocol):
    """What is asked of a frontier; `tracing.Frontier` is one."""

    manifest: dict[str, Any]

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]: ...
    @property
    def rows(self) -> Mapping[str, NDArray[Any]]: ...
    @property
    def labels(self) -> tuple[Hashable, ...]: ...
    @property
    def groups(self) -> tuple[Hashable, ...]: ...
    @property
    def kept(self) -> Sequence[Any]: ...
    @property
    def grouping(self) -> Grouping | None: ...
    def preprocessing(self, fold: int = ALL_ROWS) -> Preprocessing | None: ...
    def held_out(
        self, method: str, trade_off: float, *, inputs: str = "xz"
    ) -> NDArray[np.float32]: ...
    def model(
        self, method: str, trade_off: float, *, inputs: str = "xz", fold: int = ALL_ROWS
    ) -> Any: ...


def operating_point(
    frontier: Traced,
    *,
    max_violation: float | None = None,
    max_eo_gap: float | None = None,
    maximize: Metric = "utility",
    confidence: float | None = None,
    rule: str = "sequence",
    option: str | None = None,
    method: str | Sequence[str] | None = None,
) -> OperatingPoint:
    """`select` among the points of a frontier; the arguments are its, and `method` restricts the
    points.
    """
    candidates = candidates_of(frontier, method, certified=confidence is not None)
    chosen = select(
        candidates,
        max_violation=max_violation,
        max_eo_gap=max_eo_gap,
        maximize=maximize,
        confidence=confidence,
        rule=rule,
        option=option,
    )
    return OperatingPoint(chosen, lambda one: _build(frontier, chosen, one))


def candidates_of(
    frontier: Traced, method: str | Sequence[str] | None = None, certified: bool = False
) -> list[Candidate]:
    """Every point whose folds all trained, with its hold-out table where one is needed."""
    columns = frontier.columns
    wanted = None if method is None else {method} if isinstance(method, str) else set(method)
    kept = {
        (k.questions[0]["method"], k.questions[0]["inputs"], k.questions[0]["fold"])
        for k in frontier.kept
    }
    grouped: dict[tuple[Any, ...], list[int]] = {}
    for i in range(len(columns["method"])):
        if wanted is None or columns["method"][i] in wanted:
            key = tuple(columns[name][i] for name in ("method", "inputs", "trade_off", "policy"))
            grouped.setdefault(key, []).append(i)
    candidates = []
    for (name, inputs, trade_off, policy), rows in grouped.items():
        deployable = (name, inputs, CERTIFIED if certified else ALL_ROWS) in kept
        if deployable and all(columns["status"][i] == "ok" for i in rows):
            tables = np.stack([columns["counts"][i] for i in rows])
            hold_out = (
                _hold_out(frontier, str(name), str(inputs), float(trade_off), policy, rows)
                if certified
                else None
            )
            candidates.append(
                Candidate(
                    (str(name), str(inputs)),
                    float(trade_off),
                    str(policy),
                    tables,
                    {"auroc": columns["auroc"][rows]},
                    hold_out,
                )
            )
    if not candidates:
        raise InputError(
            "The frontier has no trained point to choose from"
            + (
                f" of {', '.join(sorted(wanted))}."
                if wanted
                else ": every one diverged, failed or was not kept."
            )
        )
    return candidates


def _hold_out(
    frontier: Traced, method: str, inputs: str, trade_off: float, policy: str, rows: Sequence[int]
) -> CountTable:
    """The counts of fold 0's rows under fold 0's model."""
    if policy == "deterministic":
        here = next(i for i in rows if frontier.columns["fold"][i] == CERTIFIED)
        counts = np.asarray(frontier.columns["counts"][here], dtype=np.float64)
        return CountTable(
            counts, frontier.labels, frontier.groups, frontier.labels, rows=round(counts.sum())
        )
    return _soft(frontier, method, inputs, trade_off, frontier.rows["fold"] == CERTIFIED)


def _soft(
    frontier: Traced,
    method: str,
    inputs: str,
    trade_off: float,
    rows: NDArray[np.bool_] | slice = slice(None),
) -> CountTable:
    """The counts of held-out posteriors."""
    q = frontier.held_out(method, trade_off, inputs=inputs)[rows].astype(np.float64)
    y, z = frontier.rows["y"][rows], frontier.rows["z"][rows]
    table = CountTable.from_posteriors(
        q / q.sum(1, keepdims=True), y, z, labels=range(len(frontier.labels))
    )
    groups = tuple(frontier.groups[int(code)] for code in table.groups)  # type: ignore[call-overload]
    return CountTable(
        table.counts, frontier.labels, groups, frontier.labels, table.rows, table.moments
    )


def _build(frontier: Traced, selection: Selection, option: Option) -> Predictor:
    fold = ALL_ROWS if selection.confidence is None else CERTIFIED
    prepared = frontier.preprocessing(fold)
    means = [(c.means["violation"], c.means["utility"]) for c in selection.candidates]
    about = {
        "choice": selection.to_dict(),
        "audit": {
            f"branch {i}": _audit(frontier, component, fold)
            for i, component in enumerate(option.components)
        },
        "options": {kind: one.to_dict() for kind, one in selection.options.items()},
        "points": means,
        "point": (option.means["violation"], option.means["utility"]),
        "card": frontier.manifest["card"],
        "trained on": "all rows"
        if fold == ALL_ROWS
        else f"all rows but those of fold {fold}, which certify it",
    }
    return Predictor(
        labels=frontier.labels,
        groups=frontier.groups,
        components=tuple(_component(frontier, component, fold) for component in option.components),
        weights=option.weights,
        preprocessing=prepared,
        features=() if prepared is not None else tuple(frontier.manifest["features"]),
        grouping=frontier.grouping,
        about=about,
    )


def _component(frontier: Traced, candidate: Candidate, fold: int) -> Component:
    method, inputs = _path(candidate)
    model = frontier.model(method, candidate.trade_off, inputs=inputs, fold=fold)
    fitted = methods.get(method).restore(model.arrays)
    threshold = float("nan")
    if candidate.policy == "deterministic":
        threshold = _threshold(frontier, candidate, fold)
    return Component.of(
        method, candidate.trade_off, candidate.policy, fitted, model.lane, threshold
    )


def _path(candidate: Candidate) -> tuple[str, str]:
    """Method and inputs of a candidate that `candidates_of` made."""
    assert isinstance(candidate.path, tuple)
    method, inputs = candidate.path
    return str(method), str(inputs)


def _threshold(frontier: Traced, candidate: Candidate, fold: int) -> float:
    """Fold's own threshold; of the model trained on all rows, which has no test rows, the median of
    the folds'.
    """
    columns, (method, inputs) = frontier.columns, _path(candidate)
    mine = (
        (columns["method"] == method)
        & (columns["inputs"] == inputs)
        & (columns["trade_off"] == candidate.trade_off)
        & (columns["policy"] == "deterministic")
    )
    if fold != ALL_ROWS:
        mine &= columns["fold"] == fold
    return float(np.median(columns["threshold"][mine]))


def _audit(frontier: Traced, candidate: Candidate, fold: int) -> dict[str, Any]:
    """The audit of rows that did not train: all of them, each by its own fold's model, or those
    that certify.
    """
    method, inputs = _path(candidate)
    if candidate.policy == "deterministic":
        held = candidate.hold_out
        counts = candidate.tables.sum(0) if held is None else np.asarray(held.counts)
        table = CountTable(
            counts, frontier.labels, frontier.groups, frontier.labels, rows=round(counts.sum())
        )
    elif fold == ALL_ROWS:
        table = _soft(frontier, method, inputs, candidate.trade_off)
    else:
        assert candidate.hold_out is not None
        table = candidate.hold_out
    found = Audit.of(table).to_dict()
    return {name: found[name] for name in _AUDIT if name in found}
