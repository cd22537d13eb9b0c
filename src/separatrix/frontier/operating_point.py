"""OperatingPoint: what will be shipped, what it promises, what must be said, and its predictor.

What is shipped is the procedure run on all rows. With a finite-sample confidence it is that of fold
0, which did not see the rows of fold 0, and these rows certify it. The fold is fixed beforehand,
since the confidence would not cover a choice among folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.auditing.result import Audit
from separatrix.columns.groups import group_name
from separatrix.core.measures import CRITERIA, METRICS, label_of
from separatrix.crossfit.base_models import Base
from separatrix.frontier.base_models import JOINT, KEPT, LABELS, WITHOUT
from separatrix.frontier.results import held_out_table
from separatrix.frontier.store import ALL_ROWS
from separatrix.frontier.trained import Trained, held_out_law
from separatrix.optimum.rules import DrawnLabel, PlainRule
from separatrix.predictor.predictor import Branch, Predictor, policy_rule
from separatrix.procedure.candidates import coin_share
from separatrix.procedure.promise import Measured, Promise, PromiseTable, hardly_decides, is_constant
from separatrix.procedure.request import Request
from separatrix.report import words

if TYPE_CHECKING:
    from separatrix.frontier.frontier import Frontier

Array = NDArray[np.float64]
_ORDER = ("accuracy", "balanced_accuracy", "cost", "auroc", "eo_gap", "violation", "utility")


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """A chosen procedure.

    Args:
        frontier: what it was chosen from.
        question: what was asked.
        name: what ships, in words.
        measured: what was measured: a procedure around the base model, or trained points.
        kind: the scores of the base model that it reads.
        sentence: why this one, in the user's terms.
        notes: what must be said: a constant, a budget that folds could not keep, …
        fold: the outer fold whose rule ships, and whose rows certify it; None for all rows.
        promise: what `predictor` will show on unseen rows: estimate and standard error by metric,
            measured by running the same procedure on the training rows of every outer fold.
    """

    frontier: Frontier = field(repr=False)
    question: Request
    name: str
    measured: Measured | Trained = field(repr=False)
    kind: str = LABELS
    sentence: str = ""
    notes: tuple[str, ...] = ()
    fold: int | None = None
    promise: Mapping[str, Promise] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Promise nothing about criteria that were not asked for: of their gaps six of twenty were
        outside two errors on public tables.
        """
        asked = ("separation", self.question.criterion)
        promises = self.promise or self.measured.promise
        asked_for = [name for name in promises if name not in METRICS or METRICS[name].criterion in ("", *asked)]
        object.__setattr__(self, "promise", PromiseTable({name: promises[name] for name in asked_for}))

    @cached_property
    def predictor(self) -> Predictor:
        """What to ship: the same procedure, run on all rows."""
        return (
            _of_trained(self, self.measured)
            if isinstance(self.measured, Trained)
            else _of_procedure(self, self.measured)
        )

    def save(self, folder: str | Path) -> Path:
        """Write what ships as a folder without pickle; `separatrix.load(folder)` reads it."""
        return Path(self.predictor.save(folder))

    @property
    def is_score(self) -> bool:
        """Whether it ships a score rather than decisions."""
        return self.measured.is_score

    @property
    def mixture(self) -> Trained | None:
        """Of trained points, where one or two of them were chosen."""
        return self.measured if isinstance(self.measured, Trained) else None

    @property
    def tables(self) -> Array:
        """Expected counts N[y, z, u] of each fold's test rows; of a score's levels likewise."""
        return self.measured.tables

    @cached_property
    def decided(self) -> Array:
        """Counts (folds, y, z, u) of what ships itself where they are known, else of the folds."""
        if isinstance(self.measured, Trained) or self.is_score or self.question.confidence is not None:
            return self.tables
        return self.frontier.run(self.kind, self.measured.procedure).shipped(self.measured.rule)

    @cached_property
    def audit(self) -> Audit | None:
        """Of the decisions on rows that they were not fitted to; None for a score, or with a confidence."""
        if self.is_score or self.question.confidence is not None:
            return None
        return held_out_audit(self.frontier, self.measured.tables, self.measured.squares)

    @cached_property
    def coin(self) -> float:
        """Share of people whose decision a coin makes."""
        if isinstance(self.measured, Trained):
            return coin_share(held_out_law(self.frontier, self.measured))
        return 0.0 if self.measured.laws is None else coin_share(self.measured.laws)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the manifest, the card and JSON."""
        always, share = words.majority(self.tables, self.frontier.labels)
        return {
            "asked": str(self.question),
            "budgets": dict(self.question.budgets),
            "model": self.name,
            "why": self.sentence,
            "promise": {name: list(promised) for name, promised in self.promise.items()},
            "majority": {"label": always, "share": share},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = words.wrapped(self.sentence) if self.sentence else []
        lines += words.wrapped(f"{self.question}: {self.name}.")
        for note in self.notes:
            lines += words.wrapped(f"! {note}")
        if not self.is_score:
            f = self.frontier
            said = words.recognised(self.tables.sum(0), f.labels, f.groups, f.sensitive)
            lines += words.wrapped(f"Recognised: {said}.")
            if self.coin > 0:
                lines += words.wrapped(f"A coin decides {self.coin:.1%} of people.".replace("%", " %"))
        lines.append("On unseen rows (estimate ± standard error over outer folds):")
        shown_rows = self._told()
        for name, value, more in shown_rows:
            lines.append(f"  {name:18}{value}{f'   ({more})' if more else ''}")
        if any(value.startswith("below") for _, value, _ in shown_rows):
            lines.append("  below: two standard errors; with so few rows it may as well be zero")
        return "\n".join(lines)

    def _told(self) -> list[tuple[str, str, str]]:
        """Each promised metric in words, with what to compare it with."""
        always, share = words.majority(self.tables, self.frontier.labels)
        beside = {"accuracy": f"always {always!r}: {share:.4f}"}
        if self.is_score:
            beside["eo_gap"] = "the largest over all thresholds"
        for name, most in self.question.budgets.items():
            low, high = self.promise[name][2:]
            asked = f"asked {most:g}, 95 % range {low:.2g} – {high:.2g}"
            beside[name] = "; ".join([asked, beside[name]] if name in beside else [asked])
        kind = CRITERIA[self.question.criterion]
        of_criterion = () if kind.name == "separation" else (kind.gap_name, kind.name)
        first, *rest = [name for name in _ORDER if name in self.promise]
        shown = [first, *(name for name in of_criterion if name in self.promise), *rest]
        return [(label_of(name), words.estimate_text(name, self.promise[name]), beside.get(name, "")) for name in shown]

    def _repr_html_(self) -> str:
        said = [f"{self.question}: {self.name}.", *(f"! {note}" for note in self.notes)]
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._told())
        return "".join(f"<p>{escape(text)}</p>" for text in said) + f"<table>{rows}</table>"


def with_warnings(point: OperatingPoint) -> OperatingPoint:
    """The point with a sentence for each part of its decisions that decides nothing."""
    notes, labels = list(point.notes), list(map(str, point.frontier.labels))
    rows = point.tables.sum((0, 2, 3)) / point.tables.sum()
    if said := hardly_decides(point.decided.sum((0, 1, 2)), rows, point.frontier.labels):
        notes.append(said)
    for name, most in point.question.budgets.items():
        promised = point.promise[name]
        if promised.value - promised.error > most:
            shown = f"{label_of(name)} {promised.value:.4f} ± {promised.error:.2g}"
            notes.append(f"Unseen rows are expected to show {shown}, more than the {most:g} asked.")
    for z, group in enumerate(() if point.is_score else point.frontier.groups):
        counts = point.decided[:, :, [z]]
        label = is_constant(counts) if counts.sum() > 0 else None
        if label is not None:
            named = group_name(group, point.frontier.sensitive)
            notes.append(f"Everybody of the group {named!r} gets {labels[label]!r}.")
    parts = () if point.mixture is None else zip(point.mixture.weights, point.mixture.points, strict=True)
    for weight, component in parts:
        label = is_constant(component.tables)
        if label is not None and weight < 1:
            only = words.constant_text(labels[label], rows[label])
            notes.append(f"One branch, drawn for {weight:.0%} of the decisions, is {only}.")
    return replace(point, notes=tuple(notes))


CERTIFIED = KEPT  # the fold whose rows certify
_AUDIT = (
    "rows", "violation", "violation_corrected", "violation_interval", "violation_upper", "p_value",
    "utility", "eo_gap", "accuracy",
)  # fmt: skip


def _of_procedure(point: OperatingPoint, measured: Measured) -> Predictor:
    """The predictor of a rule around the base model: of all rows, or of the outer fold that certifies."""
    frontier = point.frontier
    reads = {LABELS: frontier.manifest["base"]["reads"], WITHOUT: "x", JOINT: "joint"}[point.kind]
    solved = measured.is_score or isinstance(measured.rule, PlainRule)
    left_out = () if point.kind == LABELS else frontier.left_out
    base = Base(frontier.base(point.kind).model(point.fold), reads, left_out)
    branch = Branch(base, measured.rule if solved else measured.rule.rule)
    return Predictor(
        labels=frontier.labels,
        groups=frontier.groups,
        branches=(branch,),
        preprocessing=frontier.preprocessing() if frontier.sees_groups else None,
        grouping=frontier.grouping if branch.uses_groups else None,
        about=_about(point),
    )


def _of_trained(point: OperatingPoint, mixture: Trained) -> Predictor:
    """The predictor of a trained point, or of a revealed mixture of two, trained on all rows."""
    frontier, branches = point.frontier, []
    for component in mixture.points:
        method, inputs, recipe, trade_off, policy = component.key
        saved, lane = frontier.saved_run(f"{method}:{recipe}", trade_off, inputs=inputs)
        # the threshold that the model of all rows found on its own training rows
        cut = frontier.results.final[component.key[:4]] if policy == "deterministic" else np.nan
        rule = policy_rule(policy, len(frontier.labels), cut)
        branches.append(Branch(Base.from_lane(method, trade_off, saved.fitted(), lane), rule))
    return _predictor(frontier, ALL_ROWS, tuple(branches), mixture.weights, _about(point))


def model_of(frontier: Frontier, method: str, trade_off: float, inputs: str, fold: int) -> Predictor:
    """The model behind one point of a frontier: of one fold, or of all rows."""
    saved, lane = frontier.saved_run(method, trade_off, inputs=inputs, fold=fold)
    base = Base.from_lane(method.partition(":")[0], trade_off, saved.fitted(), lane)
    about = {"run": asdict(saved.runs[lane]), "card": frontier.manifest["card"]}
    return _predictor(frontier, fold, (Branch(base, DrawnLabel()),), (1.0,), about)


def _predictor(
    frontier: Frontier, fold: int, branches: tuple[Branch, ...], weights: tuple[float, ...], about: dict[str, Any]
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


def _about(point: OperatingPoint) -> dict[str, Any]:
    """What is known about a point, for its card."""
    manifest = point.frontier.manifest
    without = "" if point.fold is None else f" but those of fold {point.fold}, which certify it"
    audit = {} if point.audit is None else point.audit.to_dict()
    return {
        "choice": point.to_dict(),
        "audit": {name: audit[name] for name in _AUDIT if name in audit},
        "card": manifest["card"],
        "base": manifest["base"]["note"],
        "trained on": f"all rows{without}",
    }


def held_out_audit(frontier: Frontier, tables: NDArray[np.float64], squares: NDArray[np.float64]) -> Audit | None:
    """The audit of all rows' held-out decisions; None for a single label or group."""
    if min(tables.shape[-3:-1]) < 2:
        return None
    return Audit.from_table(held_out_table(frontier.labels, frontier.groups, tables.sum(0), squares.sum(0)))
