"""A numeric target: aligned predictions around a regressor, and their frontier.

The rows are split once (`crossfit.nested`): in every outer fold the regressor is cross-fitted on
the other folds, maps are fitted to its predictions of rows that it did not see, and the outer fold
is predicted by the regressor that did not see it. What ships is the same procedure on all rows. The
manifest holds R², RMSE and v of every penalty on every outer fold.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from separatrix import datasets
from separatrix.columns.frames import tidy
from separatrix.columns.groups import Grouping, as_groups, group_columns, to_plain
from separatrix.columns.values import Levels, check_lengths
from separatrix.core.conditional_cmi import attribute_bins, rank_violation
from separatrix.core.measures import label_of
from separatrix.core.numbers import not_negative
from separatrix.crossfit.base_models import Base
from separatrix.crossfit.nested import plan_fits
from separatrix.datasets import Preprocessing
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier.base_models import NUMBERS, BaseRows
from separatrix.frontier.folder import Folder, check_same, kept_with, remove_checksums, write_manifest, writing
from separatrix.frontier.rows import Settings, features_of, one_column
from separatrix.frontier.store import hash_of
from separatrix.io import Stages, write_whole
from separatrix.optimum.margin import up
from separatrix.optimum.scores.align import (
    PENALTIES,
    SENSITIVE,
    Numeric,
    aligned_path,
    attribute,
    inner_violations,
    least_penalty,
    outcome,
)
from separatrix.predictor.predictor import Branch, Predictor
from separatrix.procedure.promise import tightened
from separatrix.report.figures import blank_figure, figure_bytes, new_axes, write_figure
from separatrix.report.page import render_template
from separatrix.report.table import Table
from separatrix.report.words import WIDTH, estimate_text, wrapped
from separatrix.statistics.unseen import Promise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
METRICS = ("r2", "rmse", "violation")
_SIZE = 5.6, 3.6  # of the figure, inches
_SAID = (
    "R² and RMSE say how good the predictions are. v says how much a prediction still tells about "
    "the group among people with the same outcome, in nats; 0 is nothing. Means over outer folds, "
    "± standard error. `select` chooses the penalty for a budget of v on inner folds."
)
_BASE = "regressor"
_REGRESSORS = {"trees": HistGradientBoostingRegressor(random_state=0), "linear": LinearRegression()}


@dataclass(frozen=True, eq=False)
class NumericPoint:
    """What ships within a budget, and what unseen rows will show.

    Args:
        frontier: what it was chosen from.
        max_violation: the budget; None for the best R².
        penalty: β of what ships.
        promise: R², RMSE and v with standard errors: means over outer folds, each with a penalty
            that its own inner folds chose.
        eased: outer folds that could not keep the budget and took the least v.
    """

    frontier: NumericFrontier = field(repr=False)
    max_violation: float | None
    penalty: float
    promise: Mapping[str, Promise]
    eased: int

    @cached_property
    def predictor(self) -> Predictor:
        """The procedure that was measured, on all rows: what to ship."""
        choice = {"maximize": "r2", "penalty": self.penalty, "promise": self.promise}
        if self.max_violation is not None:
            choice["max_violation"] = self.max_violation
        return self.frontier.predictor(self.penalty, choice)

    def save(self, folder: str | Path) -> Path:
        """Write what ships as a folder without pickle; `separatrix.load(folder)` reads it."""
        return Path(self.predictor.save(folder))

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said: no signal."""
        r2 = self.promise["r2"]
        if r2.value > 2.0 * r2.error:
            return ()
        return (
            f"No signal: R² {estimate_text('r2', r2)} is not above 0 by two errors, so the "
            "mean outcome, the same for everybody, predicts as well.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        promise = {name: list(promised) for name, promised in self.promise.items()}
        asked = {"max_violation": self.max_violation, "penalty": self.penalty}
        return {**asked, "promise": promise, "eased": self.eased, "notes": list(self.notes)}

    def __str__(self) -> str:
        asked = "best R²" if self.max_violation is None else f"v ≤ {self.max_violation:g}"
        said = [f"{label_of(name)} {estimate_text(name, x)}" for name, x in self.promise.items()]
        eased = f" {self.eased} outer folds could not keep it." if self.eased else ""
        first = f"{asked}: on unseen rows {', '.join(said)} (penalty {self.penalty:g}).{eased}"
        return "\n".join([first, *(line for note in self.notes for line in wrapped(f"! {note}"))])


class NumericFrontier(Folder):
    """What is possible for a numeric target. Made by `trace(..., task="regression")`.

    `points` has R², RMSE and v of every penalty, `select` solves for a budget, `report` writes a
    page.
    """

    task = "numbers"

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        y, z = self.rows["y"], self.rows["z"]
        self.nested = self.scores(NUMBERS)
        self.data = Numeric(y, self.nested.honest[:, 0], z, self.groups)
        self.codes = self.data.codes
        self._inner: dict[int | None, Iterator[float]] = {}

    @property
    def points(self) -> Any:
        """A tidy frame: penalty (none for the regressor as it is), fold, r2, rmse, violation."""
        return tidy({name: [row[name] for row in self._points] for name in ("penalty", "fold", *METRICS)})

    @property
    def means(self) -> list[tuple[float | None, dict[str, Promise]]]:
        """Each penalty with the means over the outer folds and their standard errors."""
        rows = self._points
        penalties = dict.fromkeys(row["penalty"] for row in rows)
        return [(penalty, _mean([row for row in rows if row["penalty"] == penalty])) for penalty in penalties]

    @property
    def _points(self) -> list[dict[str, Any]]:
        return list(self.ended(self.manifest["points"]))

    def measured(self) -> list[dict[str, Any]]:
        """R², RMSE and v of the regressor as it is and of every penalty, on every outer fold."""
        rows: list[dict[str, Any]] = []
        for k in self.nested.folds:
            tested, scores = self.nested.tested(k)
            test, codes = replace(self.data[tested], s=scores[:, 0]), self.codes[tested]
            path = aligned_path(self._training(k), PENALTIES, self.manifest["levels"])
            shown = {None: test.s} | {
                aligned.penalty: aligned.levels[aligned.coded(test.s, test.z)] for aligned in path
            }
            for penalty, u in shown.items():
                error = float(np.mean((test.y - u) ** 2))
                v = rank_violation(test.y, u, codes, int(self.codes.max()) + 1)
                judged = {"r2": 1.0 - error / float(test.y.var()), "rmse": error**0.5, "violation": v}
                rows.append({"penalty": penalty, "fold": k, **judged})
        return rows

    def select(self, *, max_violation: float | None = None) -> NumericPoint:
        """The best R² within a budget of v; without one, the best R².

        `point.predictor` is what to ship, `point.promise` what it will show on unseen rows. The
        penalty is chosen on inner folds, in every outer fold anew.

        Args:
            max_violation: v of conditional ranks, in nats.

        Raises:
            InfeasibleError: no penalty promises the budget; it says the smallest that one does.
        """
        if max_violation is None:
            return self._point({})
        asked = {"violation": not_negative(max_violation, "max_violation")}
        tightest = tightened(self._point, lambda point: {"violation": point.promise["violation"].value}, asked)
        return replace(tightest, max_violation=max_violation)

    def command(self) -> str:
        """The next command: half of the violation that the regressor has, where a penalty shows it.

        `select` chooses penalties on inner folds, which would take longer than the trace.
        """
        (_, plain), *others = self.means
        shown = [promised["violation"].value + promised["violation"].error for _, promised in others]
        most = up(max(0.5 * plain["violation"].value, min(shown), 1e-6))
        folder = shlex.quote(str(self.folder))
        return f"separatrix select {folder} --max-violation {most} --out model"

    def _point(self, budgets: Mapping[str, float]) -> NumericPoint:
        """The least penalty that keeps a budget on inner folds, of all rows and of every fold."""
        penalty = self._penalty(None, budgets)
        known = {(row["penalty"], row["fold"]): row for row in self._points}
        rows, eased = [], 0
        for k in self.nested.folds:
            try:
                penalty_of_fold = self._penalty(k, budgets)
            except InfeasibleError as error:  # the fold has fewer rows
                penalty_of_fold = self._penalty(k, error.smallest)
                eased += 1
            rows.append(known[penalty_of_fold, k])
        return NumericPoint(self, None, penalty, _mean(rows), eased)

    def _penalty(self, k: int | None, budgets: Mapping[str, float]) -> float:
        """That keeps a budget on inner folds of the training rows of fold k; None: of all rows."""
        if not budgets:
            return PENALTIES[0]
        if k not in self._inner:
            levels, seed = self.manifest["levels"], self.manifest["seed"]
            self._inner[k] = inner_violations(self._training(k), levels=levels, random_state=seed)
        violations, self._inner[k] = tee(self._inner[k])  # what is known is not computed again
        return least_penalty(budgets["violation"], violations)

    def _training(self, k: int | None) -> Numeric:
        """Rows that the maps of fold k are fitted to, with honest predictions; None: all rows."""
        rows, scores = self.nested.training(k)
        return replace(self.data[rows], s=scores[:, 0])

    def predictor(self, penalty: float, choice: dict[str, Any]) -> Predictor:
        """The regressor of all rows with the maps of a penalty; `choice` is written on its card."""
        m = self.manifest
        path = [beta for beta in PENALTIES if beta <= penalty]
        shipped = aligned_path(self._training(None), path, m["levels"])[-1]
        if len(shipped.levels) < 2:
            raise InputError(f"This regressor releases {shipped.levels[0]:g} for everybody: there is nothing to ship.")
        prepared = m["preprocessing"]
        return Predictor(
            tuple(shipped.levels.tolist()),
            self.groups,
            (Branch(Base(self.base(NUMBERS).model(None), "value"), shipped),),
            preprocessing=None if prepared is None else Preprocessing.from_dict(prepared),
            grouping=Grouping(tuple(m["columns"]), self.groups),
            about={"choice": choice, "card": {"name": m["name"], "rows": m["rows"]}},
        )

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Axes | Figure:
        """R² against v on `ax` or new axes, which it returns; with a path the figure, written."""
        if path is None:
            return self._draw(new_axes(*_SIZE) if ax is None else ax)
        figure = blank_figure(*_SIZE)
        self._draw(figure.subplots())
        write_figure(figure, path)
        return figure

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML page that opens offline."""
        figure = blank_figure(*_SIZE)
        self._draw(figure.subplots())
        picture = figure_bytes(figure, "svg").decode()
        page = render_template(
            "numeric.html.jinja", title=self._title, finding=self._finding, said=_SAID,
            svg=picture[picture.index("<svg") :], table=self._table,
        )  # fmt: skip
        write_whole(Path(path), page)
        return Path(path)

    def __str__(self) -> str:
        table = self._table.lines(WIDTH)
        return "\n".join([self._title, *wrapped(self._finding), "", table, "", *wrapped(_SAID)])

    @property
    def _title(self) -> str:
        m = self.manifest
        asked = f"{m['target']} given {' & '.join(m['columns'])}"
        return f"{m['name']}: {asked}; {m['rows']:,} rows, {m['base']['model']}"

    @property
    def _finding(self) -> str:
        """The regressor as it is, in a sentence."""
        plain = next(promised for penalty, promised in self.means if penalty is None)
        v, whose = estimate_text("violation", plain["violation"]), self.manifest["columns"]
        return (
            f"As it is, the model explains {plain['r2'].value:.0%} of the variance of {self.manifest['target']}; "
            f"among people with the same outcome its predictions tell v = {v} nats about {' & '.join(whose)}."
        )

    @property
    def _table(self) -> Table:
        rows = [
            (
                "as it is" if penalty is None else f"{penalty:g}",
                *(estimate_text(name, promised[name]) for name in METRICS),
            )
            for penalty, promised in self.means
        ]
        return Table("", ("penalty", "R²", "RMSE", "v"), tuple(rows))

    def _draw(self, ax: Axes) -> Axes:
        """R² against v, with errors; the regressor as it is as a diamond."""
        for penalty, promised in self.means:
            plain = penalty is None
            ax.errorbar(
                promised["violation"].value, promised["r2"].value, promised["r2"].error,
                promised["violation"].error, fmt="D" if plain else "o", ms=6 if plain else 4,
                color="#d55e00" if plain else "#0072b2", label="as it is" if plain else None,
            )  # fmt: skip
        ax.set(xlabel="violation v, nats (less is better)", ylabel="R² (more is better)")
        ax.legend()
        return ax


def _mean(rows: list[dict[str, Any]]) -> dict[str, Promise]:
    promises = {}
    for name in METRICS:
        x = np.array([row[name] for row in rows])
        promises[name] = Promise.normal(float(x.mean()), float(x.std(ddof=1) / np.sqrt(len(x))))
    return promises


def trace_numeric(X: Any, y: Any, sensitive_features: Any, settings: Settings, name: str = "data") -> NumericFrontier:
    """What is possible for a numeric target: R², RMSE and v along the penalties.

    Args:
        X: a frame, a mapping of columns or a matrix.
        y: numbers.
        sensitive_features: groups, or one column of numbers for ``sensitive="continuous"``.
        settings: of the trace. The `estimator` is None or "trees" for boosted trees, "linear" for
            least squares, both on prepared columns; or a regressor, which gets X as it is.
        name: of the data, for people.
    """
    target, column = one_column(y)
    numbers, columns = outcome(column, target), group_columns(sensitive_features)
    z, groups = _attribute(columns, settings.sensitive)
    codes = z if groups else attribute_bins(z)
    model, rows, prepared = _rows(X, settings.estimator, target)
    n = check_lengths({target: numbers, "sensitive_features": z})
    if (len(rows) if hasattr(rows, "__len__") else rows.shape[0]) != n:
        raise InputError(f"`X` and `y` must have as many rows, {n:,} in `y`.")
    settings.check_folds(n)
    fold = datasets.folds(np.zeros(n, dtype=np.intp), codes, settings.cv, settings.random_state)
    bases = [_BASE] * (settings.cv + 1)
    key = hash_of([repr(model), joblib.hash([rows, numbers, z, fold])])
    note = f"Base model: {type(model).__name__}."
    about = {
        "task": NumericFrontier.task, "name": name, "target": target, "seed": settings.random_state,
        "fingerprint": joblib.hash([rows, numbers, z]), "levels": settings.levels, "labels": [],
        "columns": list(columns), "groups": [to_plain(group) for group in groups], "notes": [],
        "preprocessing": None if prepared is None else prepared.to_dict(), "points": [],
        "base": {"bases": bases, "key": key, "note": note, "model": type(model).__name__},
    }  # fmt: skip
    stages = Stages(settings.execution.progress)
    with writing(settings.out) as folder:
        known = {name: about[name] for name in ("task", "fingerprint")}
        check_same(folder, reason=note, **known, key=key)
        remove_checksums(folder)
        base = BaseRows(folder, rows, numbers, z, (1, max(len(groups), 1)), fold, key, bases, NUMBERS)
        with stages.stage(f"Fitting {type(model).__name__}", len(plan_fits(bases))) as done:
            base.fit({_BASE: model}, n_jobs=settings.execution.n_jobs, done=done)
        arrays = {"y": numbers, "z": z, "fold": fold}
        write_manifest(folder, arrays, about)
        with stages.stage("Measuring what could be shipped"):
            write_manifest(folder, arrays, about | {"points": NumericFrontier(folder).measured()})
    return kept_with(NumericFrontier(folder), settings.out)


def _attribute(columns: dict[str, Any], sensitive: str) -> tuple[NDArray[Any], Levels]:
    """Codes and groups, or numbers."""
    if sensitive not in SENSITIVE:
        raise InputError(f"`sensitive` must be one of {', '.join(SENSITIVE)}, got {sensitive!r}.")
    if sensitive == "groups":
        coded = as_groups(columns)
        return np.asarray(coded.codes, dtype=np.intp), coded.levels
    if len(columns) != 1:
        raise InputError(f'sensitive="continuous" takes one column of numbers, got {", ".join(columns)}.')
    return attribute(next(iter(columns.values()))), ()


def _rows(X: Any, estimator: Any, target: str) -> tuple[Any, Any, Preprocessing | None]:
    """The regressor to clone, what it sees, and the preparation of raw columns."""
    if estimator is not None and not isinstance(estimator, str):
        return estimator, X, None
    if estimator is not None and estimator not in _REGRESSORS:
        raise InputError(f"There is no regressor {estimator!r}. Pass {', '.join(_REGRESSORS)}, or a regressor object.")
    columns = features_of(X)
    if target in columns:
        raise InputError(f"The target {target!r} is also in `X`. Leave it out there.")
    prepared = datasets.plan(columns).fit(columns)
    return _REGRESSORS[estimator or "trees"], prepared.transform(columns), prepared
