"""Tracing: what is possible on your data? `trace` trains the path of a method over all folds and returns a `Frontier`.

A frontier is a folder: `records.sqlite` (the tables of every point, see `sweep.records`), `models/` (every lane's arrays
and the posteriors of the rows that did not train it), `rows.safetensors` (label, group and fold of every row) and
`frontier.json` (names, preprocessing of each fold, card). No pickle.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix import datasets, methods, summary
from separatrix.columns import tidy
from separatrix.datasets import Data, Grouping, Preprocessing
from separatrix.envelope import Envelope, concave_envelope
from separatrix.errors import DataError, InputError
from separatrix.sweep import (
    ALL_ROWS,
    Columns,
    Curve,
    Job,
    Kept,
    Source,
    Store,
    grid,
    kept,
    means,
    plain,
    read,
    run,
    select,
    write_whole,
)

__all__ = ["Frontier", "FrontierEnvelope", "Model", "load_frontier", "trace", "trace_data"]

_FORMAT = 1
_MANIFEST, _ROWS = "frontier.json", "rows.safetensors"


def trace(
    X: Any,
    y: ArrayLike,
    *,
    sensitive_features: Any,
    method: str | Sequence[str] = "cmi",
    trade_offs: Sequence[float] | None = None,
    cv: int = 5,
    random_state: int = 0,
    references: bool = True,
    jobs: int = 1,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Frontier:
    """Train a method along its path of trade-offs, on every fold, and measure each point on the rows it did not see.

    Args:
        X: features: a dataframe of any library that narwhals takes, a mapping of columns, or a numeric array. Text is
            one-hot, numbers are scaled with the statistics of the training rows.
        y: labels, two or more.
        sensitive_features: groups; several columns make their intersection. A column of X of the same name is left out
            of X.
        method: one or more of `methods.names()`.
        trade_offs: λ; by default the method's own grid.
        cv: folds, stratified on (label, group).
        random_state: seed of the folds and of the networks.
        references: also trace `channel` (the post-processing of ERM, which costs next to nothing), ERM with and without
            the group as an input, and the exact limit of post-processing.
        jobs: processes.
        out: folder that the frontier is written to; calling again with the same folder resumes. By default a temporary
            one: `Frontier.save` keeps it.
        progress: a live table on stderr; by default if that is a terminal.

    Returns:
        The frontier.
    """
    return trace_data(
        _as_data(X, y, sensitive_features),
        name="data",
        method=method,
        trade_offs=trade_offs,
        cv=cv,
        random_state=random_state,
        references=references,
        jobs=jobs,
        out=out,
        progress=progress,
    )


def trace_data(
    data: Data,
    *,
    name: str,
    method: str | Sequence[str] = "cmi",
    trade_offs: Sequence[float] | None = None,
    cv: int = 5,
    random_state: int = 0,
    references: bool = True,
    jobs: int = 1,
    out: str | Path | None = None,
    progress: bool | None = None,
    backend: str = "local",
    scheduler: str | None = None,
) -> Frontier:
    """`trace` of data that are loaded already, under a name."""
    wanted = list(dict.fromkeys([method] if isinstance(method, str) else method))
    if not wanted:
        raise InputError("`method` is empty: pass at least one name, such as 'cmi'.")
    grid_of = None if trade_offs is None else tuple(float(t) for t in trade_offs)
    todo = [Job(m, grid_of, keep=True) for m in wanted]
    if references:
        todo += [Job(m, keep=True) for m in ("channel", "erm") if m not in wanted and m in methods.names()]
        todo.append(Job("erm", inputs="x", keep=True))
    source = Source(name, data=data)
    stacks = grid([source], todo, folds=cv, seeds=(random_state,), split_seed=random_state, final=True)
    missing = [m for m in wanted if m not in {stack.job.method for stack in stacks}]
    if missing:
        raise InputError(
            f"The method {missing[0]!r} cannot learn {len(data.labels)} labels and {len(data.groups)} groups. "
            "`separatrix methods` lists what each takes; 'cmi' takes any."
        )
    folder = Path(tempfile.mkdtemp(prefix="separatrix-") if out is None else out)
    try:
        _check_same(folder, name, data)
        run(stacks, folder, jobs=jobs, progress=progress, backend=backend, scheduler=scheduler)
        _check_outcome(folder, wanted)
        _describe(folder, name, data, cv, random_state)
        frontier = Frontier(folder)
        if references:
            frontier._add_limit()
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if out is None:  # a temporary folder lives as long as its frontier
        weakref.finalize(frontier, shutil.rmtree, folder, ignore_errors=True)
    return frontier


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


@dataclass(frozen=True, eq=False)
class Model:
    """One trained policy of a frontier: lane `lane` of a fitted stack, with what raw rows need to reach it.

    Args:
        method, inputs, trade_off, fold, seed: which one; fold −1 was trained on all rows.
        arrays: of the stack, for `methods.get(method).restore`.
        lane: its place in the stack.
        preprocessing: from raw columns to the network's inputs; None where X was a matrix.
    """

    method: str
    inputs: str
    trade_off: float
    fold: int
    seed: int
    arrays: Mapping[str, NDArray[Any]]
    lane: int
    preprocessing: Preprocessing | None

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """P(U = u | x, z), array (n, K), of prepared features and group codes."""
        fitted = methods.get(self.method).restore(self.arrays)
        return np.asarray(fitted.posteriors(X, z)[self.lane])


class Frontier:
    """The trained points of a path, what they reach on rows they did not see, and the models behind them.

    Made by `trace` or `load_frontier`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = _read_manifest(folder)

    @cached_property
    def columns(self) -> Columns:
        """The points as arrays, one row per (method, inputs, λ, fold, policy); see `sweep.read`."""
        return read(self.folder)

    @property
    def points(self) -> Any:
        """The points as a tidy frame: method, trade_off, fold, policy, violation, utility, eo_gap, accuracy, auroc, …"""
        return tidy(
            {name: column.tolist() for name, column in self.columns.items() if name not in ("counts", "dataset")}
        )

    @cached_property
    def means(self) -> Columns:
        """Fold means and standard deviations, one row per (method, inputs, λ, policy); see `sweep.means`."""
        return means(self.columns)

    @property
    def name(self) -> str:
        """What the data are called."""
        return str(self.manifest["name"])

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels in the order of their codes."""
        return tuple(self.manifest["labels"])

    @property
    def groups(self) -> tuple[Hashable, ...]:
        """The groups in the order of their codes."""
        return tuple(self.manifest["groups"])

    @cached_property
    def rows(self) -> dict[str, NDArray[Any]]:
        """`y`, `z` (codes) and `fold` of every row."""
        from safetensors.numpy import load_file

        return dict(load_file(self.folder / _ROWS))

    @cached_property
    def kept(self) -> list[Kept]:
        """The stacks of models, one per (method, inputs, fold, seed)."""
        return kept(self.folder)

    @property
    def grouping(self) -> Grouping | None:
        """Finds the group of raw rows by column name, where the groups came from columns."""
        known = self.manifest["grouping"]
        return None if known is None else Grouping.from_dict(known)

    def preprocessing(self, fold: int = ALL_ROWS) -> Preprocessing | None:
        """From raw columns to X, with the statistics of the rows that trained fold `fold`; None where X was a matrix."""
        known = self.manifest["preprocessing"].get(str(fold))
        return None if known is None else Preprocessing.from_dict(known)

    @property
    def limit(self) -> Curve | None:
        """The limit of post-processing ERM's held-out posteriors, where it was computed."""
        with Store(self.folder, create=False) as store:
            return next((curve for curve in store.curves() if curve.name == "limit"), None)

    def envelope(self, policy: str = "randomized", method: str | Sequence[str] | None = None) -> FrontierEnvelope:
        """Vertices of the upper concave envelope of the fold means: what revealed mixtures of the points reach.

        Args:
            policy: "randomized" or "deterministic".
            method: only points of this method, or of these; by default of all.
        """
        if policy not in (allowed := ("randomized", "deterministic")):
            raise InputError(f"`policy` must be one of {', '.join(allowed)}, got {policy!r}.")
        mean = select(self.means, policy=policy, lost=0, **({} if method is None else {"method": method}))
        hull = concave_envelope(mean["violation"], mean["utility"])
        named = (mean[name][hull.index] for name in ("method", "inputs", "trade_off"))
        return FrontierEnvelope(hull.violation, hull.utility, hull.index, *named)

    def model(
        self, method: str, trade_off: float, *, inputs: str = "xz", fold: int = ALL_ROWS, seed: int | None = None
    ) -> Model:
        """The model behind a point: of one fold, or (fold −1) the one trained on all rows."""
        stack, lane = self._lane(method, trade_off, inputs, fold, seed)
        q = stack.questions[lane]
        return Model(method, inputs, q["trade_off"], fold, q["seed"], stack.arrays, lane, self.preprocessing(fold))

    def held_out(
        self, method: str, trade_off: float, *, inputs: str = "xz", seed: int | None = None
    ) -> NDArray[np.float32]:
        """Posteriors (n, K) of every row by the model whose training did not see it, in the order of the data."""
        out = np.full((len(self.rows["y"]), len(self.labels)), np.nan, dtype=np.float32)
        for fold in range(int(self.manifest["folds"])):
            stack, lane = self._lane(method, trade_off, inputs, fold, seed)
            out[self.rows["fold"] == fold] = stack.held_out[lane]
        return out

    def select(self, **budgets: Any) -> Any:
        """One operating point that keeps the budgets; see `separatrix.selection.select`, which this calls."""
        return import_module("separatrix.selection").select(self, **budgets)

    def plot(self, path: str | Path | None = None) -> Any:
        """The frontier as a matplotlib figure, written to `path` if given."""
        from separatrix import figures

        return figures.frontier(self.folder, path)

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML page that opens offline."""
        return Path(import_module("separatrix.report").write(self.folder, path))

    def save(self, folder: str | Path) -> Path:
        """Copy the frontier to a folder that does not exist yet; whole or not at all."""
        place = Path(folder)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise InputError(f"{str(place)!r} exists already. Pass a folder that does not exist, or is empty.")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            half = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
            shutil.copytree(self.folder, half, dirs_exist_ok=True)
            half.chmod(0o755)
            os.replace(half, place)
        except OSError as error:
            shutil.rmtree(half, ignore_errors=True)
            raise DataError(f"{str(place)!r} cannot be written: {error.strerror}.") from error
        return place

    def summary(self, policy: str = "randomized") -> summary.Table:
        """Fold means of every point as a table."""
        return summary.paths(self.columns, self.name, policy)

    def __str__(self) -> str:
        return self.summary().text()

    def __repr__(self) -> str:
        traced = ", ".join(dict.fromkeys(self.columns["method"].tolist()))
        return f"<Frontier of {self.name!r}: {traced}; {self.manifest['rows']:,} rows, {self.manifest['folds']} folds>"

    def _lane(self, method: str, trade_off: float, inputs: str, fold: int, seed: int | None) -> tuple[Kept, int]:
        for stack in self.kept:
            first = stack.questions[0]
            if (first["method"], first["inputs"], first["fold"]) == (method, inputs, fold) and (
                seed is None or first["seed"] == seed
            ):
                for lane, question in enumerate(stack.questions):
                    if question["trade_off"] == trade_off:
                        return stack, lane
        raise InputError(
            f"This frontier has no model {method!r} with λ = {trade_off:g}, inputs {inputs!r} and fold {fold}. "
            "Its points are in `points`."
        )

    def _add_limit(self) -> None:
        """The limit of post-processing ERM's held-out posteriors, once."""
        if not find_spec("separatrix.limits"):
            return
        limit = import_module("separatrix.limits").limit
        with Store(self.folder) as store:
            if not store.curves(self.manifest["data"]):
                found = limit(self.held_out("erm", 0.0), self.rows["y"], self.rows["z"])
                curve = Curve(self.name, "limit", found.violation, found.utility)
                store.add_curve(curve, self.manifest["data"])


