"""Results: the one reader of a folder that `trace` or `benchmark` wrote."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from separatrix.errors import InputError
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.sweep.store import ReferenceCurve, SavedRun, Store
from separatrix.frontier.tidy import Columns, means, select, tidy

__all__ = ["Results"]


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
        records, curves, about = store.records(), tuple(store.curves()), store.datasets()
        columns = tidy(records)
        if not len(columns["dataset"]):
            raise InputError(
                f"The records in {str(folder)!r} are empty: no run has finished yet. Run it again "
                "first."
            )
        final = {
            (r.run.method, r.run.inputs, r.run.recipe, r.run.trade_off): r.threshold
            for r in records
            if r.run.fold == ALL_ROWS
        }
        return cls(Path(folder), columns, curves, about, final)

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

    def points(self, dataset: str, method: str, inputs: str, recipe: str, policy: str) -> Columns:
        """Fold means of one path by λ, without points that lost a fold."""
        named = {"dataset": dataset, "method": method, "inputs": inputs, "recipe": recipe}
        part = select(self.mean, policy=policy, lost=0, **named)
        order = np.argsort(part["trade_off"], kind="stable")
        return {name: column[order] for name, column in part.items()}
