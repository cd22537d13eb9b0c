"""The answers of a trace in words: the first sentence, the short table, the commands, `frontier.csv`.

Terminal, report and notebook read the same `Answer`s, so they show the same numbers.
"""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.columns.groups import group_name
from separatrix.core.measures import CRITERIA, METRICS
from separatrix.datasets import Data
from separatrix.frontier.answers import Answer, read_answers
from separatrix.frontier.results import Results, group_names
from separatrix.io import write_whole
from separatrix.report.table import Table
from separatrix.report.words import WIDTH, listed, wrapped

if TYPE_CHECKING:
    from separatrix.frontier.frontier import Frontier

# candidates that decide as the base model does, and whether they do without the group
UNCHANGED = {"plain": False, "without the group": True}
_SHIPPED = ("choice", "decisions", "chosen", "score")  # by `select`
_ROWS = 10
_USUAL = 0.05  # of the EO gap
_OTHERS = {kind.gap_name: name for name, kind in CRITERIA.items() if name != "separation"}


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
    def read(cls, results: Results) -> Shippable | None:
        """Those of a folder; None where there are none, as in one of `separatrix benchmark`."""
        answers = read_answers(results.folder)
        if not answers:
            return None
        (about,) = results.about.values()
        sizes = tuple(int(n) for n in np.sum(about["cells"], 0))
        return cls(tuple(answers), tuple(map(str, about["labels"])), group_names(about), sizes)

    def of_kind(self, kind: str, blind: bool = False, maximize: str | None = None) -> list[Answer]:
        """The answers of a kind, with the group or without."""
        wanted = [a for a in self.answers if (a.kind, a.blind) == (kind, blind)]
        return [a for a in wanted if maximize in (None, a.maximize)]

    def first(self, kind: str, *, blind: bool = False) -> Answer:
        """The first answer of a kind."""
        return self.of_kind(kind, blind)[0]

    @property
    def choice(self) -> Answer | None:
        """What ships for the budget of the trace; None where the plain model is a constant, which keeps all."""
        decides = self.first("plain").always is None
        return next((a for a in self.answers if a.kind == "choice" and decides), None)

    @property
    def ships(self) -> Answer | None:
        """The choice, where something can be shipped for the budget of the trace."""
        return None if self.choice is None or self.choice.name == "none" else self.choice

    def shipped(self) -> Answer:
        """The answer that the first sentence is about: what ships, or where nothing does the usual decisions."""
        ships, usual = self.ships, self.usual()
        if ships is None or (usual is not None and usual.promise == ships.promise):
            return usual or self.first("plain")
        return self.first("plain", blind=UNCHANGED[ships.name]) if ships.name in UNCHANGED else ships

    @property
    def aim(self) -> str:
        """What the table's decisions are best at: accuracy, or u for more than two labels."""
        return "accuracy" if len(self.labels) == 2 else "utility"

    @property
    def blind(self) -> bool:
        """Whether it was also asked what is possible without the group."""
        return bool(self.of_kind("decisions", blind=True))

    @property
    def gap(self) -> str:
        """The gap that the usual questions are about."""
        return next((name for a in self.of_kind("decisions", maximize="accuracy") for name in a.budgets), "eo_gap")

    def usual(self, blind: bool = False) -> Answer | None:
        """Decisions that one would ship: the tightest budget, from that of the trace on, at which
        they decide.
        """
        good = [a for a in self.of_kind("decisions", blind, self.aim) if a.always is None]
        if self.aim == "utility":
            return good[len(good) // 2] if good else None
        gap = self.gap
        asked = next((a.budgets[gap] for a in self.of_kind("choice")), _USUAL)
        wanted = [a for a in good if a.budgets[gap] >= asked]
        if wanted:
            return min(wanted, key=lambda a: a.budgets[gap])
        return max(good, key=lambda a: a.budgets[gap], default=None)

    def sentence(self) -> str:
        """The answer in words: what ships for the budget of the trace, and what it changes."""
        choice = [] if self.choice is None else [self.choice.note]
        return " ".join([*choice, self._rates_sentence()])

    def _rates_sentence(self) -> str:
        """What the plain model does in rates of each group, and what the usual budget costs."""
        plain, constant, best = self.first("plain"), self.first("constant"), self.shipped()
        accuracy, always = shown(plain, "accuracy"), f"({constant.name} has {shown(constant, 'accuracy')})"
        if plain.always is not None:
            return f"The plain model says {plain.always!r} for everybody: accuracy {accuracy}."
        if len(self.labels) == 2:
            text = f"Of people with {self.labels[1]!r}, {self._shares(plain)} are recognised by the plain model."
        else:
            text = f"The plain model has an EO gap of {shown(plain, 'eo_gap')}."
        if best is plain:
            decides = self.choice is not None and self.choice.name == "plain"
            return f"{text} Its accuracy is {accuracy} {always}{'' if decides else '; no budget below it decides'}."
        condition = {"plain": "Without it", "choice": "With it"}.get(best.kind)
        if condition is None:
            condition = f"With {({'eo_gap': 'an ', 'violation': ''}).get(next(iter(best.budgets)), 'a ')}{best.name}"
        changed = self._shares(best) if len(self.labels) == 2 else shown(best, "eo_gap")
        return f"{text} {condition}: {changed}, accuracy {accuracy} → {shown(best, 'accuracy')} {always}."

    def rows(self) -> list[Answer]:
        """At most ten answers for a short table, in the order in which they are read."""
        unaware = self._needed(True, 4 if self.blind else 1)
        first, *rest = self._needed(False, _ROWS - 1 - len(unaware))
        aware = [first, *rest, *unaware] if self.blind else [first, *unaware, *rest]
        return [*aware, self.first("constant")]

    def _needed(self, blind: bool, most: int) -> list[Answer]:
        """The answers that a short table needs most, in their order."""
        solved = self.of_kind("decisions", blind, self.aim)
        others = self.of_kind("decisions", blind, "utility") if self.aim == "accuracy" else []
        ranked = [(0, a) for a in self.of_kind("plain", blind)]
        ranked += [(0, a) for a in self.of_kind("choice", blind) if a is self.shipped()]
        ranked += [(0 if a is self.usual(blind) else 4 + i % 2, a) for i, a in enumerate(solved)]
        ranked += [(1, a) for a in self.of_kind("chosen", blind)] + [(2, a) for a in self.of_kind("score", blind)]
        ranked += [(3, a) for a in others[len(others) // 2 :][:1]]
        best = sorted(range(len(ranked)), key=lambda i: (ranked[i][0], i))[:most]
        return [ranked[i][1] for i in sorted(best)]

    def table(self) -> Table:
        """The short table: decisions, accuracy, AUROC, EO gap with its noise, v and u."""
        who = ["recognised"] if len(self.labels) == 2 else []
        apart = ["EO gap", "noise"] if self.gap == "eo_gap" else [METRICS[self.gap].label]
        rows = []
        for a in self.rows():
            noise = None if a.floor is None else f"{a.floor:.3f}"
            cells = [shown(a, "accuracy", True), shown(a, "auroc"), shown(a, self.gap, True), noise][: 2 + len(apart)]
            rates = [self.recognised(a)] if who else []
            rows.append((self.short(a), *rates, *cells, shown(a, "violation"), shown(a, "utility")))
        head = ("", *who, "accuracy", "AUROC", *apart, "v", "u")
        return Table("What you could ship, as unseen rows will show it", head, tuple(rows))

    def explained(self) -> list[str]:
        """What the columns of the short table are."""
        lines = []
        if len(self.labels) == 2:
            names = " / ".join(self.groups[k] for k in self.largest())
            who = f"of {names}" if len(self.groups) == 2 else "of the groups, smallest – largest"
            lines = [f"recognised: of people with {self.labels[1]!r}, the share {who} that gets it"]
        if self.blind:
            lines.append("blind: without the group at decision time")
        if any("below" in (shown(a, self.gap, True) or "") for a in self.rows()):
            lines.append("below: two standard errors; with so few rows the gap may as well be zero")
        noise = "noise: the EO gap that pure chance shows; " if self.gap == "eo_gap" else ""
        return [*lines, f"{noise}v and u in nats"]

    def criteria(self) -> Table | None:
        """The criteria side by side, each within the same gap; None for more than two labels."""
        compared = self.of_kind("criterion")
        if not compared:
            return None
        gaps = (kind.gap_name for kind in CRITERIA.values())
        metrics = ("accuracy", "utility", "violation", "independence", "sufficiency", *gaps)
        rows = tuple((a.name, *(shown(a, name) for name in metrics)) for a in (self.first("plain"), *compared))
        error = max(a.promise["accuracy"][1] for a in compared)
        title = f"The criteria side by side, on unseen rows (accuracy ± {error:.2g} or less)"
        return Table(title, ("", *(METRICS[name].label for name in metrics)), rows)

    def command(self, folder: str, answer: Answer | None = None) -> str | None:
        """The command that ships an answer; without one, the next command, which succeeds.

        None for what `select` does not ship: the plain model, a constant, one point of a path.
        """
        asked = self._next() if answer is None else _asked(answer)
        options = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f" {_text(value)}")
            for name, value in asked.items()
        ]
        return " ".join(["separatrix select", shlex.quote(folder), *options, "--out model"]) if asked else None

    def _next(self) -> dict[str, Any]:
        """What to ask for next: what the first sentence is about, or a constant where nothing decides."""
        answer = self.ships or self.usual()
        if answer is None:
            tightest = self.of_kind("decisions")[:1]
            return {**_asked(*tightest), "allow_constant": True} if tightest else {}
        return {name: value for name, value in _asked(answer).items() if name != "method"}

    def python(self, folder: str, answer: Answer) -> str | None:
        """The same in Python; for one point of a trained path the predictor of that point."""
        start = f"import separatrix as sx\nfrontier = sx.Frontier.load({folder!r})\n"
        if answer.kind == "trained":
            inputs = ', inputs="x"' if answer.blind else ""
            return f"{start}model = frontier.model({answer.point['method']!r}, {answer.point['trade_off']:g}{inputs})"
        asked = [
            f"{name}={_text(value) if isinstance(value, float) else repr(value)}"
            for name, value in _asked(answer).items()
        ]
        if not asked:
            return None
        return f"{start}point = frontier.select({', '.join(asked)})\npoint.predictor.save('model')"

    def csv(self) -> str:
        """Every answer with every metric, its error and the rates of each group."""
        two = len(self.labels) == 2
        pairs = [(y, z) for y in range(len(self.labels)) for z in range(len(self.groups))]
        rates = [f"P({self.labels[1 if two else y]} | {self.labels[y]}, {self.groups[z]})" for y, z in pairs]
        head = ("Answer", "Kind", "Group used", "Maximize", "Budget", "Level", "Method", "λ")
        metrics = [m for m in METRICS if any(m in a.promise for a in self.answers)]
        errors = [x for m in metrics for x in (m, f"{m} error")]
        rows = []
        for a in (a for a in self.answers if a.kind != "choice" or a is self.shipped()):
            (budget, level), *_ = a.budgets.items() or [("", None)]
            about = (a.name, a.kind, "no" if a.blind else "yes", a.maximize, budget, level)
            estimates = [x for m in metrics for x in a.promise.get(m, (None, None))]
            rates_of_cells = [a.rates[y][z] if a.rates else None for y, z in pairs]
            point = a.point.get("method", ""), a.point.get("trade_off")
            rows.append((*about, *point, *estimates, a.floor, *rates_of_cells, a.note))
        return Table("", (*head, *errors, "EO gap noise", *rates, "Note"), tuple(rows)).csv()

    def largest(self, most: int = 4) -> list[int]:
        """The largest groups."""
        return [int(k) for k in np.argsort(-np.array(self.sizes), kind="stable")[:most]]

    def _shares(self, answer: Answer) -> str:
        """The rates of the largest groups, and the range of all where there are more."""
        row = answer.rates[1]
        large = [k for k in self.largest() if row[k] is not None]
        parts = [f"{_percent(row[k])} % of {self.groups[k]}" for k in large]
        if sum(rate is not None for rate in row) > len(large):
            return f"{', '.join(parts)} ({_range(row)} of all)"
        return listed(parts)

    def recognised(self, answer: Answer) -> str | None:
        """Rates of two groups, or the smallest and the largest of more."""
        if not answer.rates:
            return None
        row = answer.rates[1]
        return _range(row) if len(row) != 2 else f"{' / '.join(_percent(row[k]) for k in self.largest())} %"

    def short(self, answer: Answer) -> str:
        """Its name, with what must not be overlooked."""
        rule = answer.blind and answer.kind != "plain"
        name = f"blind: {answer.name.replace(' without the group', '')}" if rule else answer.name
        if answer.kind == "choice":
            return f"ships: {name}"
        if answer.always is not None and answer.kind != "constant":
            return f"{name}: always {answer.always!r}"
        if answer.kind == "decisions" and answer.maximize != self.aim:
            return f"{name}, best u"
        return name

    def lines(self) -> Iterator[str]:
        """The sentence and the table, for a terminal."""
        yield from wrapped(self.sentence())
        yield from ("", self.table().lines(WIDTH))
        for line in self.explained():
            yield from wrapped(line)

    def html(self) -> str:
        """The same for a notebook."""
        said = "".join(f"<p>{escape(text)}</p>" for text in (self.sentence(), *self.explained()))
        return said + self.table().html()


def shown(answer: Answer, metric: str, error: bool = False) -> str | None:
    """A promise with three digits, of nats with four; an EO gap of 0 as what it is below."""
    if metric not in answer.promise:
        return None
    value, wrong = answer.promise[metric]
    if METRICS[metric].nats:
        return f"{value:.4f}" if value == 0 or value >= 5e-4 else f"{value:.0e}"
    if not error or wrong <= 0:
        return f"{value:.3f}"
    return f"below {2 * wrong:.3f}" if metric == "eo_gap" and value < 5e-4 else f"{value:.3f} ± {wrong:.3f}"


def _asked(answer: Answer) -> dict[str, Any]:
    """What to pass to `select` for an answer; nothing for what it does not ship."""
    if answer.kind not in _SHIPPED:
        return {}
    asked: dict[str, Any] = {}
    for name, level in answer.budgets.items():
        other = name in _OTHERS
        asked |= {"criterion": _OTHERS[name], "max_gap": level} if other else {f"max_{name}": level}
    asked["maximize"] = answer.maximize
    if answer.kind in ("decisions", "chosen"):
        asked["method"] = str(answer.point["method"])
    return asked | ({"blind": True} if answer.blind else {})


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{100 * rate:.0f}"


def _range(rates: Sequence[float | None]) -> str:
    known = [rate for rate in rates if rate is not None]
    return f"{_percent(min(known))} – {_percent(max(known))} %"


def describe(data: Data, name: str) -> Iterator[str]:
    """Rows, labels, groups and what was left out, line by line."""
    cells, columns = data.cells, () if data.grouping is None else data.grouping.columns
    yield from wrapped(
        f"{name}: {len(data):,} rows, {len(data.features)} feature{'s' * (len(data.features) != 1)}; labels "
        f"{_sizes(data.labels, cells.sum(1))}; groups {_sizes(data.groups, cells.sum(0), columns)}"
    )
    for note in (*data.card.dropped, *data.card.notes):
        yield from wrapped(f"note: {note}", "  ")


def _sizes(names: Sequence[Hashable], sizes: Any, columns: Sequence[str] = ()) -> str:
    shares = zip(names, sizes / sizes.sum(), strict=True)
    parts = [f"{group_name(name, columns)} {share:.1%}" for name, share in shares]
    return ", ".join(parts[:6]) + (f" and {len(parts) - 6} more" if len(parts) > 6 else "")


def write_tables(frontier: Frontier) -> Iterator[str]:
    """Write frontier.csv and the page of a frontier; gives what to print, the answer first."""
    out = frontier.folder
    page = frontier.report(out / "report.html")  # compares the criteria, so it comes first
    shippable = frontier.shippable
    write_whole(out / "frontier.csv", shippable.csv())
    yield from shippable.lines()
    for answer in shippable.rows():
        if answer.note and answer.kind != "choice":  # its note is the first sentence
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
