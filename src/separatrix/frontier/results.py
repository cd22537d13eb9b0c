"""Results: the one reader of a folder that `trace` or `benchmark` wrote, as columns.

Columns are arrays of equal length by name: one row per record and policy (`tidy`), or one per point
with its mean over the folds (`means`). A `Series` is a path in them: method, inputs and recipe. As
tables for people: `paths` lists the fold means of every trained point, `operating_points` the best
of them within a budget (the paper's "Compact Numerical Summary of Low-separation-violation
Operating Points"), `envelopes` the utility that revealed mixtures reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.columns.groups import from_plain, group_name
from separatrix.columns.values import Levels
from separatrix.core.counts import CountTable
from separatrix.core.envelope import Envelope, Secant, concave_envelope, secant, utility_fraction
from separatrix.core.information import conditional_mutual_information
from separatrix.core.measures import METRICS, leading_metrics, measure, recorded_metrics
from separatrix.errors import InputError
from separatrix.frontier.store import ALL_ROWS, Record, ReferenceCurve, SavedRun, Store
from separatrix.methods import POLICIES
from separatrix.report.table import Table
from separatrix.statistics.inference import corrected_tables

MARKERS = "osD^vP<X>ph8"
REFERENCES = ("erm", "uniform")  # single points rather than paths
Array = NDArray[np.float64]
_UNKNOWN = "#777777"
Columns = dict[str, NDArray[Any]]
# the paper's, of the EO gap for two labels and of v for more
BUDGETS = {"eo_gap": (0.01, 0.02, 0.05), "violation": (0.0025, 0.005, 0.01)}
CORRECTED = ("violation_corrected", "utility_corrected", "score_violation_corrected")
_POINT = ("dataset", "method", "inputs", "recipe", "batch", "policy", "trade_off")


@dataclass(frozen=True, eq=False)
class Results:
    """All that a folder of results says.

    Args:
        folder: where it is.
        columns: one row per record and policy, see `tidy`.
        curves: the reference curves.
        about: labels, groups, cells and card of each dataset.
        final: the threshold of each model that was trained on all rows, by method, inputs, recipe
            and λ.
    """

    folder: Path
    columns: Columns
    curves: tuple[ReferenceCurve, ...]
    about: dict[str, dict[str, Any]]
    final: dict[tuple[str, str, str, float], float]

    @classmethod
    def read(cls, folder: str | Path) -> Results:
        """Read a folder; one without a finished run is an error."""
        store = Store(folder, create=False)
        records = store.records()
        columns = tidy(records)
        if not len(columns["dataset"]):
            raise InputError(f"The records in {str(folder)!r} are empty: no run has finished yet. Run it again first.")
        final = {
            (r.run.method, r.run.inputs, r.run.recipe, r.run.trade_off): r.threshold
            for r in records
            if r.run.fold == ALL_ROWS
        }
        return cls(Path(folder), columns, tuple(store.curves()), store.datasets(), final)

    @cached_property
    def mean(self) -> Columns:
        """Fold means and standard deviations, see `means`."""
        return means(self.columns)

    @cached_property
    def saved(self) -> list[SavedRun]:
        """The stacks whose models were kept; nothing but their headers is read."""
        return Store(self.folder).saved_runs()

    @property
    def datasets(self) -> list[str]:
        """The datasets with records."""
        return sorted(set(self.mean["dataset"].tolist()))

    def labels(self, dataset: str) -> int:
        """How many labels it has."""
        return len(self.about[dataset]["labels"])

    def limit(self, dataset: str) -> ReferenceCurve | None:
        """Its limit of post-processing, where it was computed."""
        return next((c for c in self.curves if c.dataset == dataset and c.name == "limit"), None)

    def main_paths(self, dataset: str, policy: str) -> Iterator[tuple[Series, str, Columns]]:
        """A dataset's main series, their names, and their fold means by λ; no point lost a fold."""
        points = select(self.mean, dataset=dataset, policy=policy, lost=0)
        return each_path(points, main_series(self.mean, dataset))

    def paths(self, dataset: str, policy: str = "randomized") -> Table:
        """Fold means of every λ of every method on a dataset."""
        metrics = [name for name in leading_metrics() if name != "eo_gap" or self.labels(dataset) == 2]
        rows = []
        for _, name, path in each_path(select(self.mean, dataset=dataset, policy=policy)):
            for i, trade_off in enumerate(path["trade_off"].tolist()):
                cells = (pair(path, m, i) for m in metrics)
                counts = int(path["folds"][i]), int(path["lost"][i]) or None
                rows.append((name, trade_off, *cells, *counts))
        head = ("Method", "λ", *(METRICS[m].head for m in metrics), "Folds", "Lost")
        return Table(f"{dataset}: {policy} policy, mean ± sd over folds", head, tuple(rows))

    def operating_points(self, dataset: str, budgets: Sequence[float] | None = None) -> Table:
        """The paper's compact operating points: each method's best mean under each budget.

        For two labels budgets bound the EO gap of both policies; for more, as in the paper, the
        violation of the randomised one.

        Args:
            budgets: upper bounds on the constraint's mean over folds; by default the paper's.

        Returns:
            One row per budget, target, policy and method with a point within the budget, best first.
        """
        many = self.labels(dataset) > 2
        constraint = "violation" if many else "eo_gap"
        paths_of = list(each_path(select(self.mean, dataset=dataset)))
        rows: list[tuple[Any, ...]] = []
        for policy in POLICIES[:1] if many else POLICIES:
            for budget in budgets or BUDGETS[constraint]:
                for target in ("accuracy", "auroc"):
                    reached_by = []
                    for series, name, path in paths_of:
                        points = select(path, policy=policy)
                        i = best(points, constraint, budget, target)
                        if i is None:
                            continue
                        λ = None if series.method in REFERENCES else float(points["trade_off"][i])
                        within = METRICS[constraint].head, budget, pair(points, constraint, i)
                        goal = METRICS[target].head, pair(points, target, i), int(points["folds"][i])
                        reached_by.append((name, policy, λ, *within, *goal))
                    rows += sorted(reached_by, key=lambda row: -row[-2][0])
        head = (
            "Method", "Policy", "λ", "Constraint", "Budget", "Constraint value", "Metric",
            "Target value", "Folds",
        )  # fmt: skip
        return Table(f"{dataset}: best mean under a budget", head, tuple(rows))

    def envelopes(self, dataset: str, levels: Sequence[float] | None = None) -> Table:
        """Each method's upper concave envelope (revealed mixtures) at some violations, and the limit's.

        Each method's share of the limit's hypervolume is the last column.

        Args:
            levels: violations v; by default a few between the strictest point and the least strict one.
        """
        mean, limit = select(self.mean, dataset=dataset, policy="randomized"), self.limit(dataset)
        hulls = {
            name: concave_envelope(path["violation"], path["utility"])
            for _, name, path in each_path(mean)
            if not np.isnan(path["violation"]).all()
        }
        top = max((float(hull.violation[-1]) for hull in hulls.values()), default=0.0)
        usual = [float(f"{top * x:.1g}") for x in (0.02, 0.05, 0.1, 0.2, 0.5, 1)]
        wanted = tuple(usual if levels is None else levels)
        rows: list[tuple[Any, ...]] = [(name, *_at(hull, wanted)) for name, hull in hulls.items()]
        line = secant_price(mean)
        if line is not None:
            below = (float(line.at(v)) if v <= line.violation else None for v in wanted)
            rows.append((f"secant of the ERMs, {line.slope:.3g} u per v", *below))
        head = ("Method", *(f"{v:g}" for v in wanted))
        if limit is not None:
            best_possible = concave_envelope(limit.violation, limit.utility)
            shares = [utility_fraction(h.violation, h.utility, best_possible) for h in hulls.values()]
            rows = [(*row, share) for row, share in zip_longest(rows, shares)]
            rows.insert(0, ("limit of ERM's decisions", *_at(best_possible, wanted), 1.0))
            head = (*head, "Share of the limit")
        return Table(f"{dataset}: u of the randomized envelope at v ≤", head, tuple(rows))


