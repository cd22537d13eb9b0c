"""Measure what could be shipped, once at the end of a trace, into `answers.json`.

The terminal's table, the report and `frontier.csv` read this list (`frontier.answers`); `select`
solves anew for exactly what is asked. The measured rules also become records, points of the
frontier beside the trained ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.auditing.result import Audit
from separatrix.columns.values import Levels
from separatrix.core import score_tables
from separatrix.core.information import conditional_rates
from separatrix.core.measures import CRITERIA, table_measures
from separatrix.errors import InfeasibleError
from separatrix.frontier import answers as files
from separatrix.frontier.answers import BASE, Answer
from separatrix.frontier.base_models import JOINT, LABELS, WITHOUT
from separatrix.frontier.operating_point import held_out_audit
from separatrix.frontier.selection import POSTPROCESSING, choice_for
from separatrix.frontier.store import Record, ReferenceCurve, RunKey, Store, hash_of
from separatrix.frontier.traced import Traced, remove_checksums, write_checksums
from separatrix.frontier.trained import TrainedPoint, trained, trained_points
from separatrix.optimum.limit import limit
from separatrix.procedure.procedures import Decisions, Plain, Scoring
from separatrix.procedure.promise import Measured, Promise
from separatrix.procedure.request import Request
from separatrix.report.words import budget_text, is_constant, majority
from separatrix.statistics.unseen import noise_floor, unseen

GAPS = (0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005)
_COMPARED = 0.05  # the gap at which criteria are compared, and trained points are chosen
_SHARES = (0.3, 0.05)  # of the plain model's v
Array = NDArray[np.float64]
Asked = Sequence[tuple[str, str, float]]  # aim, budget, level


def write_answers(frontier: Traced) -> None:
    """Measure the usual questions; write answers, records and limits."""
    answers: list[Answer] = []
    asked: Asked | None = None
    store = Store(frontier.folder)
    without = frontier.blind or (frontier.reads_group and not frontier.impossible)
    for blind in (False, True) if without else (False,):
        plain = _plain(frontier, blind)
        asked = _asked(frontier, plain) if asked is None else asked  # both alike: comparable
        (decided, hard), (drawn, soft) = plain
        answers += [decided, drawn]
        store.add(_records(frontier, decided, soft, hard))
        if blind and not frontier.blind:
            continue
        own = _few(asked, len(frontier.labels)) if blind else asked
        for answer, tables in _solved(frontier, own, blind):
            answers.append(answer)
            store.add(_records(frontier, answer, tables))
    _write_limits(frontier, store)
    answers.append(_choice(frontier))
    frontier = type(frontier)(frontier.folder)  # with the records that are new
    if frontier.criterion == "separation" and frontier.results.saved:
        for blind in (False, True) if frontier.blind else (False,):
            answers += _trained(frontier, asked or (), blind)
    files.write_answers(frontier.folder, [*answers, _constant(frontier)])


def compare_criteria(frontier: Traced) -> None:
    """Add the comparison of the criteria, which only the report shows, where it is not there yet.

    Predictive parity is the slowest of all questions, so a trace itself does not ask it.
    """
    known = files.read_answers(frontier.folder)
    if known and all(answer.kind != "criterion" for answer in known):
        remove_checksums(frontier.folder)
        files.write_answers(frontier.folder, [*known, *_criteria(frontier)])
        write_checksums(frontier.folder)


def plain_audit(frontier: Traced) -> Audit | None:
    """The audit of the plain model's decisions on rows that it did not see."""
    found = frontier.measured(LABELS, Plain())
    return held_out_audit(frontier, found.tables, found.squares)


def _plain(frontier: Traced, blind: bool) -> list[tuple[Answer, Array]]:
    """The base model, decided and drawn."""
    kind = WITHOUT if blind else LABELS
    found = frontier.measured(kind, Plain())
    drawn = frontier.measured(kind, Plain(show="posterior"))
    point: dict[str, Any] = {"method": "erm", "inputs": "x" if blind else "xz", "recipe": BASE}
    point |= {"trade_off": 0.0}
    hard, soft = (point | {"policy": policy} for policy in ("deterministic", "randomized"))
    name = "plain, without the group" if blind else "plain model"
    plain = _answer(frontier, "plain", name, found, point=hard, blind=blind)
    if len(frontier.labels) == 2:
        score = frontier.measured(kind, Plain(show="score"))
        promise = {**plain.promise, **_pairs({"auroc": score.promise["auroc"]})}
        plain = replace(plain, promise=promise, roc=_roc(score.tables))
    random = _answer(frontier, "drawn", f"{name}, drawn", drawn, point=soft, blind=blind)
    return [(plain, found.tables), (random, drawn.tables)]


