"""A numeric target: `trace` of aligned predictions around a regressor, and its frontier.

The rows are split once (`crossfit.nested`): in every outer fold the regressor is cross-fitted on
the other folds, maps are fitted to its predictions of rows that it did not see, and the outer fold
is predicted by the regressor that did not see it. What ships is the same procedure on all rows. The
folder holds `numeric.json` (names, settings, points), `numeric.safetensors` (outcome, attribute and
fold of every row) and the fits in `base/`.
"""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from separatrix import __version__, datasets
from separatrix.columns.frames import tidy
from separatrix.columns.groups import Grouping, as_groups, from_plain, group_columns, to_plain
from separatrix.columns.values import Levels, check_lengths
from separatrix.core.conditional_cmi import attribute_bins, rank_violation
from separatrix.core.measures import label_of
from separatrix.core.numbers import not_negative, whole_number
from separatrix.crossfit.nested import plan_fits
from separatrix.datasets import Preprocessing
from separatrix.errors import DataError, InfeasibleError, InputError
from separatrix.frontier.base_models import (
    BASE,
    NUMBERS,
    BaseRows,
    fit_bases,
    read_bases,
    read_model,
)
from separatrix.frontier.rows import features_of, one_column
from separatrix.frontier.traced import check_sums, remove_checksums, writing
from separatrix.io import Stages, as_path, copy_folder, write_whole
from separatrix.optimum.scores.align import (
    PENALTIES,
    SENSITIVE,
    AlignedScore,
    Numeric,
    aligned_path,
    attribute,
    chosen,
    outcome,
)
from separatrix.predictor.branch import Base, Branch
from separatrix.predictor.predictor import Predictor
from separatrix.report.figures import blank_figure, figure_bytes, new_axes, write_figure
from separatrix.report.page import render_template
from separatrix.report.table import Table
from separatrix.report.words import WIDTH, estimate_text, wrapped
from separatrix.statistics.unseen import Promise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ARRAYS, MANIFEST, FORMAT = "numeric.safetensors", "numeric.json", 3
Array = NDArray[np.float64]
METRICS = ("r2", "rmse", "violation")
_SIZE = 5.6, 3.6  # of the figure, inches
_SAID = (
    "R² and RMSE say how good the predictions are. v says how much a prediction still tells about "
    "the group among people with the same outcome, in nats; 0 is nothing. Means over outer folds, "
    "± standard error. `select` chooses the penalty for a budget of v on inner folds."
)
_BASE = "regressor"