def load_frontier(folder: str | Path) -> Frontier:
    """The frontier that `Frontier.save` or `separatrix trace --out` wrote."""
    return Frontier(Path(folder))


def _describe(folder: Path, name: str, data: Data, cv: int, seed: int) -> None:
    """Write what is the same for all points: rows, names, preprocessing of each fold."""
    from safetensors.numpy import save

    fold = datasets.folds(data.y, data.z, cv, seed)
    fitted = {k: data.prepared(np.flatnonzero(fold != k))[1] for k in (ALL_ROWS, *range(cv))}
    manifest = {
        "format": _FORMAT,
        "name": name,
        "data": Source(name, data=data).fingerprint(),
        "rows": len(data),
        "folds": cv,
        "seed": seed,
        "labels": [plain(label) for label in data.labels],
        "groups": [plain(group) for group in data.groups],
        "features": list(data.features),
        "target": data.target,
        "grouping": None if data.grouping is None else data.grouping.to_dict(),
        "preprocessing": {str(k): None if p is None else p.to_dict() for k, p in fitted.items()},
        "card": data.card.to_dict(),
    }
    arrays = {"y": data.y.astype(np.int64), "z": data.z.astype(np.int64), "fold": fold.astype(np.int64)}
    write_whole(folder / _ROWS, save(arrays))
    write_whole(folder / _MANIFEST, json.dumps(manifest, indent=1).encode())