def first_request(frontier: Traced) -> Request:
    """What the first sentence of a trace is about."""
    name = CRITERIA[frontier.criterion].gap_name
    return Request("accuracy", {name: float(frontier.manifest["max_eo_gap"])})


def _choice(frontier: Traced) -> Answer:
    """What ships for the budget of the trace, and the first sentence that a user reads."""
    request = first_request(frontier)
    (name, most), *_ = request.budgets.items()
    try:
        choice = choice_for(frontier, request)
    except InfeasibleError as error:
        return Answer("choice", "none", "accuracy", {name: most}, note=str(error))
    promise, named = _pairs(choice.candidate.promise), choice.candidate.name
    return Answer("choice", named, "accuracy", {name: most}, promise=promise, note=choice.sentence)


def _asked(frontier: Traced, plain: Sequence[tuple[Answer, Array]]) -> Asked:
    """The usual questions: budgets below what the plain model shows, or one above it."""
    promise, name = plain[0][0].promise, CRITERIA[frontier.criterion].gap_name
    gap, v = promise[name][0], promise["violation"][0]
    asked: list[tuple[str, str, float]] = []
    if len(frontier.labels) == 2:
        usual = sorted({*GAPS, float(frontier.manifest["max_eo_gap"])}, reverse=True)
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
    slow = [one for one in asked if one[0] == "utility"]
    return [one for one in asked if one not in slow[1:]]


def _solved(frontier: Traced, asked: Asked, blind: bool) -> Iterator[tuple[Answer, Array]]:
    """Decisions for each question, and the separated score."""
    for aim in dict.fromkeys(aim for aim, _, _ in asked):
        refused: InfeasibleError | None = None
        reached = False
        for _, budget, level in (one for one in asked if one[0] == aim):
            try:
                yield _decisions(frontier, aim, budget, level, blind)
                reached = True
            except InfeasibleError as error:
                refused = error
        if not reached and refused is not None:  # all were too small: the smallest that is not
            yield _decisions(frontier, aim, budget, _up(refused.smallest[budget]), blind)
    if len(frontier.labels) == 2 and not blind:  # a blind one is solved when `select` asks for it
        found = frontier.measured(LABELS, Scoring(exact=True))
        smallest = {"eo_gap": _up(_smallest(frontier))}
        about: dict[str, Any] = {"maximize": "auroc", "budgets": smallest}
        about |= {"roc": _roc(found.tables)}
        yield _answer(frontier, "score", "separated score", found, **about), found.tables


def _decisions(frontier: Traced, aim: str, budget: str, level: float, blind: bool) -> tuple[Answer, Array]:
    rule = Decisions(aim, {budget: level}, blind=blind)
    found = frontier.measured(JOINT if blind else LABELS, rule)
    inputs, recipe = "x" if blind else "xz", f"{aim} within {budget}"
    point = {"method": POSTPROCESSING, "inputs": inputs, "recipe": recipe, "trade_off": level}
    name = f"{budget_text({budget: level})}{' without the group' if blind else ''}"
    about: dict[str, Any] = {"maximize": aim, "budgets": {budget: level}, "blind": blind}
    about |= {"point": point | {"policy": "randomized"}}
    return _answer(frontier, "decisions", name, found, **about), found.tables


def _criteria(frontier: Traced) -> Iterator[Answer]:
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


def _answer(frontier: Traced, kind: str, name: str, found: Measured, **about: Any) -> Answer:
    """An answer with its promise, its noise and, of decisions, their rates."""
    if found.eased:
        folds = "1 fold" if found.eased == 1 else f"{found.eased} folds"
        about["note"] = f"{folds} could not promise it"
    if found.is_score:
        about["floor"] = noise_floor(found.tables, found.squares)
    else:
        about |= _of_tables(frontier.labels, found.tables, found.squares)
    return Answer(kind, name, promise=_pairs(found.promise), **about)


def _pairs(promise: Mapping[str, Promise]) -> dict[str, tuple[float, float]]:
    """The value and the standard error of each metric."""
    return {name: (float(one.value), float(one.error)) for name, one in promise.items()}


