"""Frontier: the folder of a trace as an object; its methods call the rooms below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.frames import tidy
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.errors import DataError, InfeasibleError, InputError
from separatrix.frontier import figures, page, tables
from separatrix.frontier.answers import Answer, Shippable
from separatrix.frontier.numeric import NumericFrontier
from separatrix.frontier.operating_point import OperatingPoint, model_of
from separatrix.frontier.questions_answered import compare_criteria, first_request, plain_audit
from separatrix.frontier.results import select
from separatrix.frontier.selection import ask, candidates_for
from separatrix.frontier.store import ALL_ROWS
from separatrix.frontier.traced import Traced, read_manifest
from separatrix.io import as_path
from separatrix.methods import POLICIES
from separatrix.optimum.objectives import Cost, budgets_of
from separatrix.predictor.predictor import Predictor
from separatrix.procedure.candidates import CandidateTable, choose
from separatrix.procedure.request import Request
from separatrix.report.table import Table
from separatrix.report.words import WIDTH, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class FrontierEnvelope(Envelope):
    """An envelope that knows which trained point each vertex is.

    Args:
        method, inputs, trade_off: of each vertex.
    """

    method: NDArray[Any]
    inputs: NDArray[Any]
    trade_off: NDArray[np.float64]

    @property
    def points(self) -> Any:
        """The vertices as a tidy frame."""
        names = ("violation", "utility", "method", "inputs", "trade_off")
        return tidy({name: getattr(self, name).tolist() for name in names})


class Frontier(Traced):
    """What `trace` found: candidates with their promises, points, models; `select` ships one.

    Made by `trace` or `Frontier.load`.
    """

    @staticmethod
    def load(folder: str | Path) -> Frontier | NumericFrontier:
        """The frontier that `save` or `separatrix trace --out` wrote; also of a numeric target."""
        place = as_path(folder, "folder")
        numbers = read_manifest(place)["task"] == NumericFrontier.task
        return NumericFrontier(place) if numbers else Frontier(place)

    @property
    def points(self) -> Any:
        """The points as a tidy frame: method, trade_off, fold, policy, violation, utility, …"""
        inner = ("dataset", "counts", "squares", "ordered")
        shown = [name for name in self.columns if name not in inner]
        return tidy({name: self.columns[name].tolist() for name in shown})

    def envelope(self, policy: str = "randomized", method: str | Sequence[str] | None = None) -> FrontierEnvelope:
        """Vertices of the upper concave envelope of the fold means: what revealed mixtures reach.

        Args:
            policy: "randomized" or "deterministic".
            method: only points of this method, or of these; by default of all.
        """
        if policy not in POLICIES:
            raise InputError(f"`policy` must be one of {', '.join(POLICIES)}, got {policy!r}.")
        named = {} if method is None else {"method": method}
        mean = select(self.means, policy=policy, lost=0, **named)
        hull = concave_envelope(mean["violation"], mean["utility"])
        of_vertex = (mean[name][hull.index] for name in ("method", "inputs", "trade_off"))
        return FrontierEnvelope(hull.violation, hull.utility, hull.index, *of_vertex)

    def model(self, method: str, trade_off: float, *, inputs: str = "xz", fold: int = ALL_ROWS) -> Predictor:
        """The model behind a point: of one fold, or (fold −1) the one trained on all rows.

        `method` is "METHOD" or "METHOD:RECIPE".
        """
        return model_of(self, method, trade_off, inputs=inputs, fold=fold)

    def select(
        self,
        *,
        max_violation: float | None = None,
        max_eo_gap: float | None = None,
        criterion: str = "separation",
        max_gap: float | None = None,
        maximize: str | Cost | Callable[[NDArray[np.float64]], Any] = "accuracy",
        confidence: float | None = None,
        guarantee: str = "finite-sample",
        blind: bool = False,
        method: str | Sequence[str] | None = None,
        use_whole_budget: bool = False,
        allow_constant: bool = False,
    ) -> OperatingPoint:
        """One operating point within the budgets.

        `point.predictor` is what to ship, `point.promise` what it will show on unseen rows, and
        `print(point)` says both.

        Args:
            max_violation, max_eo_gap: budgets, one or both.
            criterion: "separation", or for decisions of two labels "independence" (demographic
                parity), "sufficiency" (predictive parity) or "equal_opportunity": solved rules.
            max_gap: budget of the criterion's own gap: EO, parity, predictive or TPR gap;
                `max_violation` is then its information in nats.
            maximize: "accuracy", "balanced_accuracy", "utility" or `Cost(...)`: decisions; "auroc":
                a score, whose budgets hold at every threshold (max_eo_gap) or for the score in 20
                bins (max_violation); a function of tables (folds, y, z, u): trained points only.
            confidence: None: budgets are kept by what unseen rows are expected to show; else with
                this probability: rows that a solved rule did not see certify it.
            guarantee: of a confidence: "finite-sample" holds for any number of rows,
                "large-sample" needs fewer of them.
            blind: decide without the group; the frontier must have been traced with blind=True.
            method: only points of this method, or of these, as "cmi" or with a recipe, as
                "cmi:score"; "postprocessing" for rules around the base model only.
            use_whole_budget: maximise within the budgets, instead of the simplest candidate that
                keeps them and is not worse.
            allow_constant: also ship a decision that is the same for everybody.
        """
        budgets = budgets_of(criterion, max_gap, max_violation, max_eo_gap)
        if not budgets:
            raise InputError(
                "Pass a budget: `max_eo_gap`, `max_violation` (nats), or both; `max_gap` for "
                "another criterion than separation."
            )
        question = Request(maximize, budgets, blind, confidence, guarantee, use_whole_budget)
        other = criterion != "separation"
        if other and (confidence is not None or maximize == "auroc" or not question.solvable):
            raise InputError(
                f"criterion={criterion!r} is for decisions that are solved and expected to keep "
                "the budget: leave `confidence` out, and maximise 'accuracy', "
                "'balanced_accuracy', 'utility' or a Cost(...)."
            )
        return ask(self, question, method=method, allow_constant=allow_constant)

    @property
    def candidates(self) -> CandidateTable:
        """What could ship for the budget of the trace, simplest first, each with its promise."""
        request = first_request(self)
        found = candidates_for(self, request)
        try:
            shipped = choose(found, request).candidate
        except InfeasibleError:  # the budget of the trace cannot be promised
            return CandidateTable(found, (request.aim, *request.budgets))
        found = [shipped if one.name == shipped.name else one for one in found]
        return CandidateTable(found, (request.aim, *request.budgets), shipped.name)

    @property
    def answers(self) -> list[Answer]:
        """What could be shipped, as the terminal and the report show it."""
        return list(self.shippable.answers)

    @property
    def shippable(self) -> Shippable:
        """The answers in words and as a short table."""
        found = Shippable.of(self.results)
        if found is None:
            raise DataError(
                f"{str(self.folder)!r} has no answers: its trace did not end. Trace the data again "
                "with the same folder."
            )
        return found

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Axes | Figure:
        """What could be shipped: accuracy against the EO gap with the answers' errors.

        For more than two labels u against v.

        Args:
            path: write the figure there, with the plane of u and v beside it.
            ax: where to draw; by default new axes.

        Returns:
            The axes; with a path the figure.
        """
        if path is not None:
            return figures.write_answers(self.results, self.shippable, path)
        return figures.draw_answers(self.results, self.shippable, ax)

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML page that opens offline.

        The first page of a frontier also solves for the other criteria, to compare them.
        """
        compare_criteria(self)
        return page.write(self.folder, path, plain_audit=plain_audit(self))

    def summary(self, policy: str = "randomized") -> Table:
        """Fold means of every point as a table."""
        return tables.paths(self.columns, self.name, policy)

    def __str__(self) -> str:
        shown = self.shippable
        return "\n".join(
            [
                *wrapped(shown.sentence()),
                "",
                shown.table().lines(WIDTH),
                *(line for text in shown.explained() for line in wrapped(text)),
            ]
        )

    def _repr_html_(self) -> str:
        shown = self.shippable
        said = "".join(f"<p>{escape(text)}</p>" for text in (shown.sentence(), *shown.explained()))
        return said + shown.table().html()
