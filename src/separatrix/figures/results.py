"""What a folder of records says, for the rooms that show it: its paths, their names and looks, means, curves and cards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from separatrix import methods
from separatrix.errors import InputError, MissingExtraError
from separatrix.sweep import Columns, Curve, Store, means, read, select

__all__ = ["MARKERS", "REFERENCES", "Results", "Series", "legend_names"]

MARKERS = "osD^vP<X>ph8"
REFERENCES = ("erm", "uniform")  # single points rather than paths
_UNKNOWN = "#777777"


class Series(NamedTuple):
    """One path: a method with its inputs and its recipe."""

    method: str
    inputs: str
    recipe: str

    @property
    def colour(self) -> str:
        """The method's own; grey for a method that this version does not know."""
        return methods.look(self.method).colour if self.method in methods.names() else _UNKNOWN

    @property
    def marker(self) -> str:
        """The same for a method in every figure."""
        if self.method in REFERENCES:
            return {"erm": "*", "uniform": "x"}[self.method]
        rest = [name for name in methods.names() if name not in REFERENCES]
        return MARKERS[rest.index(self.method) % len(MARKERS)] if self.method in rest else "."

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
        return dict(part.split("=", 1) for part in re.split(r", (?=\w+=)", self.recipe)[1:])

    @property
    def batch(self) -> int | None:
        """Rows per update; None for all of them, or where it is not known."""
        if "batch" in self.changes:
            return None if self.changes["batch"] == "None" else int(self.changes["batch"])
        known = _method(self.method)
        return known.recipes[self.base].batch if known is not None and self.base in known.recipes else None

    @property
    def name(self) -> str:
        """The method with its inputs.

        >>> Series("erm", "x", "default").name
        'ERM (X)'
        """
        text = methods.look(self.method).label if self.method in methods.names() else self.method
        return text + (" (X)" if self.inputs == "x" else " ([Z|X])" if self.method == "erm" else "")


def legend_names(series: Sequence[Series]) -> list[str]:
    """The names of some paths: of two that differ in the recipe alone, also what differs.

    >>> legend_names([Series("cmi", "xz", "default, epochs=2"), Series("cmi", "xz", "default, epochs=2, batch=64")])
    ['CMI', 'CMI, batch=64']
    """
    parts = [(s.base, *(f"{name}={value}" for name, value in s.changes.items())) for s in series]
    names = []
    for s, own in zip(series, parts, strict=True):
        alike = [set(other) for t, other in zip(series, parts, strict=True) if t[:2] == s[:2]]
        names.append(", ".join([s.name, *(part for part in own if not all(part in other for other in alike))]))
    return names


def _method(name: str) -> methods.Method | None:
    try:
        return methods.get(name)
    except (InputError, MissingExtraError):  # records of another version, or read where torch is not installed
        return None


@dataclass(frozen=True, eq=False)
class Results:
    """All that a folder of records says: the tidy columns, their fold means, curves and dataset cards."""

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
            raise InputError(f"The records in {str(folder)!r} are empty: no run has finished yet. Run it again first.")
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
        part = select(self.mean, dataset=dataset)
        found = {Series(*key) for key in zip(*(part[n].tolist() for n in Series._fields), strict=True)}
        return sorted(found, key=lambda s: (s.method in REFERENCES, s))

    def main(self, dataset: str) -> list[Series]:
        """The paths without those that repeat another one with other batch sizes: these are the ablation's."""
        return [max(family, key=_plainness) for family in self._families(dataset)]

    def batches(self, dataset: str) -> list[Series]:
        """The largest set of paths that differ in nothing but the batch size, by that; empty if there is none."""
        largest: list[Series] = max(self._families(dataset), key=len, default=[])
        return sorted(largest, key=lambda s: s.batch or 0) if len(largest) > 1 else []

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
    plain = "batch" not in series.changes  # at most one of a family; its own batch would have to import the method
    return plain, 0 if plain else -(series.batch or 0)