@dataclass(frozen=True, eq=False)
class NumericPoint:
    """What ships within a budget, and what unseen rows will show.

    Args:
        max_violation: the budget; None for the best R².
        penalty: β of what ships.
        promise: R², RMSE and v with standard errors: means over outer folds, each with a penalty
            that its own inner folds chose.
        eased: outer folds that could not keep the budget and took the least v.
        make: makes the predictor.
    """

    max_violation: float | None
    penalty: float
    promise: dict[str, Promise]
    eased: int
    make: Callable[[], Predictor] = field(repr=False)

    @cached_property
    def predictor(self) -> Predictor:
        """The procedure that was measured, on all rows: what to ship."""
        return self.make()

    def save(self, folder: str | Path) -> Path:
        """Write what ships as a folder without pickle; `separatrix.load(folder)` reads it."""
        return Path(self.predictor.save(folder))

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said: no signal, or a budget that unseen rows are not expected to keep."""
        r2, v, notes = self.promise["r2"], self.promise["violation"], []
        if r2.value <= 2.0 * r2.error:
            notes.append(
                f"No signal: R² {estimate_text('r2', r2)} is not above 0 by two errors, so the "
                "mean outcome, the same for everybody, predicts as well."
            )
        if self.max_violation is not None and v.value > self.max_violation:
            notes.append(
                f"Unseen rows are expected to show v {estimate_text('violation', v)}, more than "
                f"the {self.max_violation:g} asked."
            )
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        promise = {name: list(found) for name, found in self.promise.items()}
        asked = {"max_violation": self.max_violation, "penalty": self.penalty}
        return {**asked, "promise": promise, "eased": self.eased, "notes": list(self.notes)}

    def __str__(self) -> str:
        asked = "best R²" if self.max_violation is None else f"v ≤ {self.max_violation:g}"
        said = [f"{label_of(name)} {estimate_text(name, x)}" for name, x in self.promise.items()]
        eased = f" {self.eased} outer folds could not keep it." if self.eased else ""
        first = f"{asked}: on unseen rows {', '.join(said)} (penalty {self.penalty:g}).{eased}"
        return "\n".join([first, *(line for note in self.notes for line in wrapped(f"! {note}"))])


class NumericFrontier:
    """What is possible for a numeric target. Made by `trace(..., task="regression")`.

    `points` has R², RMSE and v of every penalty, `select` solves for a budget, `report` writes a
    page.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        check_sums(self.folder)
        try:
            self.manifest: dict[str, Any] = json.loads((self.folder / MANIFEST).read_text("utf-8"))
            arrays = load((self.folder / ARRAYS).read_bytes())
            if self.manifest["format"] != FORMAT:
                raise ValueError(f"format {self.manifest['format']}")
            self.groups = tuple(map(from_plain, self.manifest["groups"]))
            self.data = Numeric(arrays["y"], arrays["y"], arrays["z"], self.groups)
            codes = arrays["y"], arrays["z"], (1, 1), arrays["fold"]
            self._base = BaseRows(None, *codes, "", NUMBERS)
            self._bases = [_BASE] * (int(self.manifest["folds"]) + 1)
            self.nested = read_bases(self.folder, self._base, self._bases)
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise DataError(
                f"{str(self.folder)!r} is not a whole frontier of a numeric target "
                f"({type(error).__name__}: {error})."
            ) from error
        numeric = self.manifest["sensitive"] == "continuous"
        self.codes = attribute_bins(self.data.z) if numeric else self.data.z

    @property
    def points(self) -> Any:
        """A tidy frame: penalty (none for the regressor as it is), fold, r2, rmse, violation."""
        names = ("penalty", "fold", *METRICS)
        return tidy({name: [row[name] for row in self._rows] for name in names})

    @property
    def means(self) -> list[tuple[float | None, dict[str, Promise]]]:
        """Each penalty with the means over the outer folds and their standard errors."""
        rows = self._rows
        penalties = dict.fromkeys(row["penalty"] for row in rows)
        return [(b, _mean([row for row in rows if row["penalty"] == b])) for b in penalties]

    @property
    def _rows(self) -> list[dict[str, Any]]:
        if not self.manifest["points"]:
            raise DataError(
                f"{str(self.folder)!r} has no answers: its trace did not end. Trace the data again "
                "with the same folder."
            )
        return list(self.manifest["points"])

    def measured(self) -> list[dict[str, Any]]:
        """R², RMSE and v of the regressor as it is and of every penalty, on every outer fold."""
        found: list[dict[str, Any]] = []
        for k in self.nested.folds:
            train, test, codes = self._split(k)
            found.append({"penalty": None, "fold": k, **self._judged(test.y, test.s, codes)})
            for one in aligned_path(train, PENALTIES, self.manifest["levels"]):
                out = one.levels[one.coded(test.s, test.z)]
                row = {"penalty": one.penalty, "fold": k, **self._judged(test.y, out, codes)}
                found.append(row)
        return found

    def select(self, *, max_violation: float | None = None) -> NumericPoint:
        """The best R² within a budget of v; without one, the best R².

        `point.predictor` is what to ship, `point.promise` what it will show on unseen rows. The
        penalty is chosen on inner folds, in every outer fold anew.

        Args:
            max_violation: v of conditional ranks, in nats.
        """
        if max_violation is not None:
            max_violation = not_negative(max_violation, "max_violation")
        rows, eased = [], 0
        shipped = self._solved(self._all(), max_violation)
        for k in self.nested.folds:
            train, test, codes = self._split(k)
            try:
                one = self._solved(train, max_violation)
            except InfeasibleError as error:
                one = self._solved(train, error.smallest["violation"] * (1.0 + 1e-9))
                eased += 1
            out = one.levels[one.coded(test.s, test.z)]
            rows.append(self._judged(test.y, out, codes))
        promise = _mean(rows)
        choice: dict[str, Any] = {"maximize": "r2", "penalty": shipped.penalty}
        choice["promise"] = promise
        if max_violation is not None:
            choice["max_violation"] = max_violation
        return NumericPoint(
            max_violation, shipped.penalty, promise, eased, lambda: self._predictor(shipped, choice)
        )

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Axes | Figure:
        """R² against v on `ax` or new axes, which it returns; with a path the figure, written."""
        if path is None:
            return self._draw(new_axes(*_SIZE) if ax is None else ax)
        figure = self._figure()
        write_figure(figure, path)
        return figure

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML page that opens offline."""
        picture = figure_bytes(self._figure(), "svg").decode()
        svg = picture[picture.index("<svg") :]
        page = render_template(
            "numeric.html.jinja", title=self._title, finding=self._finding, said=_SAID, svg=svg,
            table=self._table,
        )  # fmt: skip
        write_whole(Path(path), page)
        return Path(path)

    def save(self, folder: str | Path) -> Path:
        """Copy the frontier to a folder that does not exist yet; whole or not at all."""
        return copy_folder(self.folder, as_path(folder, "folder"))

    def __str__(self) -> str:
        table = self._table.lines(WIDTH)
        return "\n".join([self._title, *wrapped(self._finding), "", table, "", *wrapped(_SAID)])

    def __repr__(self) -> str:
        size = f"{self.manifest['rows']:,} rows, {self.manifest['folds']} folds"
        return f"<NumericFrontier of {self.manifest['name']!r}: {size}>"

    @property
    def _title(self) -> str:
        m = self.manifest
        asked = f"{m['target']} given {' & '.join(m['columns'])}"
        return f"{m['name']}: {asked}; {m['rows']:,} rows, {m['base']}"

    @property
    def _finding(self) -> str:
        """The regressor as it is, in a sentence."""
        plain = next(found for penalty, found in self.means if penalty is None)
        v, whose = estimate_text("violation", plain["violation"]), self.manifest["columns"]
        return (
            f"As it is, the model explains {plain['r2'].value:.0%} of the variance of "
            f"{self.manifest['target']}; among people with the same outcome its predictions tell "
            f"v = {v} nats about {' & '.join(whose)}."
        )

    @property
    def _table(self) -> Table:
        rows = [
            ("as it is" if penalty is None else f"{penalty:g}",
             *(estimate_text(name, found[name]) for name in METRICS))
            for penalty, found in self.means
        ]  # fmt: skip
        return Table("", ("penalty", "R²", "RMSE", "v"), tuple(rows))

    def _figure(self) -> Figure:
        figure = blank_figure(*_SIZE)
        self._draw(figure.subplots())
        return figure

    def _draw(self, ax: Axes) -> Axes:
        """R² against v, with errors; the regressor as it is as a diamond."""
        for penalty, found in self.means:
            plain = penalty is None
            ax.errorbar(
                found["violation"].value, found["r2"].value, found["r2"].error,
                found["violation"].error, fmt="D" if plain else "o", ms=6 if plain else 4,
                color="#d55e00" if plain else "#0072b2", label="as it is" if plain else None,
            )  # fmt: skip
        ax.set(xlabel="violation v, nats (less is better)", ylabel="R² (more is better)")
        ax.legend()
        return ax

    def _all(self) -> Numeric:
        return replace(self.data, s=self.nested.honest[:, 0])

    def _split(self, k: int) -> tuple[Numeric, Numeric, NDArray[Any]]:
        """Training rows and test rows of an outer fold, each with honest predictions."""
        rows, scores = self.nested.training(k)
        tested, own = self.nested.tested(k)
        test = replace(self.data[tested], s=own[:, 0])
        return replace(self.data[rows], s=scores[:, 0]), test, self.codes[tested]

    def _solved(self, data: Numeric, asked: float | None) -> AlignedScore:
        levels, seed = self.manifest["levels"], self.manifest["seed"]
        last = 0.0 if asked is None else chosen(data, asked, levels=levels, random_state=seed)
        return aligned_path(data, [b for b in PENALTIES if b <= last], levels)[-1]

    def _judged(self, y: Array, u: Array, codes: NDArray[Any]) -> dict[str, float]:
        error = float(np.mean((y - u) ** 2))
        v = rank_violation(y, u, codes, int(self.codes.max()) + 1)
        return {"r2": 1.0 - error / float(y.var()), "rmse": error**0.5, "violation": v}

    def _predictor(self, shipped: AlignedScore, choice: dict[str, Any]) -> Predictor:
        m = self.manifest
        model = read_model(self.folder, self._base, self._bases, None)
        prepared = m["preprocessing"]
        if len(shipped.levels) < 2:
            raise InputError(
                f"This regressor releases {shipped.levels[0]:g} for everybody: there is nothing to "
                "ship."
            )
        return Predictor(
            tuple(shipped.levels.tolist()),
            self.groups,
            (Branch(Base(model, "value"), shipped),),
            preprocessing=None if prepared is None else Preprocessing.from_dict(prepared),
            grouping=Grouping(tuple(m["columns"]), self.groups),
            about={"choice": choice, "card": {"name": m["name"], "rows": m["rows"]}},
        )


def _mean(rows: list[dict[str, Any]]) -> dict[str, Promise]:
    found = {}
    for name in METRICS:
        x = np.array([row[name] for row in rows])
        found[name] = Promise.normal(float(x.mean()), float(x.std(ddof=1) / np.sqrt(len(x))))
    return found


def trace_numeric(
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    name: str = "data",
    sensitive: str = "groups",
    estimator: Any = None,
    levels: int = 16,
    cv: int = 5,
    random_state: int = 0,
    n_jobs: int = 1,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> NumericFrontier:
    """What is possible for a numeric target: R², RMSE and v along the penalties.

    Args:
        X: a frame, a mapping of columns or a matrix.
        y: numbers.
        sensitive_features: groups, or one column of numbers for ``sensitive="continuous"``.
        name: of the data, for people.
        sensitive: "groups" or "continuous".
        estimator: None or "trees" for boosted trees, "linear" for least squares, both on prepared
            columns; or a regressor, which gets X as it is.
        levels: at most so many released values.
        cv: outer folds, at least 3.
        random_state: seed of the folds.
        n_jobs: processes.
        out: folder of the frontier; by default a temporary one.
        progress: what is being done, on stderr.
    """
    cv, levels = whole_number(cv, "cv"), whole_number(levels, "levels", least=2)
    target, column = one_column(y)
    numbers = outcome(column, target)
    if sensitive not in SENSITIVE:
        raise InputError(f"`sensitive` must be one of {', '.join(SENSITIVE)}, got {sensitive!r}.")
    columns = group_columns(sensitive_features)
    z, groups = _attribute(columns, sensitive)
    codes = attribute_bins(z) if sensitive == "continuous" else z.astype(np.intp)
    model, rows, prepared = _rows(X, estimator, target)
    n = check_lengths({target: numbers, "sensitive_features": z})
    if (len(rows) if hasattr(rows, "__len__") else rows.shape[0]) != n:
        raise InputError(f"`X` and `y` must have as many rows, {n:,} in `y`.")
    if not 3 <= cv <= n:  # a model that saw neither of two folds needs a third
        raise InputError(f"`cv` must be between 3 and the {n:,} rows, got {cv}.")
    if out is not None:
        _check_folder(as_path(out, "out"))
    stages = Stages(progress)
    with writing(out) as folder:
        remove_checksums(folder)
        shutil.rmtree(folder / BASE, ignore_errors=True)  # of other rows, perhaps
        fold = datasets.folds(np.zeros(n, dtype=np.intp), codes, cv, random_state)
        base = BaseRows(rows, numbers, z, (1, 1), fold, "", NUMBERS)
        bases = [_BASE] * (cv + 1)
        with stages.stage(f"Fitting {type(model).__name__}", len(plan_fits(bases))) as done:
            fit_bases(folder, base, bases, {_BASE: model}, n_jobs=n_jobs, done=done)
        arrays = {"y": numbers, "z": z, "fold": fold}
        write_whole(
            folder / ARRAYS, save({one: np.ascontiguousarray(a) for one, a in arrays.items()})
        )
        manifest = {
            "format": FORMAT, "version": __version__, "name": name, "target": target, "rows": n,
            "folds": cv, "seed": random_state, "levels": levels, "sensitive": sensitive,
            "columns": list(columns), "groups": [to_plain(group) for group in groups],
            "preprocessing": None if prepared is None else prepared.to_dict(),
            "base": type(model).__name__, "points": [],
        }  # fmt: skip
        write_whole(folder / MANIFEST, json.dumps(manifest, indent=1))
        with stages.stage("Measuring what could be shipped"):
            manifest["points"] = NumericFrontier(folder).measured()
        write_whole(folder / MANIFEST, json.dumps(manifest, indent=1))
    frontier = NumericFrontier(folder)
    if out is None:  # a temporary folder lives as long as its frontier
        weakref.finalize(frontier, shutil.rmtree, folder, ignore_errors=True)
    return frontier


def _attribute(columns: dict[str, Any], sensitive: str) -> tuple[NDArray[Any], Levels]:
    """Codes and groups, or numbers."""
    if sensitive == "groups":
        coded = as_groups(columns)
        return np.asarray(coded.codes), coded.levels
    if len(columns) != 1:
        raise InputError(
            f'sensitive="continuous" takes one column of numbers, got {", ".join(columns)}.'
        )
    return attribute(next(iter(columns.values()))), ()


def _rows(X: Any, estimator: Any, target: str) -> tuple[Any, Any, Any]:
    """The regressor to clone, what it sees, and the preparation of raw columns."""
    named = {"trees": HistGradientBoostingRegressor(random_state=0), "linear": LinearRegression()}
    if estimator is not None and not isinstance(estimator, str):
        return estimator, X, None
    if estimator is not None and estimator not in named:
        raise InputError(
            f"There is no regressor {estimator!r}. Pass {', '.join(named)}, or a regressor object."
        )
    columns = features_of(X)
    if target in columns:
        raise InputError(f"The target {target!r} is also in `X`. Leave it out there.")
    prepared = datasets.plan(columns).fit(columns)
    return named["trees" if estimator is None else estimator], prepared.transform(columns), prepared


def _check_folder(place: Path) -> None:
    if place.is_dir() and any(place.iterdir()) and not (place / MANIFEST).is_file():
        raise InputError(
            f"{str(place)!r} holds something else than a numeric frontier. Pass another folder."
        )
