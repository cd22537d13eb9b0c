"""Answers: what could be shipped, as a trace measured it and as terminal, report and CSV show it.

`answers.json` lies beside the records of a trace. A folder of `separatrix benchmark` has none.
Terminal, report and notebook read the same `Answer`s, so they show the same numbers.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.columns.groups import from_plain, group_name
from separatrix.core.measures import CRITERIA, METRICS
from separatrix.datasets import Data
from separatrix.errors import DataError
from separatrix.frontier.results import Results
from separatrix.io import write_whole
from separatrix.report.table import Table
from separatrix.report.words import WIDTH, listed, wrapped

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
_SHIPPED = ("choice", "decisions", "chosen", "score")  # by `select`
# candidates that decide as the base model does, and whether it sees the group
UNCHANGED = {"plain": False, "without the group": True}
_ROWS = 10
_USUAL = 0.05  # of the EO gap
_OTHERS = {kind.gap_name: name for name, kind in CRITERIA.items() if name != "separation"}


@dataclass(frozen=True)
class Answer:
    """One thing that could be shipped.

    Args:
        kind: one of `KINDS`.
        name: in words.
        maximize: the aim, where there is one.
        budgets: what to ask `select` for.
        blind: without the group at decision time.
        promise: estimate and standard error on unseen rows, by metric. A score's EO gap is the
            largest over all thresholds.
        floor: the EO gap that as many rows show where there is none; NaN where it has no meaning.
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
    promise: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    floor: float = float("nan")
    rates: list[list[float | None]] = field(default_factory=list)
    roc: list[list[list[float]]] = field(default_factory=list)
    point: Mapping[str, Any] = field(default_factory=dict)
    always: str | None = None
    note: str = ""

    def value(self, metric: str) -> float | None:
        """The promised value, where there is one."""
        return self.promise[metric][0] if metric in self.promise else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        floor = None if np.isnan(self.floor) else self.floor
        promise = {name: list(x) for name, x in self.promise.items() if np.isfinite(x[0])}
        return asdict(self) | {"floor": floor, "promise": promise}