def _check_outcome(folder: Path, wanted: Sequence[str]) -> None:
    """A frontier without a single point of what was asked for is no frontier."""
    with Store(folder) as store:
        records = store.records()
    for name in wanted:
        own = [record for record in records if record.question["method"] == name]
        if not any(record.status == "ok" for record in own):
            raise DataError(f"Every run of {name!r} is lost ({own[0].status}): {own[0].message}.")


def _check_same(folder: Path, name: str, data: Data) -> None:
    """A folder belongs to one dataset: its models and its preprocessing would not fit another's."""
    if (folder / _MANIFEST).is_file():
        known = _read_manifest(folder)
        if known["data"] != Source(name, data=data).fingerprint():
            raise InputError(
                f"{str(folder)!r} holds the frontier of other rows ({known['name']!r}, {known['rows']:,} rows). "
                "Pass another folder, or remove that one."
            )


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / _MANIFEST
    if not path.is_file():
        raise DataError(
            f"There is no frontier in {str(folder)!r}: no {_MANIFEST}. Pass the folder of `separatrix trace`."
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version = manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}.") from error
    if version != _FORMAT:
        raise DataError(f"{path} has format {version!r}; this separatrix reads {_FORMAT}.")
    return dict(manifest)


def _as_data(X: Any, y: Any, sensitive_features: Any) -> Data:
    """Columns, labels and groups as one table with names, so that raw rows can be recognised later."""
    groups = _named_columns(sensitive_features, "sensitive")
    (target, labels), *more = _named_columns(y, "target").items()
    if more:
        raise InputError(
            f"`y` must be one column, got {1 + len(more)}: {target}, {', '.join(name for name, _ in more)}."
        )
    if isinstance(X, np.memmap):
        return _matrix_data(X, labels, groups)
    features = _named_columns(X, "x")
    if target in features or target in groups:
        raise InputError(f"The label column {target!r} is also in `X` or in `sensitive_features`. Leave it out there.")
    table = {**features, **groups, target: labels}
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{what} {n:,}" for what, n in list(lengths.items())[:5])
        raise InputError(f"`X`, `y` and `sensitive_features` need the same number of rows, got {sizes}.")
    return datasets.from_frame(table, target=target, sensitive=list(groups), name="data")


