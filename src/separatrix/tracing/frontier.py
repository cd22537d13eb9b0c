"""Frontier: the folder of a trace as an object; its methods call the rooms below."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix import methods
from separatrix.auditing.result import Audit
from separatrix.columns.values import tidy
from separatrix.core.counts import CountTable
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.datasets import Grouping, Preprocessing
from separatrix.deploy.frontiers import operating_point
from separatrix.deploy.points import OperatingPoint
from separatrix.errors import DataError, InputError
from separatrix.io import working
from separatrix.optimum.limits import limit
from separatrix.runs.runner import Kept, kept
from separatrix.runs.store import ALL_ROWS, Columns, Curve, Store, means, read, select
from separatrix.show import figures, report, tables

__all__ = [
    "FORMAT",
    "MANIFEST",
    "ROWS",
    "Frontier",
    "FrontierEnvelope",
    "Model",
    "load_frontier",
    "read_manifest",
]

FORMAT = 1
MANIFEST, ROWS = "frontier.json", "rows.safetensors"


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
    """One trained policy of a frontier: lane `lane` of a fitted stack, with what raw rows need to
    reach it.

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
    """The trained points of a path, what they reach on rows they did not see, and the models behind
    them.

    Made by `trace` or `load_frontier`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)

    @cached_property
    def columns(self) -> Columns:
        """The points as arrays, one row per (method, inputs, λ, fold, policy); see `sweep.read`."""
        return read(self.folder)

    @property
    def points(self) -> Any:
        """The points as a tidy frame: method, trade_off, fold, policy, violation, utility, eo_gap,
        accuracy, auroc, …
        """
        return tidy(
            {
                name: column.tolist()
                for name, column in self.columns.items()
                if name not in ("counts", "dataset")
            }
        )

    @cached_property
    def means(self) -> Columns:
        """Fold means and standard deviations, one row per (method, inputs, λ, policy); see
        `sweep.means`.
        """
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

        return dict(load_file(self.folder / ROWS))

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
        """From raw columns to X, with the statistics of the rows that trained fold `fold`; None
        where X was a matrix.
        """
        known = self.manifest["preprocessing"].get(str(fold))
        return None if known is None else Preprocessing.from_dict(known)

    @property
    def limit(self) -> Curve | None:
        """The limit of post-processing ERM's held-out posteriors, where it was computed."""
        with Store(self.folder, create=False) as store:
            return next((curve for curve in store.curves() if curve.name == "limit"), None)

    def envelope(
        self, policy: str = "randomized", method: str | Sequence[str] | None = None
    ) -> FrontierEnvelope:
        """Vertices of the upper concave envelope of the fold means: what revealed mixtures of the
        points reach.

        Args:
            policy: "randomized" or "deterministic".
            method: only points of this method, or of these; by default of all.
        """
        if policy not in (allowed := ("randomized", "deterministic")):
            raise InputError(f"`policy` must be one of {', '.join(allowed)}, got {policy!r}.")
        mean = select(
            self.means, policy=policy, lost=0, **({} if method is None else {"method": method})
        )
        hull = concave_envelope(mean["violation"], mean["utility"])
        named = (mean[name][hull.index] for name in ("method", "inputs", "trade_off"))
        return FrontierEnvelope(hull.violation, hull.utility, hull.index, *named)

    def model(
        self,
        method: str,
        trade_off: float,
        *,
        inputs: str = "xz",
        fold: int = ALL_ROWS,
        seed: int | None = None,
    ) -> Model:
        """The model behind a point: of one fold, or (fold −1) the one trained on all rows."""
        stack, lane = self._lane(method, trade_off, inputs, fold, seed)
        q = stack.questions[lane]
        return Model(
            method,
            inputs,
            q["trade_off"],
            fold,
            q["seed"],
            stack.arrays,
            lane,
            self.preprocessing(fold),
        )

    def held_out(
        self, method: str, trade_off: float, *, inputs: str = "xz", seed: int | None = None
    ) -> NDArray[np.float32]:
        """Posteriors (n, K) of every row by the model whose training did not see it, in the order
        of the data.
        """
        out = np.full((len(self.rows["y"]), len(self.labels)), np.nan, dtype=np.float32)
        for fold in range(int(self.manifest["folds"])):
            stack, lane = self._lane(method, trade_off, inputs, fold, seed)
            out[self.rows["fold"] == fold] = stack.held_out[lane]
        return out

    def select(
        self,
        *,
        max_violation: float | None = None,
        max_eo_gap: float | None = None,
        maximize: str | Callable[[NDArray[np.float64]], Any] = "utility",
        confidence: float | None = None,
        rule: str = "sequence",
        option: str | None = None,
        method: str | Sequence[str] | None = None,
    ) -> OperatingPoint:
        """One operating point within the budgets: `point.predictor` is what to ship, `print(point)`
        shows all options.

        Args:
            max_violation, max_eo_gap: budgets, one or both.
            maximize: "utility", "auroc", "accuracy", or a function of tables (folds, y, z, u).
            confidence: None for fold means; otherwise the probability that the chosen point keeps
                its budgets.
            rule: "sequence" or "holm", with a confidence.
            option: "deterministic", "single" or "mixture" if only that will do.
            method: only points of this method, or of these.
        """
        return operating_point(
            self,
            max_violation=max_violation,
            max_eo_gap=max_eo_gap,
            maximize=maximize,
            confidence=confidence,
            rule=rule,
            option=option,
            method=method,
        )

    def plot(self, path: str | Path | None = None) -> Any:
        """The frontier as a matplotlib figure, written to `path` if given."""
        return figures.frontier(self.folder, path)

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML page that opens offline."""
        return report.write(self.folder, path, posterior_audit=self._erm_audit())

    def save(self, folder: str | Path) -> Path:
        """Copy the frontier to a folder that does not exist yet; whole or not at all."""
        place = Path(folder)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise InputError(
                f"{str(place)!r} exists already. Pass a folder that does not exist, or is empty."
            )
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

    def summary(self, policy: str = "randomized") -> tables.Table:
        """Fold means of every point as a table."""
        return tables.paths(self.columns, self.name, policy)

    def __str__(self) -> str:
        return self.summary().text()

    def __repr__(self) -> str:
        traced = ", ".join(dict.fromkeys(self.columns["method"].tolist()))
        return f"<Frontier of {self.name!r}: {traced}; {self.manifest['rows']:,} rows, {self.manifest['folds']} folds>"

    def _lane(
        self, method: str, trade_off: float, inputs: str, fold: int, seed: int | None
    ) -> tuple[Kept, int]:
        for stack in self.kept:
            first = stack.questions[0]
            if (first["method"], first["inputs"], first["fold"]) == (method, inputs, fold) and (
                seed is None or first["seed"] == seed
            ):
                for lane, question in enumerate(stack.questions):
                    if question["trade_off"] == trade_off:
                        return stack, lane
        raise InputError(
            f"This frontier has no model {method!r} with λ = {trade_off:g}, inputs {inputs!r} and "
            f"fold {fold}. "
            "Its points are in `points`."
        )

    def _erm_audit(self) -> Audit | None:
        """The audit of ERM's held-out posteriors; None where ERM was not traced or lost a fold."""
        runs = select(self.columns, method="erm", inputs="xz")
        if not len(runs["status"]) or (runs["status"] != "ok").any() or len(self.groups) < 2:
            return None
        y, z = (
            np.array(levels, dtype=object)[self.rows[name]]
            for name, levels in (("y", self.labels), ("z", self.groups))
        )
        q = self.held_out("erm", float(runs["trade_off"].min())).astype(np.float64)
        return Audit.of(
            CountTable.from_posteriors(q / q.sum(1, keepdims=True), y, z, labels=self.labels)
        )

    def add_limit(self) -> None:
        """The limit of post-processing ERM's held-out posteriors, once."""
        with Store(self.folder) as store:
            if not store.curves(self.manifest["data"]):
                with working("Limit of post-processing"):
                    found = limit(
                        self.rows["y"],
                        self.held_out("erm", 0.0),
                        sensitive_features=self.rows["z"],
                        points=200,
                    )
                curve = Curve(self.name, "limit", found.violation, found.utility)
                store.add_curve(curve, self.manifest["data"])


def load_frontier(folder: str | Path) -> Frontier:
    """The frontier that `Frontier.save` or `separatrix trace --out` wrote."""
    return Frontier(Path(folder))


def read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(
            f"There is no frontier in {str(folder)!r}: no {MANIFEST}. Pass the folder of "
            f"`separatrix trace`."
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version = manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}.") from error
    if version != FORMAT:
        raise DataError(f"{path} has format {version!r}; this separatrix reads {FORMAT}.")
    return dict(manifest)