def read_answers(folder: Path) -> list[Answer]:
    """The answers of a trace; none where there is no such file."""
    path = folder / ANSWERS
    if not path.is_file():
        return []
    try:
        return [_answer(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}. Trace the data again.") from error


def write_answers(folder: Path, answers: Sequence[Answer]) -> None:
    """Write them whole."""
    plain = [answer.to_dict() for answer in answers]
    write_whole(folder / ANSWERS, json.dumps(plain, indent=1, allow_nan=False))


def _answer(read: dict[str, Any]) -> Answer:
    floor = float("nan") if read["floor"] is None else float(read["floor"])
    promise = {name: (float(x[0]), float(x[1])) for name, x in read["promise"].items()}
    return Answer(**(read | {"floor": floor, "promise": promise}))


@dataclass(frozen=True, eq=False)
class Shippable:
    """The answers of a trace, with the names that they need.

    Args:
        answers: of `answers.json`.
        labels, groups: as shown.
        sizes: rows of each group.
    """

    answers: tuple[Answer, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, results: Results) -> Shippable | None:
        """Those of a folder; None where there are none, as in one of `separatrix benchmark`."""
        answers = read_answers(results.folder)
        if not answers:
            return None
        (name,) = results.datasets
        about = results.about[name]
        columns = about["sensitive"] or ()
        groups = tuple(group_name(from_plain(group), columns) for group in about["groups"])
        sizes = tuple(int(n) for n in np.sum(about["cells"], 0))
        return cls(tuple(answers), tuple(map(str, about["labels"])), groups, sizes)

    def first(self, kind: str, *, blind: bool = False, maximize: str | None = None) -> Answer:
        """The first answer of a kind."""
        return next(iter(self._all(kind, blind, maximize)))

    @property
    def ships(self) -> Answer | None:
        """The choice for the budget of the trace, where something can be shipped for it."""
        return None if self.choice is None or self.choice.name == "none" else self.choice

    def _all(self, kind: str, blind: bool = False, maximize: str | None = None) -> list[Answer]:
        wanted = [a for a in self.answers if a.kind == kind and a.blind == blind]
        return [a for a in wanted if maximize in (None, a.maximize)]

    @property
    def aim(self) -> str:
        """What the table's decisions are best at: accuracy, or u for more than two labels."""
        return "accuracy" if len(self.labels) == 2 else "utility"

    @property
    def blind(self) -> bool:
        """Whether it was also asked what is possible without the group."""
        return any(a.blind and a.kind == "decisions" for a in self.answers)

    @property
    def gap(self) -> str:
        """The gap that the usual questions are about."""
        budgets = [a.budgets for a in self._all("decisions", maximize="accuracy")]
        return next(iter(budgets[0]), "eo_gap") if budgets else "eo_gap"

    def criteria(self) -> Table | None:
        """The criteria side by side, each within the same gap; None for more than two labels."""
        compared = self._all("criterion")
        if not compared:
            return None
        nats = ("utility", "violation", "independence", "sufficiency")
        gaps = [kind.gap_name for kind in CRITERIA.values()]
        rows = [
            (a.name, _three(a, "accuracy"), *(_nats(a, m) for m in nats),
             *(_three(a, m) for m in gaps))
            for a in (self.first("plain"), *compared)
        ]  # fmt: skip
        head = ("", "accuracy", *(METRICS[m].label for m in (*nats, *gaps)))
        error = max(a.promise["accuracy"][1] for a in compared)
        title = f"The criteria side by side, on unseen rows (accuracy ± {error:.2g} or less)"
        return Table(title, head, tuple(rows))

    def usual(self, blind: bool = False) -> Answer | None:
        """Decisions that one would ship: the tightest budget, from that of the trace on, at which
        they decide.
        """
        good = [a for a in self._all("decisions", blind, self.aim) if a.always is None]
        if self.aim == "utility":
            return good[len(good) // 2] if good else None
        gap = self.gap
        asked = next((a.budgets[gap] for a in self._all("choice")), _USUAL)
        wanted = [a for a in good if a.budgets[gap] >= asked]
        if wanted:
            return min(wanted, key=lambda a: a.budgets[gap])
        return max(good, key=lambda a: a.budgets[gap], default=None)

    def sentence(self) -> str:
        """The answer in words: what ships for the budget of the trace, and what it changes."""
        told = [] if self.choice is None else [self.choice.note]
        return " ".join([*told, self._rates_sentence()])

    @property
    def choice(self) -> Answer | None:
        """What ships for the budget of the trace; None where the plain model is a constant."""
        decides = self.first("plain").always is None  # a constant keeps every budget
        return next((a for a in self.answers if a.kind == "choice" and decides), None)

    def shipped(self) -> Answer:
        """The answer that the first sentence is about: the plain model where it ships as it is."""
        if self.choice is not None and self.choice.name in UNCHANGED:
            return self.first("plain", blind=UNCHANGED[self.choice.name])
        return self.usual() or self.first("plain")

    def _rates_sentence(self) -> str:
        """What the plain model does in rates of each group, and what the usual budget costs."""
        plain, constant, best = self.first("plain"), self.first("constant"), self.usual()
        always = f"({constant.name} has {_three(constant, 'accuracy')})"
        accuracy = _three(plain, "accuracy")
        if plain.always is not None:
            return f"The plain model says {plain.always!r} for everybody: accuracy {accuracy}."
        if len(self.labels) == 2:
            whom = f"Of people with {self.labels[1]!r}, {self._shares(plain)}"
            text = f"{whom} are recognised by the plain model."
        else:
            text = f"The plain model has an EO gap of {_three(plain, 'eo_gap')}."
        if self.choice is not None and self.choice.name == "plain":
            return f"{text} Its accuracy is {accuracy} {always}."
        if self.choice is not None and self.choice.name == "without the group":
            best, kept = self.shipped(), "Without it"
        elif best is None:
            return f"{text} Its accuracy is {accuracy} {always}; no budget below it decides."
        else:
            article = {"eo_gap": "an ", "violation": ""}.get(next(iter(best.budgets)), "a ")
            kept = f"With {article}{best.name}"
        shown = self._shares(best) if len(self.labels) == 2 else f"{_three(best, 'eo_gap')}"
        return f"{text} {kept}: {shown}, accuracy {accuracy} → {_three(best, 'accuracy')} {always}."

    def price_of_blindness(self) -> str | None:
        """What it costs not to use the group, at the usual budgets; None where not asked."""
        if not self.blind:
            return None
        parts, aware, unaware = [], self.usual(), self.usual(blind=True)
        if aware is not None and unaware is not None and aware.budgets == unaware.budgets:
            both = f"{_three(aware, 'accuracy')} → {_three(unaware, 'accuracy')}"
            parts.append(f"accuracy {both} at {_budget(aware)}")
        if len(self.labels) == 2:
            kind = "score" if self._all("score", blind=True) else "plain"
            both = " → ".join(_three(self.first(kind, blind=b), "auroc") for b in (False, True))
            parts.append(f"AUROC {both} of the {'separated' if kind == 'score' else 'plain'} score")
        known = {_budget(a): a for a in self._all("decisions", True, "utility")}
        same = [(a, known[_budget(a)]) for a in self._all("decisions", maximize="utility")
                if _budget(a) in known]  # fmt: skip
        if same:
            one, two = same[len(same) // 2]
            both = f"{one.promise['utility'][0]:.4f} → {two.promise['utility'][0]:.4f}"
            parts.append(f"u {both} nats at {_budget(one)}")
        if not parts:
            return "Without the group nothing keeps the same budgets."
        return f"The price of deciding without the group: {'; '.join(parts)}."

    def rows(self) -> list[Answer]:
        """At most ten answers for a short table, in the order in which they are read."""
        constant = self.first("constant")
        if not self.blind:
            without = self._all("plain", blind=True)
            first, *rest = _cut(self._page(False), _ROWS - 1 - len(without))
            return [first, *without, *rest, constant]
        unaware = _cut(self._page(True), 4)
        return [*_cut(self._page(False), _ROWS - 1 - len(unaware)), *unaware, constant]

    def _page(self, blind: bool) -> list[tuple[int, Answer]]:
        """Answers with how much they are needed, 0 most."""
        usual = self.usual(blind)
        page = [(0, a) for a in self._all("plain", blind)]
        for i, a in enumerate(self._all("decisions", blind, self.aim)):
            page.append((0 if a is usual else 4 + (i % 2), a))
        page += [(1, a) for a in self._all("chosen", blind)]
        page += [(2, a) for a in self._all("score", blind)]
        if self.aim == "accuracy":
            own = self._all("decisions", blind, "utility")
            page += [(3, own[len(own) // 2])] if own else []
        return page

    def table(self) -> Table:
        """The short table: decisions, accuracy, AUROC, EO gap with its noise, v and u."""
        two = len(self.labels) == 2
        apart = ["EO gap", "noise"] if self.gap == "eo_gap" else [METRICS[self.gap].label]
        head = ["", *(["recognised"] if two else []), "accuracy", "AUROC", *apart]
        rows = []
        for a in self.rows():
            shares = [self.recognised(a)] if two else []
            accuracy, gap = (_with_error(a, name) for name in ("accuracy", self.gap))
            noise = None if np.isnan(a.floor) else f"{a.floor:.3f}"
            nats = (_nats(a, name) for name in ("violation", "utility"))
            name = self.short(a)
            own = (gap, noise)[: len(apart)]
            rows.append((name, *shares, accuracy, _three(a, "auroc"), *own, *nats))
        return Table("What you could ship, as unseen rows will show it", (*head, "v", "u"), tuple(rows))

    def explained(self) -> list[str]:
        """What the columns of the short table are."""
        largest = self.largest()
        names = " / ".join(self.groups[k] for k in largest)
        who = f"of {names}" if len(self.groups) == 2 else "of the groups, smallest – largest"
        first = []
        if len(self.labels) == 2:
            first = [f"recognised: of people with {self.labels[1]!r}, the share {who} that gets it"]
        if self.blind:
            first.append("blind: without the group at decision time")
        if any("below" in (_with_error(a, self.gap) or "") for a in self.rows()):
            first.append("below: two standard errors; with so few rows the gap may as well be zero")
        noise = "noise: the EO gap that pure chance shows; " if self.gap == "eo_gap" else ""
        return [*first, f"{noise}v and u in nats"]

    def command(self, folder: str, answer: Answer | None = None) -> str | None:
        """The command that ships an answer; without one, the next command, which succeeds.

        None for what `select` does not ship: the plain model, a constant, one point of a path.
        """
        more: dict[str, Any] = {}
        if answer is None:
            answer = self.usual()
            if self.ships is not None:
                answer = self.ships
            elif answer is None:  # nothing decides
                answer = next(iter(self._all("decisions")), None)
                more = {"allow_constant": True, "method": None}
            else:
                more = {"method": None}
        if answer is None or answer.kind not in _SHIPPED:
            return None
        options = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f" {_text(value)}")
            for name, value in (_asked(answer) | more).items()
            if value is not None
        ]
        return " ".join(["separatrix select", shlex.quote(folder), *options, "--out model"])

    def python(self, folder: str, answer: Answer) -> str | None:
        """The same in Python; for one point of a trained path the predictor of that point."""
        start = f"import separatrix as sx\nfrontier = sx.Frontier.load({folder!r})\n"
        if answer.kind == "trained":
            inputs = ', inputs="x"' if answer.blind else ""
            method, trade_off = answer.point["method"], answer.point["trade_off"]
            return f"{start}model = frontier.model({method!r}, {trade_off:g}{inputs})"
        if answer.kind not in _SHIPPED:
            return None
        asked = ", ".join(
            f"{name}={_text(value) if isinstance(value, float) else repr(value)}"
            for name, value in _asked(answer).items()
        )
        return f"{start}point = frontier.select({asked})\npoint.predictor.save('model')"

    def csv(self) -> str:
        """Every answer with every metric, its error and the rates of each group."""
        pairs = [(y, z) for y in range(len(self.labels)) for z in range(len(self.groups))]
        two = len(self.labels) == 2
        rates = [
            f"P({self.labels[1] if two else self.labels[y]} | {self.labels[y]}, {self.groups[z]})" for y, z in pairs
        ]
        head = ("Answer", "Kind", "Group used", "Maximize", "Budget", "Level", "Method", "λ")
        metrics = [m for m in METRICS if any(m in a.promise for a in self.answers)]
        errors = [x for m in metrics for x in (m, f"{m} error")]
        rows = []
        for a in (a for a in self.answers if a.kind != "choice"):
            (budget, level), *_ = a.budgets.items() or [("", None)]
            told = [x for m in metrics for x in a.promise.get(m, (None, None))]
            own = [a.rates[y][z] if a.rates else None for y, z in pairs]
            used = "no" if a.blind else "yes"
            point = a.point.get("method", ""), a.point.get("trade_off")
            noise = None if np.isnan(a.floor) else a.floor
            rows.append((a.name, a.kind, used, a.maximize, budget, level, *point, *told, noise,
                         *own, a.note))  # fmt: skip
        return Table("", (*head, *errors, "EO gap noise", *rates, "Note"), tuple(rows)).csv()

    def largest(self, most: int = 4) -> list[int]:
        """The largest groups."""
        return [int(k) for k in np.argsort(-np.array(self.sizes), kind="stable")[:most]]

    def _shares(self, answer: Answer) -> str:
        row = answer.rates[1]
        shown = [k for k in self.largest() if row[k] is not None]
        parts = [f"{_percent(row[k])} % of {self.groups[k]}" for k in shown]
        rest = sum(r is not None for r in row) - len(shown)
        if rest > 0:
            known = [r for r in row if r is not None]
            return f"{', '.join(parts)} ({_percent(min(known))} – {_percent(max(known))} % of all)"
        return listed(parts)

    def recognised(self, answer: Answer) -> str | None:
        """Rates of two groups, or the smallest and the largest of more."""
        if not answer.rates:
            return None
        row = answer.rates[1]
        if len(row) == 2:
            shown = (row[k] for k in self.largest())
            return " / ".join("–" if rate is None else _percent(rate) for rate in shown) + " %"
        known = [r for r in row if r is not None]
        return f"{_percent(min(known))} – {_percent(max(known))} %"

    def short(self, answer: Answer) -> str:
        """Its name, with what must not be overlooked."""
        rule = answer.blind and answer.kind != "plain"
        name = f"blind: {_budget(answer)}" if rule else answer.name
        if answer.always is not None and answer.kind != "constant":
            return f"{name}: always {answer.always!r}"
        if answer.kind == "decisions" and answer.maximize != self.aim:
            return f"{name}, best u"
        return name


def _cut(page: Sequence[tuple[int, Answer]], most: int) -> list[Answer]:
    """The `most` that are needed most, in their order."""
    order = sorted(range(len(page)), key=lambda i: (page[i][0], i))[:most]
    return [page[i][1] for i in sorted(order)]


def _asked(answer: Answer) -> dict[str, Any]:
    """What to pass to `select` for an answer."""
    asked: dict[str, Any] = {}
    for name, level in answer.budgets.items():
        if name in _OTHERS:
            asked |= {"criterion": _OTHERS[name], "max_gap": level}
        else:
            asked[f"max_{name}"] = level
    asked["maximize"] = answer.maximize
    if answer.kind in ("decisions", "chosen"):
        asked["method"] = str(answer.point["method"])
    return asked | ({"blind": True} if answer.blind else {})


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _budget(answer: Answer) -> str:
    return answer.name.replace(" without the group", "")


def _three(answer: Answer, metric: str) -> Any:
    value = answer.value(metric)
    return None if value is None else f"{value:.3f}"


def _with_error(answer: Answer, metric: str) -> str | None:
    if metric not in answer.promise:
        return None
    value, error = answer.promise[metric]
    if metric == "eo_gap" and value < 5e-4 and error > 0:
        return f"below {2 * error:.3f}"
    return f"{value:.3f} ± {error:.3f}" if error > 0 else f"{value:.3f}"


def _nats(answer: Answer, metric: str) -> str | None:
    value = answer.value(metric)
    if value is None:
        return None
    return f"{value:.4f}" if value == 0 or value >= 5e-4 else f"{value:.0e}"


def _percent(rate: float | None) -> str:
    return f"{100 * (rate or 0.0):.0f}"


def describe(data: Data, name: str) -> Iterator[str]:
    """Rows, labels, groups and what was left out, line by line."""
    cells, columns = data.cells, () if data.grouping is None else data.grouping.columns
    yield from wrapped(
        f"{name}: {len(data):,} rows, {len(data.features)} features; labels "
        f"{_shares(data.labels, cells.sum(1))}; groups "
        f"{_shares(data.groups, cells.sum(0), columns)}"
    )
    for note in (*data.card.dropped, *data.card.notes):
        yield from wrapped(f"note: {note}", "  ")


def write_tables(frontier: Frontier) -> Iterator[str]:
    """Write frontier.csv and the page of a frontier; gives what to print, the answer first."""
    out = frontier.folder
    page = frontier.report(out / "report.html")  # compares the criteria, so it comes first
    shippable = frontier.shippable
    write_whole(out / "frontier.csv", shippable.csv())
    yield from wrapped(shippable.sentence())
    price = shippable.price_of_blindness()
    if price is not None:
        yield from wrapped(price)
    yield ""
    yield shippable.table().lines(WIDTH)
    for line in shippable.explained():
        yield from wrapped(line, "  ")
    for answer in shippable.rows():
        if answer.note:
            yield from wrapped(f"{answer.name}: {answer.note}", "  ")
    yield ""
    notes = [frontier.manifest["base"]["note"], *frontier.manifest["notes"]]
    lost = int((frontier.columns["status"] != "ok").sum()) // 2
    if lost:
        notes.append(f"{lost} runs are lost (diverged, failed or timed out): see `points`.")
    for line in (line for note in notes for line in str(note).splitlines()):
        yield from wrapped(line)
    yield f"Report: {page}"
    yield f"All points: {out / 'frontier.csv'}"
    command = shippable.command(str(out))
    if command is not None:
        yield f"Next: {command}"


def _shares(names: Sequence[Hashable], sizes: Any, columns: Sequence[str] = ()) -> str:
    shares = zip(names, sizes / sizes.sum(), strict=True)
    shown = [f"{group_name(name, columns)} {share:.1%}" for name, share in shares]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