def _roc(tables: Array) -> list[list[list[float]]]:
    """The ROC curve of each group from counts (fold, 2, group, level), at most 50 corners."""
    curves: list[list[list[float]]] = []
    for own in np.moveaxis(tables.sum(0), 1, 0):
        mass = own.sum(1, keepdims=True)
        if (mass <= 0).any():
            curves.append([])
            continue
        coarse = score_tables.merged(own, own.sum(0), 50)
        tail = np.cumsum((coarse / mass)[:, ::-1], axis=1).T
        curves.append([[0.0, 0.0], *np.clip(tail, 0.0, 1.0).round(5).tolist()])
    return curves


def _smallest(frontier: Traced) -> float:
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


def _constant(frontier: Traced) -> Answer:
    """Always the most frequent label."""
    cells = np.zeros((len(frontier.labels), len(frontier.groups)))
    np.add.at(cells, (frontier.rows["y"], frontier.rows["z"]), 1.0)
    label, share = majority(cells[..., None], frontier.labels)
    zero = (0.0, 0.0)
    error = float(np.sqrt(share * (1 - share) / cells.sum()))
    promise = {"accuracy": (share, error), "eo_gap": zero, "violation": zero, "utility": zero}
    promise["balanced_accuracy"] = (1.0 / int((cells.sum(1) > 0).sum()), 0.0)
    return Answer("constant", f"always {label!r}", promise=promise, always=label)


def _records(frontier: Traced, answer: Answer, soft: Array, hard: Array | None = None) -> list[Record]:
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
        Record(RunKey(fold=k, **first), "ok", soft=one, hard=two, auroc=area)
        for k, (one, two) in enumerate(zip(soft, decided, strict=True))
    ]


def _write_limits(frontier: Traced, store: Store) -> None:
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


def _trained(frontier: Traced, asked: Asked, blind: bool) -> Iterator[Answer]:
    """Every trained point with its promise, then the one that is chosen.

    Args:
        frontier: with the records of its trained paths.
        asked: the usual questions, the first aim's first.
        blind: only points that do not see the group; else only those that do.
    """
    inputs = "x" if blind else "xz"
    points = [one for one in trained_points(frontier, blind=blind) if one.key.inputs == inputs]
    for one in points:
        yield Answer(
            "trained", str(one), blind=blind, point=one.key._asdict(),
            promise=_pairs(unseen(one.tables, one.tables, table_measures())),
            **_of_tables(frontier.labels, one.tables),
        )  # fmt: skip
    if points:
        yield from _chosen(frontier, points, asked, blind)


def _of_tables(labels: Levels, tables: Array, squares: Array | None = None) -> dict[str, Any]:
    """Noise floor, rates and the label that everybody gets, of decisions in all folds."""
    rates = conditional_rates(tables.sum(0))
    shown = rates[..., 1] if rates.shape[-1] == 2 else np.einsum("yzy->yz", rates)
    label = is_constant(tables)
    return {
        "floor": noise_floor(tables, tables if squares is None else squares),
        "rates": [[None if np.isnan(r) else float(r) for r in row] for row in shown],
        "always": None if label is None else str(labels[label]),
    }


def _chosen(frontier: Traced, points: Sequence[TrainedPoint], asked: Asked, blind: bool) -> Iterator[Answer]:
    """What the usual budget chooses, with what the choice flatters taken off; nothing if none."""
    levels = [one for one in asked if one[0] == asked[0][0]]
    aim, budget, level = min([one for one in levels if one[2] >= _COMPARED] or levels, key=lambda one: one[2])
    request = Request(aim, {budget: level}, blind)
    try:
        found = trained(points, request, frontier.groups)
    except InfeasibleError:
        return
    mixture = found.mixture
    name, method = str(mixture), mixture.points[0].key.method
    note = f"the trained point that {budget_text(request.budgets)} chooses"
    if len(mixture.points) > 1:
        name = f"{methods.style(method).label}, two points"
        branches = zip(mixture.weights, mixture.points, strict=True)
        drawn = " and ".join(f"{point}, for {w:.0%}" for w, point in branches)
        note = f"{note} draws {drawn} of the decisions"
    yield Answer(
        "chosen", name, aim, request.budgets, blind, _pairs(found.promise),
        point={"method": method}, note=note, **_of_tables(frontier.labels, mixture.tables),
    )  # fmt: skip