def tidy(records: Iterable[Record]) -> Columns:
    """Records as columns: one row per record and policy that it has; models of all rows have none.

    Returns:
        Columns of equal length: `dataset`, `method`, `inputs` ("xz" or "x"), `recipe`, `batch`
        (rows per update; 0 for all of them), `trade_off`, `fold`, `seed`, `policy` ("randomized",
        "deterministic"), the `recorded_metrics`, those of `CORRECTED` (less their bias),
        `threshold`, `train_seconds` (CPU), `status`, `message`, and as objects or None `counts`
        (the table N[y, z, u]), `squares` (Σ q_u²) and `ordered` (the score's table in bins). The
        metrics are NaN unless the status is "ok".
    """
    rows = [
        (r, policy == "randomized")
        for r in records
        for policy, table in zip(POLICIES, (r.soft, r.hard), strict=True)
        if r.run.fold != ALL_ROWS and (table is not None or r.status != "ok")
    ]
    names = ("dataset", "method", "inputs", "recipe", "trade_off", "fold", "seed")
    columns: Columns = {name: np.array([getattr(r.run, name) for r, _ in rows]) for name in names}
    columns["batch"] = np.array([r.run.details.get("batch") or 0 for r, _ in rows], dtype=np.int64)
    columns["policy"] = np.array([POLICIES[0] if drawn else POLICIES[1] for _, drawn in rows])
    columns |= {name: np.full(len(rows), np.nan) for name in (*recorded_metrics(), *CORRECTED)}
    counts = _objects(r.soft if drawn else r.hard for r, drawn in rows)
    squares = _objects(r.squares if drawn else r.hard for r, drawn in rows)
    ordered = _objects(r.ordered for r, _ in rows)
    for places, (tables,) in _alike(counts):
        for name, values in measure(tables).items():
            columns[name][places] = values
    for places, pair in _alike(counts, squares):
        corrected = corrected_tables(*pair)
        columns["violation_corrected"][places], columns["utility_corrected"][places] = corrected
    for places, (tables,) in _alike(ordered):
        columns["score_violation"][places] = conditional_mutual_information(tables)
        columns["score_violation_corrected"][places] = corrected_tables(tables, tables)[0]
    numbers = {"auroc": "auroc", "score_gap": "score_gap", "train_seconds": "seconds"}
    for name, field in numbers.items():
        columns[name] = np.array([getattr(r, field) for r, _ in rows], dtype=np.float64)
    cuts = [np.nan if drawn else r.threshold for r, drawn in rows]
    columns["threshold"] = np.array(cuts, dtype=np.float64)
    columns["status"] = np.array([r.status for r, _ in rows])
    columns["message"] = np.array([r.message for r, _ in rows], dtype=object)
    return columns | {"counts": counts, "squares": squares, "ordered": ordered}


