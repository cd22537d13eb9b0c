"""Answers: what could be shipped, measured once at the end of a trace into `answers.json`.

The terminal's table, the report and `frontier.csv` read this list (`frontier.shippable`); `select`
solves anew for exactly what is asked. The measured rules also become records, points of the
frontier beside the trained ones. A folder of `separatrix benchmark` has no answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.core import score_tables
from separatrix.core.information import conditional_rates
from separatrix.core.measures import CRITERIA, table_measures
from separatrix.errors import DataError, InfeasibleError
from separatrix.frontier.base_models import JOINT, LABELS, WITHOUT
from separatrix.frontier.folder import remove_checksums, write_checksums
from separatrix.frontier.selection import POSTPROCESSING, candidates_for, choice_of, trained_candidate
from separatrix.frontier.store import Record, ReferenceCurve, RunKey, Store, hash_of
from separatrix.frontier.trained import Trained, trained_points
from separatrix.io import write_whole
from separatrix.optimum.limit import limit
from separatrix.procedure.procedures import Decisions, Plain, Scoring
from separatrix.procedure.promise import Measured, Promise, is_constant
from separatrix.report.words import budget_text, majority
from separatrix.statistics.unseen import noise_floor, unseen

if TYPE_CHECKING:
    from separatrix.frontier.frontier import Frontier

ANSWERS = "answers.json"
BASE = "base model"  # the recipe of its records
KINDS = {
    "choice": "what ships for the budget of the trace",
    "plain": "the base model as it is",
    "drawn": "the base model's posterior, drawn from",
    "decisions": "the best decisions around the base model within a budget",
    "score": "the best score around the base model within a budget",
    "trained": "one point of a trained path",
    "chosen": "the trained point that a budget chooses",
    "constant": "the most frequent label, always",
    "criterion": "the best decisions within one criterion's gap, to compare the criteria",
}
GAPS = (0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005)
_COMPARED = 0.05  # the gap at which the criteria are compared
_SHARES = (0.3, 0.05)  # of the plain model's v
Array = NDArray[np.float64]
Asked = Sequence[tuple[str, str, float]]  # aim, budget, level


@dataclass(frozen=True)
class Answer:
    """One thing that could be shipped: plain data, as it stands in the file.

    Args:
        kind: one of `KINDS`.
        name: in words.
        maximize: the aim, where there is one.
        budgets: what to ask `select` for.
        blind: without the group at decision time.
        promise: estimate and standard error on unseen rows, by metric. A score's EO gap is the
            largest over all thresholds.
        floor: the EO gap that as many rows show where there is none; None where it has no meaning.
        rates: P(U = second label | y, z) for two labels, else P(U = y | y, z); None without rows.
        roc: of a score, per group: corners (false-positive rate, true-positive rate).
        point: method, inputs, trade_off and policy of its records, where it has some.
        always: the label that everybody gets, where there is one.
        note: what must be said.
    """

    kind: str
    name: str
    maximize: str = ""
    budgets: Mapping[str, float] = field(default_factory=dict)
    blind: bool = False
    promise: Mapping[str, Sequence[float]] = field(default_factory=dict)
    floor: float | None = None
    rates: list[list[float | None]] = field(default_factory=list)
    roc: list[list[list[float]]] = field(default_factory=list)
    point: Mapping[str, Any] = field(default_factory=dict)
    always: str | None = None
    note: str = ""

    def value(self, metric: str) -> float | None:
        """The promised value, where there is one."""
        return self.promise[metric][0] if metric in self.promise else None


def read_answers(folder: Path) -> list[Answer]:
    """The answers of a trace; none where there is no such file."""
    path = folder / ANSWERS
    if not path.is_file():
        return []
    try:
        return [Answer(**fields) for fields in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}. Trace the data again.") from error


def write_answers(folder: Path, answers: Sequence[Answer]) -> None:
    """Write them whole."""
    write_whole(folder / ANSWERS, json.dumps(list(map(asdict, answers)), indent=1, allow_nan=False))


def measure_answers(frontier: Frontier) -> None:
    """Measure the usual questions; write answers, records and limits."""
    answers: list[Answer] = []
    asked: Asked = ()
    store = Store(frontier.folder)
    without = frontier.blind or (frontier.reads_group and not frontier.impossible)
    for blind in (False, True) if without else (False,):
        plain, drawn, tables = _plain(frontier, blind)
        answers += [plain, drawn]
        store.add(_records(frontier, plain, *tables))
        asked = asked or _usual(frontier, plain)  # blind or not alike: comparable
        if blind and not frontier.blind:
            continue
        for answer, solved in _solved(frontier, _few(asked, len(frontier.labels)) if blind else asked, blind):
            answers.append(answer)
            store.add(_records(frontier, answer, solved))
    _write_limits(frontier, store)
    write_answers(frontier.folder, [*answers, *_chosen(frontier), _constant(frontier)])


def compare_criteria(frontier: Frontier) -> None:
    """Add the comparison of the criteria, which only the report shows, where it is not there yet.

    Predictive parity is the slowest of all questions, so a trace itself does not ask it.
    """
    known = read_answers(frontier.folder)
    if known and all(answer.kind != "criterion" for answer in known):
        remove_checksums(frontier.folder)
        write_answers(frontier.folder, [*known, *_criteria(frontier)])
        write_checksums(frontier.folder)


def _plain(frontier: Frontier, blind: bool) -> tuple[Answer, Answer, tuple[Array, Array]]:
    """The base model, decided and drawn; tables of the drawn labels and of the decisions."""
    kind = WITHOUT if blind else LABELS
    decided, posterior = frontier.measured(kind, Plain()), frontier.measured(kind, Plain(show="posterior"))
    point: dict[str, Any] = {"method": "erm", "inputs": "x" if blind else "xz", "recipe": BASE, "trade_off": 0.0}
    name = "plain, without the group" if blind else "plain model"
    plain = _answer(frontier, "plain", name, decided, point=point | {"policy": "deterministic"}, blind=blind)
    if len(frontier.labels) == 2:
        score = frontier.measured(kind, Plain(show="score"))
        promise = {**plain.promise, "auroc": score.promise["auroc"][:2]}
        plain = replace(plain, promise=promise, roc=_roc(score.tables))
    point |= {"policy": "randomized"}
    drawn = _answer(frontier, "drawn", f"{name}, drawn", posterior, point=point, blind=blind)
    return plain, drawn, (posterior.tables, decided.tables)


def _usual(frontier: Frontier, plain: Answer) -> Asked:
    """The usual questions: budgets below what the plain model shows, or one above it."""
    (name, most), *_ = frontier.first_request.budgets.items()
    gap, v = plain.promise[name][0], plain.promise["violation"][0]
    asked: list[tuple[str, str, float]] = []
    if len(frontier.labels) == 2:
        usual = sorted({*GAPS, most}, reverse=True)
        levels = [x for x in usual if x < gap] or [min(x for x in (*usual, 1.0) if x >= gap)]
        asked += [("accuracy", name, level) for level in levels]
    if frontier.criterion != "separation":
        return asked
    levels = [float(f"{share * v:.1g}") for share in _SHARES if share * v > 1e-9]
    return asked + [("utility", "violation", level) for level in levels or [1e-3]]


def _few(asked: Asked, labels: int) -> Asked:
    """The questions of blind decisions: one of utility, slow to solve without the group.

    For more than two labels utility cannot be solved there, and accuracy is asked for instead.
    """
    if labels > 2:
        return [("accuracy", budget, level) for _, budget, level in asked]
    slow = [question for question in asked if question[0] == "utility"]
    return [question for question in asked if question not in slow[1:]]


def _solved(frontier: Frontier, asked: Asked, blind: bool) -> Iterator[tuple[Answer, Array]]:
    """Decisions for each question, and the separated score."""
    for aim in dict.fromkeys(aim for aim, _, _ in asked):
        refused: InfeasibleError | None = None
        reached = False
        for _, budget, level in (question for question in asked if question[0] == aim):
            try:
                yield _decisions(frontier, aim, budget, level, blind)
                reached = True
            except InfeasibleError as error:
                refused = error
        if not reached and refused is not None:  # all were too small: the smallest that is not
            yield _decisions(frontier, aim, budget, _up(refused.smallest[budget]), blind)
    if len(frontier.labels) == 2 and not blind:  # a blind one is solved when `select` asks for it
        separated = frontier.measured(LABELS, Scoring(exact=True))
        about: dict[str, Any] = {
            "maximize": "auroc",
            "budgets": {"eo_gap": _up(_smallest(frontier))},
            "roc": _roc(separated.tables),
        }
        yield _answer(frontier, "score", "separated score", separated, **about), separated.tables


def _decisions(frontier: Frontier, aim: str, budget: str, level: float, blind: bool) -> tuple[Answer, Array]:
    solved = frontier.measured(JOINT if blind else LABELS, Decisions(aim, {budget: level}, blind=blind))
    inputs, recipe = "x" if blind else "xz", f"{aim} within {budget}"
    point = {"method": POSTPROCESSING, "inputs": inputs, "recipe": recipe, "trade_off": level, "policy": "randomized"}
    name = f"{budget_text({budget: level})}{' without the group' if blind else ''}"
    about: dict[str, Any] = {"maximize": aim, "budgets": {budget: level}, "blind": blind, "point": point}
    return _answer(frontier, "decisions", name, solved, **about), solved.tables


def _criteria(frontier: Frontier) -> Iterator[Answer]:
    """For two labels the best accuracy within the same gap of each criterion in turn."""
    for name, kind in CRITERIA.items() if len(frontier.labels) == 2 else ():
        gap, level = kind.gap_name, _COMPARED
        try:
            answer, _ = _decisions(frontier, "accuracy", gap, level, blind=False)
        except InfeasibleError as error:
            level = _up(error.smallest[gap])
            answer, _ = _decisions(frontier, "accuracy", gap, level, blind=False)
        title = f"{name.replace('_', ' ')}: {budget_text({gap: level})}"
        yield replace(answer, kind="criterion", name=title, point={})


def _chosen(frontier: Frontier) -> Iterator[Answer]:
    """What ships for the budget of the trace, every trained point, and the one that this budget chooses."""
    request = frontier.first_request
    possible = candidates_for(frontier, request)
    asked: dict[str, Any] = {"maximize": request.aim, "budgets": request.budgets}
    try:
        choice = choice_of(frontier, possible, request)
        chosen, name = choice.candidate.payload, choice.candidate.name
        measured = _of_decisions(
            frontier, "choice", name, chosen.tables, choice.candidate.promise, chosen.squares, **asked
        )
        yield replace(measured, note=choice.sentence)
    except InfeasibleError as error:
        yield Answer("choice", "none", note=str(error), **asked)
    if request.criterion != "separation" or not frontier.results.saved:
        return
    for blind in (False, True) if frontier.blind else (False,):
        yield from _trained(frontier, blind)
        for best in trained_candidate(frontier, replace(request, blind=blind)):
            if best.possible:
                yield _best_trained(frontier, best.payload, request.budgets, blind)


def _trained(frontier: Frontier, blind: bool) -> Iterator[Answer]:
    """Every point of the paths that do not see the group, or of those that do."""
    for trained_point in trained_points(frontier, blind=blind):
        if (trained_point.key.inputs == "x") == blind:
            promise = unseen(trained_point.tables, trained_point.tables, table_measures())
            point = trained_point.key._asdict()
            yield _of_decisions(
                frontier, "trained", str(trained_point), trained_point.tables, promise, blind=blind, point=point
            )


def _best_trained(frontier: Frontier, mixture: Trained, budgets: Mapping[str, float], blind: bool) -> Answer:
    """The best trained point, or mixture of two, with what the choice flatters taken off."""
    name, method = str(mixture), mixture.points[0].key.method
    note = f"the trained point that {budget_text(budgets)} chooses"
    if len(mixture.points) > 1:
        name = f"{methods.style(method).label}, two points"
        branches = zip(mixture.weights, mixture.points, strict=True)
        drawn = " and ".join(f"{point}, for {w:.0%}" for w, point in branches)
        note = f"{note} draws {drawn} of the decisions"
    asked: dict[str, Any] = {"maximize": "accuracy", "budgets": budgets, "blind": blind, "point": {"method": method}}
    return _of_decisions(frontier, "chosen", name, mixture.tables, mixture.promise, **asked, note=note)


def _constant(frontier: Frontier) -> Answer:
    """Always the most frequent label."""
    y, z = frontier.rows["y"], frontier.rows["z"]
    cells = np.zeros((len(frontier.labels), len(frontier.groups), 1))
    np.add.at(cells[..., 0], (y, z), 1.0)
    label, share = majority(cells, frontier.labels)
    error = float(np.sqrt(share * (1 - share) / len(y)))
    promise = {"accuracy": (share, error)} | dict.fromkeys(("eo_gap", "violation", "utility"), (0.0, 0.0))
    promise["balanced_accuracy"] = (1.0 / len(np.unique(y)), 0.0)
    return Answer("constant", f"always {label!r}", promise=promise, always=label)


def _answer(frontier: Frontier, kind: str, name: str, measured: Measured, **about: Any) -> Answer:
    """What was measured of a procedure around the base model."""
    if measured.eased:
        folds = "1 fold" if measured.eased == 1 else f"{measured.eased} folds"
        about["note"] = f"{folds} could not promise it"
    if measured.is_score:
        return Answer(
            kind, name, promise=_pairs(measured.promise), floor=_floor(measured.tables, measured.squares), **about
        )
    return _of_decisions(frontier, kind, name, measured.tables, measured.promise, measured.squares, **about)


def _of_decisions(
    frontier: Frontier, kind: str, name: str, tables: Array, promise: Mapping[str, Promise],
    squares: Array | None = None, **about: Any,
) -> Answer:  # fmt: skip
    """Decisions with their promise, their noise, their rates and the label that everybody gets."""
    label = is_constant(tables)
    return Answer(
        kind, name, promise=_pairs(promise), floor=_floor(tables, tables if squares is None else squares),
        rates=rates_of(tables.sum(0)), always=None if label is None else str(frontier.labels[label]), **about,
    )  # fmt: skip


def rates_of(counts: Array) -> list[list[float | None]]:
    """P(U = second label | y, z) for two labels, else P(U = y | y, z); None without rows."""
    rates = conditional_rates(counts)
    shown = rates[..., 1] if rates.shape[-1] == 2 else np.einsum("yzy->yz", rates)
    return [[None if np.isnan(rate) else float(rate) for rate in row] for row in shown]


def _floor(tables: Array, squares: Array) -> float | None:
    floor = noise_floor(tables, squares)
    return None if np.isnan(floor) else floor


def _pairs(promise: Mapping[str, Promise]) -> dict[str, tuple[float, float]]:
    """The value and the standard error of each metric that is defined."""
    return {
        name: (float(estimate.value), float(estimate.error))
        for name, estimate in promise.items()
        if np.isfinite(estimate.value)
    }


def _roc(tables: Array) -> list[list[list[float]]]:
    """The ROC curve of each group from counts (fold, 2, group, level), at most 50 corners."""
    curves: list[list[list[float]]] = []
    for counts in np.moveaxis(tables.sum(0), 1, 0):
        mass = counts.sum(1, keepdims=True)
        if (mass <= 0).any():
            curves.append([])
            continue
        coarse = score_tables.merged(counts, counts.sum(0), 50)
        tail = np.cumsum((coarse / mass)[:, ::-1], axis=1).T
        curves.append([[0.0, 0.0], *np.clip(tail, 0.0, 1.0).round(5).tolist()])
    return curves


def _smallest(frontier: Frontier) -> float:
    """The smallest EO gap at every threshold that `select` can promise of a score."""
    try:
        frontier.measured(LABELS, Scoring({"eo_gap": 0.0}))
    except InfeasibleError as error:
        return error.smallest["eo_gap"]
    return 0.0


def _up(level: float) -> float:
    """Rounded up to two digits."""
    if level <= 0.0:
        return 1e-6
    digit = 10.0 ** (np.floor(np.log10(level)) - 1)
    return float(f"{np.ceil(level / digit - 1e-9) * digit:.3g}")


def _records(frontier: Frontier, answer: Answer, soft: Array, hard: Array | None = None) -> list[Record]:
    """The folds of measured decisions as records; of a score none."""
    if not answer.point:
        return []
    m = frontier.manifest
    point = {name: value for name, value in answer.point.items() if name != "policy"}
    decided: Any = [None] * len(soft) if hard is None else hard
    first: dict[str, Any] = {
        "dataset": frontier.name, "fingerprint": m["fingerprint"], "folds": m["folds"],
        "seed": m["seed"], **point, "details": {"bases": m["base"]["bases"]},
        "source": hash_of(["rule around a base model"]),
    }  # fmt: skip
    area = answer.promise.get("auroc", (float("nan"),))[0]
    return [
        Record(RunKey(fold=k, **first), "ok", soft=posterior_table, hard=two, auroc=area)
        for k, (posterior_table, two) in enumerate(zip(soft, decided, strict=True))
    ]


def _write_limits(frontier: Frontier, store: Store) -> None:
    """The best that the held-out scores allow on these rows: u by v, and accuracy by EO gap."""
    key = str(frontier.manifest["fingerprint"])
    if any(curve.key == key for curve in store.curves()):
        return
    y, z, q = frontier.rows["y"], frontier.rows["z"], frontier.nested.honest
    curve = limit(y, q, sensitive_features=z, points=80)
    name = frontier.name
    store.add_curve(ReferenceCurve(name, "limit", curve.violation, curve.utility, key))
    if len(frontier.labels) == 2:
        best = limit(y, q, sensitive_features=z, maximize="accuracy", budget="eo_gap")
        named = "limit of accuracy by EO gap"
        store.add_curve(ReferenceCurve(name, named, best.levels, best.values, key))
