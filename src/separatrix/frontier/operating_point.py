"""OperatingPoint: what will be shipped, what it promises, what must be said, and its predictor.

What is shipped is the procedure run on all rows. With a finite-sample confidence it is that of fold
0, which did not see the rows of fold 0, and these rows certify it. The fold is fixed beforehand,
since the confidence would not cover a choice among folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.auditing.result import Audit
from separatrix.columns.groups import group_name
from separatrix.columns.values import Levels
from separatrix.core.counts import CountTable
from separatrix.core.measures import CRITERIA, METRICS, label_of
from separatrix.crossfit.base_models import Base
from separatrix.errors import InputError
from separatrix.frontier.base_models import JOINT, KEPT, LABELS, WITHOUT
from separatrix.frontier.store import ALL_ROWS, PointKey
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained import Mixture
from separatrix.optimum.rules import DrawnLabel, PlainRule
from separatrix.predictor.predictor import Branch, Predictor, policy_rule
from separatrix.procedure.promise import Measured, Promise, PromiseTable
from separatrix.procedure.request import Request
from separatrix.report.words import constant_text, estimate_text, is_constant, majority, recognised, wrapped

Array = NDArray[np.float64]
_NEARLY = 0.99  # of the decisions: almost the same for everybody
_ORDER = ("accuracy", "balanced_accuracy", "cost", "auroc", "eo_gap", "violation", "utility")


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """A chosen procedure.

    Args:
        question: what was asked.
        name: what ships, in words.
        promise: what `predictor` will show on unseen rows: estimate and standard error by metric,
            measured by running the same procedure on the training rows of every outer fold.
        tables: expected counts N[y, z, u] of each fold's test rows; of a score's levels likewise.
        labels, groups: their names.
        build: makes the predictor.
        notes: what must be said: a constant, a budget that folds could not keep, …
        mixture: of trained points, where one or two of them were chosen.
        audit: of the shipped decisions on rows that they were not fitted to; None for a score.
        shipped: counts (1, y, z, u) of what ships itself, on honest scores of all rows.
        sentence: why this one, in the user's terms.
        coin: share of people whose decision a coin makes.
        columns: the sensitive columns, where they have names.
    """

    question: Request
    name: str
    promise: Mapping[str, Promise]
    tables: Array = field(repr=False)
    labels: Levels
    groups: Levels
    build: Callable[[], Predictor] = field(repr=False)
    notes: tuple[str, ...] = ()
    mixture: Mixture | None = field(default=None, repr=False)
    audit: Audit | None = field(default=None, repr=False)
    shipped: Array | None = field(default=None, repr=False)
    sentence: str = ""
    coin: float = 0.0
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Promise nothing about criteria that were not asked for: of their gaps six of twenty were
        outside two errors on the tables of docs/evidence/unseen.md.
        """
        asked = ("separation", self.question.criterion)
        known = (name for name in self.promise if name in METRICS)
        names = {name for name in known if METRICS[name].criterion not in ("", *asked)}
        kept = {name: one for name, one in self.promise.items() if name not in names}
        object.__setattr__(self, "promise", PromiseTable(kept))

    @cached_property
    def predictor(self) -> Predictor:
        """What to ship: the same procedure, run on all rows."""
        return self.build()

    def save(self, folder: str | Path) -> Path:
        """Write what ships as a folder without pickle; `separatrix.load(folder)` reads it."""
        return Path(self.predictor.save(folder))

    @property
    def violation(self) -> float:
        """The promised v."""
        return self.promise["violation"].value

    @property
    def utility(self) -> float:
        """The promised u, of decisions."""
        if "utility" not in self.promise:
            raise InputError("This point is a score; it promises AUROC, EO gap and v.")
        return self.promise["utility"].value

    @property
    def decided(self) -> Array:
        """Counts (folds, y, z, u) of what ships itself where they are known, else of the folds."""
        return self.tables if self.shipped is None else self.shipped

    @property
    def is_score(self) -> bool:
        """Whether it ships a score rather than decisions."""
        return "auroc" in self.promise

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the manifest, the card and JSON."""
        always, share = majority(self.tables, self.labels)
        return {
            "asked": str(self.question),
            "budgets": dict(self.question.budgets),
            "model": self.name,
            "why": self.sentence,
            "promise": {name: list(found) for name, found in self.promise.items()},
            "majority": {"label": always, "share": share},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = wrapped(self.sentence) if self.sentence else []
        lines += wrapped(f"{self.question}: {self.name}.")
        for note in self.notes:
            lines += wrapped(f"! {note}")
        if not self.is_score:
            said = recognised(self.tables.sum(0), self.labels, self.groups, self.columns)
            lines += wrapped(f"Recognised: {said}.")
            if self.coin > 0:
                lines += wrapped(f"A coin decides {self.coin:.1%} of people.".replace("%", " %"))
        lines.append("On unseen rows (estimate ± standard error over outer folds):")
        told = self._told()
        for name, value, more in told:
            lines.append(f"  {name:18}{value}{f'   ({more})' if more else ''}")
        if any(value.startswith("below") for _, value, _ in told):
            lines.append("  below: two standard errors; with so few rows it may as well be zero")
        return "\n".join(lines)

    def _told(self) -> list[tuple[str, str, str]]:
        """Each promised metric in words, with what to compare it with."""
        always, share = majority(self.tables, self.labels)
        beside = {"accuracy": f"always {always!r}: {share:.4f}"}
        if self.is_score:
            beside["eo_gap"] = "the largest over all thresholds"
        for name, most in self.question.budgets.items():
            low, high = self.promise[name][2:]
            asked = f"asked {most:g}, 95 % range {low:.2g} – {high:.2g}"
            beside[name] = "; ".join([asked, beside[name]] if name in beside else [asked])
        kind = CRITERIA[self.question.criterion]
        own = () if kind.name == "separation" else (kind.gap_name, kind.name)
        first, *rest = [name for name in _ORDER if name in self.promise]
        shown = [first, *(name for name in own if name in self.promise), *rest]
        return [(label_of(name), estimate_text(name, self.promise[name]), beside.get(name, "")) for name in shown]

    def _repr_html_(self) -> str:
        said = [f"{self.question}: {self.name}.", *(f"! {note}" for note in self.notes)]
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._told())
        return "".join(f"<p>{escape(text)}</p>" for text in said) + f"<table>{rows}</table>"


def with_warnings(point: OperatingPoint) -> OperatingPoint:
    """The point with a sentence for each part of its decisions that decides nothing."""
    notes, share = list(point.notes), majority(point.tables, point.labels)[1]
    given = point.decided.sum((0, 1, 2)) / point.decided.sum()
    if given.max() > _NEARLY:
        what = str(point.labels[int(given.argmax())])
        notes.append(
            f"It hardly decides: {given.max():.1%} of all get {what!r}, and always {what!r} is "
            f"right for {_right(point, int(given.argmax())):.1%}."
        )
    for name, most in point.question.budgets.items():
        told = point.promise[name]
        if told.value - told.error > most:
            shown = f"{label_of(name)} {told.value:.4f} ± {told.error:.2g}"
            notes.append(f"Unseen rows are expected to show {shown}, more than the {most:g} asked.")
    if point.is_score:
        return replace(point, notes=tuple(notes))
    for z, group in enumerate(point.groups):
        own = point.decided[:, :, [z]]
        label = is_constant(own) if own.sum() > 0 else None
        if label is not None:
            gets = str(point.labels[label])
            notes.append(f"Everybody of the group {group_name(group, point.columns)!r} gets {gets!r}.")
    if point.mixture is not None and len(point.mixture.points) > 1:
        for weight, part in zip(point.mixture.weights, point.mixture.points, strict=True):
            label = is_constant(part.tables)
            if label is not None:
                only = constant_text(point.labels[label], share)
                notes.append(f"One branch, drawn for {weight:.0%} of the decisions, is {only}.")
    return replace(point, notes=tuple(notes))


def _right(point: OperatingPoint, label: int) -> float:
    """How often always the same label is right."""
    rows = point.tables.sum((0, 2, 3))
    return float(rows[label] / rows.sum())


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
    left_out = () if kind == LABELS else frontier.left_out
    base = Base(frontier.base_model(kind, k), reads, left_out)
    branch = Branch(base, found.rule if solved else found.rule.rule)
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


def model_of(frontier: Traced, method: str, trade_off: float, *, inputs: str = "xz", fold: int = ALL_ROWS) -> Predictor:
    """The model behind one point of a frontier: of one fold, or of all rows."""
    saved, lane = frontier.saved_run(method, trade_off, inputs=inputs, fold=fold)
    base = Base.from_lane(method.partition(":")[0], trade_off, saved.fitted(), lane)
    about = {"run": asdict(saved.runs[lane]), "card": frontier.manifest["card"]}
    return _predictor(frontier, fold, (Branch(base, DrawnLabel()),), (1.0,), about)


def _predictor(
    frontier: Traced, fold: int, branches: tuple[Branch, ...], weights: tuple[float, ...], about: dict[str, Any]
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


def held_out_table(frontier: Traced, counts: NDArray[np.float64], squares: NDArray[np.float64]) -> CountTable:
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


def held_out_audit(frontier: Traced, tables: NDArray[np.float64], squares: NDArray[np.float64]) -> Audit | None:
    """The audit of all rows' held-out decisions; None for a single label or group."""
    if min(tables.shape[-3:-1]) < 2:
        return None
    return Audit.from_table(held_out_table(frontier, tables.sum(0), squares.sum(0)))