def means(columns: Columns) -> Columns:
    """Mean and standard deviation over folds and seeds, per series, policy and λ.

    Returns:
        The columns that say what it is; `folds`, how many records the mean is of; for each metric
        its mean under its own name and its standard deviation (n − 1) as `<metric>_sd`. Runs that
        are not "ok" take no part; `lost` counts them.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*(columns[name].tolist() for name in _POINT), strict=True)):
        groups.setdefault(key, []).append(i)
    out: Columns = {
        name: np.array([key[place] for key in groups], dtype=columns[name].dtype) for place, name in enumerate(_POINT)
    }
    good = [[i for i in rows if columns["status"][i] == "ok"] for rows in groups.values()]
    out["folds"] = np.array([len(rows) for rows in good])
    out["lost"] = np.array([len(rows) for rows in groups.values()]) - out["folds"]
    for metric in (*recorded_metrics(), *CORRECTED):
        values = [columns[metric][rows] for rows in good]
        out[metric] = np.array([x.mean() if len(x) else np.nan for x in values])
        out[f"{metric}_sd"] = np.array([x.std(ddof=1) if len(x) > 1 else np.nan for x in values])
    return out


def select(columns: Columns, **values: Any) -> Columns:
    """The rows in which each named column has the value, or one of a list of values.

    >>> select({"fold": np.array([0, 1]), "auroc": np.array([0.8, 0.9])}, fold=1)["auroc"]
    array([0.9])
    """
    keep = np.ones(len(next(iter(columns.values()))), dtype=bool)
    for name, value in values.items():
        if name not in columns:
            raise InputError(f"There is no column {name!r}; there are {', '.join(columns)}.")
        keep &= np.isin(columns[name], value)
    return {name: column[keep] for name, column in columns.items()}


def group_names(about: Mapping[str, Any]) -> tuple[str, ...]:
    """A dataset's groups as shown, with their columns."""
    return tuple(group_name(from_plain(group), about["sensitive"] or ()) for group in about["groups"])