def _matrix_data(X: NDArray[Any], labels: Any, groups: Mapping[str, Any]) -> Data:
    """Rows that stay on disk: used as they are, without preprocessing."""
    few = {f"{name}": values for name, values in groups.items()} | {"(target)": labels, "(row)": np.arange(len(X)) % 2}
    coded = datasets.from_frame(few, target="(target)", sensitive=list(groups), name="data")
    names = tuple(f"x{i}" for i in range(X.shape[1]))
    return Data(coded.y, coded.z, coded.labels, coded.groups, coded.card, matrix=X, matrix_names=names)


def _named_columns(values: Any, default: str) -> dict[str, Any]:
    """Columns by name of a dataframe, a series, a mapping or an array."""
    if isinstance(values, Mapping):
        return {str(name): column for name, column in values.items()}
    native = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if isinstance(native, nw.DataFrame):
        return {name: native[name].to_list() if not native[name].dtype.is_numeric() else native[name].to_numpy()
                for name in native.columns}  # fmt: skip
    if isinstance(native, nw.Series):
        name = native.name if isinstance(native.name, str) and native.name else default
        return {name: native.to_numpy() if native.dtype.is_numeric() else native.to_list()}
    array = np.asarray(values)
    if array.ndim == 1:
        return {default: array}
    if array.ndim != 2:
        raise InputError(f"`{default}` must have one row per person, got an array of shape {array.shape}.")
    if array.shape[1] == 1 and default != "x":
        return {default: array[:, 0]}
    return {f"{default}{i}": array[:, i] for i in range(array.shape[1])}
