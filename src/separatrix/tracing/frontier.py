"""Frontier: the folder of a trace as an object; its methods call the rooms below."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.auditing.result import Audit
from separatrix.columns.counting import count_posteriors
from separatrix.columns.frames import tidy
from separatrix.columns.values import Coded
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.deploy import choosing
from separatrix.deploy.frontiers import candidates_of, model_of, predictor_of
from separatrix.deploy.points import OperatingPoint
from separatrix.deploy.predictor import Predictor
from separatrix.errors import InputError
from separatrix.io import whole_folder, working
from separatrix.optimum.limits import limit
from separatrix.runs.keys import ALL_ROWS
from separatrix.runs.store import POLICIES, ReferenceCurve, Store
from separatrix.runs.tidy import select
from separatrix.runs.traced import Traced
from separatrix.show import figures, report, tables

__all__ = ["Frontier", "FrontierEnvelope", "load_frontier"]


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
    """The trained points of a path, what they reach on held-out rows, and their models.

    Made by `trace` or `load_frontier`.
    """

    @property
    def points(self) -> Any:
        """The points as a tidy frame: method, trade_off, fold, policy, violation, utility, …"""
        shown = [name for name in self.columns if name not in ("counts", "dataset")]
        return tidy({name: self.columns[name].tolist() for name in shown})

    def envelope(
        self, policy: str = "randomized", method: str | Sequence[str] | None = None
    ) -> FrontierEnvelope:
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

    def model(
        self, method: str, trade_off: float, *, inputs: str = "xz", fold: int = ALL_ROWS
    ) -> Predictor:
        """The model behind a point: of one fold, or (fold −1) the one trained on all rows."""
        return model_of(self, method, trade_off, inputs=inputs, fold=fold)

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
        """One operating point within the budgets.

        `point.predictor` is what to ship, and `print(point)` shows all options.

        Args:
            max_violation, max_eo_gap: budgets, one or both.
            maximize: "utility", "auroc", "accuracy", or a function of tables (folds, y, z, u).
            confidence: None for fold means; else the probability that the choice keeps budgets.
            rule: "sequence" or "holm", with a confidence.
            option: only "deterministic", "single" or "mixture".
            method: only points of this method, or of these.
        """
        chosen = choosing.select(
            candidates_of(self, method, certified=confidence is not None), maximize=maximize,
            max_violation=max_violation, max_eo_gap=max_eo_gap, confidence=confidence, rule=rule,
            option=option,
        )  # fmt: skip
        return OperatingPoint(chosen, partial(predictor_of, self, chosen))

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
        with whole_folder(place, parents=True) as half:
            shutil.copytree(self.folder, half, dirs_exist_ok=True)
        return place

    def summary(self, policy: str = "randomized") -> tables.Table:
        """Fold means of every point as a table."""
        return tables.paths(self.columns, self.name, policy)

    def __str__(self) -> str:
        return self.summary().text()

    def __repr__(self) -> str:
        traced = ", ".join(dict.fromkeys(self.columns["method"].tolist()))
        size = f"{self.manifest['rows']:,} rows, {self.manifest['folds']} folds"
        return f"<Frontier of {self.name!r}: {traced}; {size}>"

    def _erm_audit(self) -> Audit | None:
        """The audit of ERM's held-out posteriors; None where ERM was not traced or lost a fold."""
        runs = select(self.columns, method="erm", inputs="xz")
        if not len(runs["status"]) or (runs["status"] != "ok").any() or len(self.groups) < 2:
            return None
        y, z = Coded(self.rows["y"], self.labels), Coded(self.rows["z"], self.groups)
        q = self.held_out("erm", float(runs["trade_off"].min())).astype(np.float64)
        q /= q.sum(1, keepdims=True)
        return Audit.of(count_posteriors(y, q, sensitive_features=z, labels=self.labels))

    def add_limit(self) -> None:
        """The limit of post-processing ERM's held-out posteriors, once."""
        if self.limit is None:
            y, z, q = self.rows["y"], self.rows["z"], self.held_out("erm", 0.0)
            with working("Limit of post-processing"):
                found = limit(y, q, sensitive_features=z, points=200)
            curve = ReferenceCurve(self.name, "limit", found.violation, found.utility)
            with Store(self.folder) as store:
                store.add_curve(curve, self.manifest["fingerprint"])
            vars(self).pop("results")  # read again, with the curve


def load_frontier(folder: str | Path) -> Frontier:
    """The frontier that `Frontier.save` or `separatrix trace --out` wrote."""
    return Frontier(folder)