def held_out_table(labels: Levels, groups: Levels, counts: Array, squares: Array | None) -> CountTable:
    """Counts N[y, z, u] of drawn decisions as a table with their second moments.

    Two labels: these follow from the squares Σ q_u², since (q + 1 − q)² = 1. More, or none measured:
    those of hard decisions are taken, which are larger, so bounds err on the wide side.
    """
    k = counts.shape[-1]
    moments = counts[..., None] * np.eye(k)
    if k == 2 and squares is not None:
        moments[..., 0, 0], moments[..., 1, 1] = squares[..., 0], squares[..., 1]
        moments[..., 0, 1] = moments[..., 1, 0] = 0.5 * (counts.sum(-1) - squares.sum(-1))
    rows = round(float(counts.sum()))
    return CountTable(counts, labels, groups, labels, rows=rows, moments=moments).simplest()


class Series(NamedTuple):
    """One path: a method with its inputs and its recipe."""

    method: str
    inputs: str
    recipe: str

    @property
    def colour(self) -> str:
        """The method's own; grey for a method that this version does not know."""
        return methods.style(self.method).colour if self.method in methods.names() else _UNKNOWN

    @property
    def marker(self) -> str:
        """The same for a method in every figure."""
        if self.method in REFERENCES:
            return {"erm": "*", "uniform": "x"}[self.method]
        rest = [name for name in methods.names() if name not in REFERENCES]
        return MARKERS[rest.index(self.method) % len(MARKERS)] if self.method in rest else "."

    @property
    def dash(self) -> str:
        """A line for the default recipe, dots for the paper's, dashes for any other."""
        return {"default": "-", "paper": ":"}.get(self.base, "--")

    @property
    def base(self) -> str:
        """The recipe without its changes."""
        return self.recipe.split(", ", 1)[0]

    @property
    def changes(self) -> dict[str, str]:
        """What the recipe changes, as text.

        >>> Series("cmi", "xz", "default, hidden=(8, 8), batch=1024").changes
        {'hidden': '(8, 8)', 'batch': '1024'}
        """
        return dict(change.split("=", 1) for change in re.split(r", (?=\w+=)", self.recipe)[1:])

    @property
    def name(self) -> str:
        """The method with its inputs.

        >>> Series("erm", "x", "default").name
        'ERM (X)'
        """
        text = methods.style(self.method).label if self.method in methods.names() else self.method
        return text + (" (X)" if self.inputs == "x" else " ([Z|X])" if self.method == "erm" else "")


def legend_names(series: Sequence[Series]) -> list[str]:
    """Names of some paths; where only the recipe differs, with what differs from the default.

    >>> recipes = "default, epochs=2", "default, epochs=2, batch=64"
    >>> legend_names([Series("cmi", "xz", recipe) for recipe in recipes])
    ['CMI', 'CMI, batch=64']
    """
    parts = [(s.base, *(f"{name}={value}" for name, value in s.changes.items())) for s in series]
    names = []
    for s, words in zip(series, parts, strict=True):
        alike = [set(other) for t, other in zip(series, parts, strict=True) if t[:2] == s[:2]]
        shared = {"default"}.union(set.intersection(*alike))
        names.append(", ".join([s.name, *(word for word in words if word not in shared)]))
    return names


def series(columns: Columns) -> list[Series]:
    """Those that occur, references last."""
    fields = (columns[name].tolist() for name in Series._fields)
    paths = {Series(*key) for key in zip(*fields, strict=True)}
    return sorted(paths, key=lambda s: (s.method in REFERENCES, s))


