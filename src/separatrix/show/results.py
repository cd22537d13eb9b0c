"""What a folder of records says, for the rooms that show it: its paths, means, curves and cards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from separatrix.errors import InputError
from separatrix.runs.store import Columns, Curve, Store, means, read, select
from separatrix.show.series import Series, series

__all__ = ["Results"]


@dataclass(frozen=True, eq=False)
class Results:
    """All that a folder of records says: the tidy columns, their fold means, curves and dataset
    cards.
    """

    columns: Columns
    mean: Columns
    curves: tuple[Curve, ...]
    about: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, folder: str | Path) -> Results:
        """Read a folder that `trace` or `benchmark` wrote."""
        columns = read(folder)
        with Store(folder, create=False) as store:
            curves, about = tuple(store.curves()), store.datasets()
        if not len(columns["dataset"]):
            raise InputError(
                f"The records in {str(folder)!r} are empty: no run has finished yet. Run it again "
                f"first."
            )
        return cls(columns, means(columns), curves, about)

    @property
    def datasets(self) -> list[str]:
        """The datasets with records."""
        return sorted(set(self.mean["dataset"].tolist()))

    def labels(self, dataset: str) -> int:
        """How many labels it has."""
        return len(self.about[dataset]["labels"])

    def limit(self, dataset: str) -> Curve | None:
        """Its limit of post-processing, where it was computed."""
        return next((c for c in self.curves if c.dataset == dataset and c.name == "limit"), None)

    def series(self, dataset: str) -> list[Series]:
        """Every path on a dataset, references last."""
        return series(select(self.mean, dataset=dataset))

    def main(self, dataset: str) -> list[Series]:
        """The paths without those that repeat another one with other batch sizes: these are the
        ablation's.
        """
        return [max(family, key=_plainness) for family in self._families(dataset)]

    def batches(self, dataset: str) -> list[Series]:
        """The largest set of paths that differ in nothing but the batch size, by that; empty if
        there is none.
        """
        largest: list[Series] = max(self._families(dataset), key=len, default=[])
        sizes = {
            s.batch: s for s in sorted(largest, key=_plainness)
        }  # of two of one size the plain one
        return sorted(sizes.values(), key=lambda s: s.batch or 0) if len(sizes) > 1 else []

    def points(self, dataset: str, series: Series, policy: str) -> Columns:
        """Fold means of a path by λ, without points that lost a fold."""
        part = select(self.mean, dataset=dataset, policy=policy, lost=0, **series._asdict())
        order = np.argsort(part["trade_off"], kind="stable")
        return {name: column[order] for name, column in part.items()}

    def _families(self, dataset: str) -> list[list[Series]]:
        found: dict[tuple[Any, ...], list[Series]] = {}
        for s in self.series(dataset):
            rest = tuple(sorted(item for item in s.changes.items() if item[0] != "batch"))
            found.setdefault((s.method, s.inputs, s.base, rest), []).append(s)
        return list(found.values())


def _plainness(series: Series) -> tuple[bool, int]:
    plain = (
        "batch" not in series.changes
    )  # at most one of a family; its own batch would have to import the method
    return plain, 0 if plain else -(series.batch or 0)
