"""Frontier: the folder of a trace as an object; its methods call the rooms below."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.frames import tidy
from separatrix.columns.groups import Grouping
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.core.measures import CRITERIA
from separatrix.crossfit.out_of_fold import NestedScores
from separatrix.datasets import Preprocessing
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier import figures, page
from separatrix.frontier.answers import Answer, compare_criteria
from separatrix.frontier.base_models import JOINT, LABELS, WITHOUT
from separatrix.frontier.folder import Folder, read_manifest
from separatrix.frontier.numeric import NumericFrontier
from separatrix.frontier.operating_point import OperatingPoint, held_out_audit, model_of
from separatrix.frontier.results import Columns, Results, select
from separatrix.frontier.selection import ask, candidates_for, choice_of
from separatrix.frontier.shippable import Shippable
from separatrix.frontier.store import ALL_ROWS, SavedRun
from separatrix.io import as_path
from separatrix.methods import POLICIES
from separatrix.optimum.objectives import Cost, budgets_of
from separatrix.predictor.predictor import Predictor
from separatrix.procedure.candidates import CandidateTable
from separatrix.procedure.procedures import Plain, Procedure, Rows
from separatrix.procedure.promise import Measured, Run
from separatrix.procedure.request import Request

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


class Frontier(Folder):
    """What `trace` found: candidates with their promises, points, models; `select` ships one.

    Made by `trace` or `Frontier.load`.
    """

    @staticmethod
    def load(folder: str | Path) -> Frontier | NumericFrontier:
        """The frontier that `save` or `separatrix trace --out` wrote; also of a numeric target."""
        place = as_path(folder, "folder")
        numbers = read_manifest(place)["task"] == NumericFrontier.task
        return NumericFrontier(place) if numbers else Frontier(place)

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self._measured: dict[str, Measured] = {}  # solving twice takes twice the time

    @cached_property
    def results(self) -> Results:
        """The records, curves and models."""
        return Results.read(self.folder)

    @property
    def columns(self) -> Columns:
        """The points as arrays: a row per method, inputs, λ, fold and policy; see `tidy`."""
        return self.results.columns

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels in the order of their codes."""
        return tuple(self.manifest["labels"])

    @cached_property
    def table(self) -> Rows:
        """Labels and groups of every row, for procedures."""
        share = self.manifest["people"] / self.manifest["rows"]
        return Rows(self.rows["y"], self.rows["z"], self.labels, self.groups, share=share)

    @property
    def grouping(self) -> Grouping | None:
        """Finds the group of raw rows by column name, where the groups came from columns."""
        known = self.manifest["grouping"]
        return None if known is None else Grouping.from_dict(known)

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The names of the groups' columns, where these have names."""
        return () if self.grouping is None else self.grouping.columns

    def preprocessing(self, fold: int = ALL_ROWS) -> Preprocessing | None:
        """From raw columns to X, by the training rows of `fold`; None where X was a matrix."""
        known = self.manifest["preprocessing"].get(str(fold))
        return None if known is None else Preprocessing.from_dict(known)

    @property
    def nested(self) -> NestedScores:
        """The base models' honest scores P(y | x, z), for every outer fold and for all rows."""
        return self.scores(LABELS)

    def scores(self, kind: str) -> NestedScores:
        """The honest scores of a kind; see `base_models`.

        A base model of the caller's sees the caller's rows as they are: where these do not hold the
        group, it is the same model with and without.
        """
        if kind == JOINT and not self.blind:
            raise InputError(
                "This frontier was traced with the group only. Trace it again with blind=True "
                "(--blind) for decisions without the group."
            )
        return super().scores(LABELS if kind == WITHOUT and not self.reads_group else kind)

    def run(self, kind: str, procedure: Procedure) -> Run:
        """A procedure around the base model, on the rows of the trace."""
        return Run(procedure, self.scores(kind), self.table)

    def measured(self, kind: str, procedure: Procedure) -> Measured:
        """A procedure around the base model, run on every outer fold and on all rows; once."""
        asked = f"{kind} {procedure}"
        if asked not in self._measured:
            self._measured[asked] = self.run(kind, procedure).measured()
        return self._measured[asked]

    @property
    def sees_groups(self) -> bool:
        """Whether the base model was given the group beside the features."""
        return bool(self.manifest["base"]["reads"] == "xz")

    @property
    def left_out(self) -> tuple[int, ...]:
        """Places of the columns of the caller's rows that hold the group."""
        return tuple(self.manifest["base"]["left_out"])

    @property
    def reads_group(self) -> bool:
        """Whether the plain model needs the group, beside the features or among them."""
        return self.sees_groups or bool(self.left_out)

    @property
    def impossible(self) -> str:
        """Why there is no model without the columns that hold the group; "" if there is one."""
        return str(self.manifest["base"]["impossible"])

    @property
    def criterion(self) -> str:
        """The criterion whose gap the usual questions are about."""
        return str(self.manifest.get("criterion", "separation"))

    @property
    def first_request(self) -> Request:
        """What the first sentence is about."""
        name = CRITERIA[self.criterion].gap_name
        return Request("accuracy", {name: float(self.manifest["max_eo_gap"])})

    @property
    def blind(self) -> bool:
        """Whether decisions without the group were traced too."""
        return bool(self.manifest["blind"])

    def saved_run(
        self, method: str, trade_off: float, *, inputs: str = "xz", fold: int = ALL_ROWS
    ) -> tuple[SavedRun, int]:
        """The stack that holds a run, and its lane there.

        Args:
            method: "METHOD" or "METHOD:RECIPE"; without a recipe the default one, or the only one.
            trade_off, inputs, fold: of the run.
        """
        name, _, recipe = method.partition(":")
        known = list(dict.fromkeys(s.first.recipe for s in self.results.saved if s.first.method == name))
        recipe = recipe or (known[0] if len(known) == 1 else "default")
        wanted = name, recipe, inputs, fold, trade_off
        for saved in self.results.saved:
            for lane, run in enumerate(saved.runs):
                if (run.method, run.recipe, run.inputs, run.fold, run.trade_off) == wanted:
                    return saved, lane
        raise InputError(
            f"This frontier has no model {method!r} with λ = {trade_off:g}, inputs {inputs!r} and "
            f"fold {fold}. Its points are in `points`."
        )

    def held_out(self, method: str, trade_off: float, *, inputs: str = "xz") -> NDArray[np.float32]:
        """Posteriors (n, K) of every row, in order, by the model that was not trained on it."""
        out = np.full((len(self.rows["y"]), len(self.labels)), np.nan, dtype=np.float32)
        for fold in range(int(self.manifest["folds"])):
            saved, lane = self.saved_run(method, trade_off, inputs=inputs, fold=fold)
            out[self.rows["fold"] == fold] = saved.held_out[lane]
        return out

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
        mean = select(self.results.mean, policy=policy, lost=0, **named)
        hull = concave_envelope(mean["violation"], mean["utility"])
        of_vertex = (mean[name][hull.index] for name in ("method", "inputs", "trade_off"))
        return FrontierEnvelope(hull.violation, hull.utility, hull.index, *of_vertex)

    def model(self, method: str, trade_off: float, *, inputs: str = "xz", fold: int = ALL_ROWS) -> Predictor:
        """The model behind a point: of one fold, or (fold −1) the one trained on all rows.

        `method` is "METHOD" or "METHOD:RECIPE".
        """
        return model_of(self, method, trade_off, inputs, fold)

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
                f"criterion={criterion!r} is for decisions that are solved and expected to keep the budget: leave "
                "`confidence` out, and maximise 'accuracy', 'balanced_accuracy', 'utility' or a Cost(...)."
            )
        return ask(self, question, method=method, allow_constant=allow_constant)

    @property
    def candidates(self) -> CandidateTable:
        """What could ship for the budget of the trace, simplest first, each with its promise."""
        request = self.first_request
        possible, metrics = candidates_for(self, request), (request.aim, *request.budgets)
        try:
            ships = choice_of(self, possible, request).candidate
        except InfeasibleError:  # the budget of the trace cannot be promised
            return CandidateTable(possible, metrics)
        return CandidateTable(
            [ships if candidate.name == ships.name else candidate for candidate in possible], metrics, ships.name
        )

    @property
    def answers(self) -> list[Answer]:
        """What could be shipped, as the terminal and the report show it."""
        return list(self.shippable.answers)

    @property
    def shippable(self) -> Shippable:
        """The answers in words and as a short table."""
        return self.ended(Shippable.read(self.results))

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Axes | Figure:
        """What could be shipped: accuracy against the EO gap with the answers' errors.

        For more than two labels u against v.

        Args:
            path: write the figure there, with the plane of u and v beside it.
            ax: where to draw; by default new axes.

        Returns:
            The axes; with a path the figure.
        """
        drawn: Axes | Figure = figures.plot(self.results, self.shippable, path, ax)
        return drawn

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML page that opens offline.

        The first page of a frontier also solves for the other criteria, to compare them.
        """
        compare_criteria(self)
        plain = self.measured(LABELS, Plain())
        audit = held_out_audit(self, plain.tables, plain.squares)
        return page.write(self.folder, path, plain_audit=audit)

    def __str__(self) -> str:
        return "\n".join(self.shippable.lines())

    def _repr_html_(self) -> str:
        return self.shippable.html()