def named_series(columns: Columns) -> list[tuple[Series, str]]:
    """Those that occur with their names in a table or a legend."""
    paths = series(columns)
    return list(zip(paths, legend_names(paths), strict=True))


def each_path(columns: Columns, paths: Sequence[Series] | None = None) -> Iterator[tuple[Series, str, Columns]]:
    """Every path that occurs, or these ones; its name among them, and its rows."""
    chosen = series(columns) if paths is None else paths
    for path, name in zip(chosen, legend_names(chosen), strict=True):
        yield path, name, select(columns, **path._asdict())


def main_series(columns: Columns, dataset: str) -> list[Series]:
    """A dataset's paths without those that differ from another in the batch size alone."""
    main = {next(iter(family.values())) for family in _families(columns, dataset)}
    return [path for path in series(select(columns, dataset=dataset)) if path in main]


def batch_series(columns: Columns, dataset: str) -> dict[int, Series]:
    """The most paths that differ in the batch size alone, by that size (0: all rows), or none."""
    largest = max(_families(columns, dataset), key=len, default={})
    return dict(sorted(largest.items())) if len(largest) > 1 else {}


def _families(columns: Columns, dataset: str) -> list[dict[int, Series]]:
    """Paths that differ in the batch size alone: the recipe's own size first, then the smallest."""
    records = select(columns, dataset=dataset)
    fields = (records[name].tolist() for name in Series._fields)
    sizes = dict(zip(zip(*fields, strict=True), records["batch"].tolist(), strict=True))
    families: dict[tuple[str, str, str], dict[int, Series]] = {}
    for path in sorted(series(records), key=lambda path: ("batch" in path.changes, sizes[path])):
        recipe = re.sub(r", batch=\w+", "", path.recipe)
        family = families.setdefault((path.method, path.inputs, recipe), {})
        family.setdefault(sizes[path], path)
    return [*families.values()]


def _objects(tables: Iterable[Any]) -> NDArray[Any]:
    """One object a row, whatever their shapes."""
    listed = list(tables)
    out = np.empty(len(listed), dtype=object)
    for i, table in enumerate(listed):
        out[i] = table
    return out


def _alike(*columns: NDArray[Any]) -> Iterator[tuple[list[int], list[NDArray[np.float64]]]]:
    """The rows that have all these tables, those of one shape at a time, with stacks of them."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for i, tables in enumerate(zip(*columns, strict=True)):
        if all(table is not None for table in tables):
            shapes.setdefault(tables[0].shape, []).append(i)
    for rows in shapes.values():
        yield rows, [np.stack([column[i] for i in rows]) for column in columns]


def best(mean: Columns, constraint: str, budget: float, target: str) -> int | None:
    """The row with the best mean `target` whose mean `constraint` is in the budget, or None.

    Points that lost a fold take no part, since their means are over fewer rows.
    """
    fits = (mean[constraint] <= budget) & (mean["lost"] == 0) & ~np.isnan(mean[target])
    if not fits.any():
        return None
    return int(np.flatnonzero(fits)[np.argmax(sign(target) * mean[target][fits])])


def sign(target: str) -> float:
    """1 for a metric to maximise, −1 for one to minimise."""
    return -1.0 if target in METRICS and METRICS[target].lower_is_better else 1.0


def secant_price(mean: Columns) -> Secant | None:
    """The line through ERM (X) and ERM ([Z|X]): the local price of separation.

    None where one of them is not there, or the group adds no violation.
    """
    ends = []
    for inputs in ("x", "xz"):
        points = select(mean, method="erm", inputs=inputs, recipe="default", lost=0)
        if len(points["violation"]) != 1:
            return None
        ends.append((float(points["violation"][0]), float(points["utility"][0])))
    return secant(*ends) if ends[1][0] > ends[0][0] else None


def _at(hull: Envelope, levels: Sequence[float]) -> list[float | None]:
    return [None if np.isnan(u) else float(u) for u in hull.at(np.array(levels))]


def pair(mean: Columns, metric: str, i: int) -> tuple[float, float]:
    """Mean and standard deviation over the folds."""
    return float(mean[metric][i]), float(mean[f"{metric}_sd"][i])
