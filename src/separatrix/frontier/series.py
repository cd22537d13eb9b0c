"""Series: the paths in the records (method, inputs, recipe), their names and their looks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from separatrix import methods
from separatrix.errors import InputError, MissingExtraError
from separatrix.frontier.results import Columns, select

__all__ = [
    "MARKERS", "REFERENCES", "Series", "batch_series", "legend_names", "main_series",
    "named_series", "series",
]  # fmt: skip

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
        return dict(part.split("=", 1) for part in re.split(r", (?=\w+=)", self.recipe)[1:])

    @property
    def batch(self) -> int | None:
        """Rows per update; None for all of them, or where it is not known."""
        if "batch" in self.changes:
            return None if self.changes["batch"] == "None" else int(self.changes["batch"])
        known = _method(self.method)
        recipe = None if known is None else known.recipes.get(self.base)
        return None if recipe is None else recipe.batch

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
    for s, own in zip(series, parts, strict=True):
        alike = [set(other) for t, other in zip(series, parts, strict=True) if t[:2] == s[:2]]
        shared = {"default"}.union(set.intersection(*alike))
        names.append(", ".join([s.name, *(part for part in own if part not in shared)]))
    return names


def series(columns: Columns) -> list[Series]:
    """Those that occur, references last."""
    fields = (columns[name].tolist() for name in Series._fields)
    found = {Series(*key) for key in zip(*fields, strict=True)}
    return sorted(found, key=lambda s: (s.method in REFERENCES, s))


def named_series(columns: Columns) -> list[tuple[Series, str]]:
    """Those that occur with their names in a table or a legend."""
    found = series(columns)
    return list(zip(found, legend_names(found), strict=True))


def main_series(columns: Columns, dataset: str) -> list[Series]:
    """A dataset's paths without those that differ from another in the batch size alone."""
    return [max(family, key=_plainness) for family in _families(columns, dataset)]


def batch_series(columns: Columns, dataset: str) -> list[Series]:
    """The largest set of paths that differ in the batch size alone, sorted by it, or none."""
    largest: list[Series] = max(_families(columns, dataset), key=len, default=[])
    # the plain one among paths with the same batch size
    sizes = {s.batch: s for s in sorted(largest, key=_plainness)}
    return sorted(sizes.values(), key=lambda s: s.batch or 0) if len(sizes) > 1 else []


def _families(columns: Columns, dataset: str) -> list[list[Series]]:
    found: dict[tuple[Any, ...], list[Series]] = {}
    for s in series(select(columns, dataset=dataset)):
        rest = tuple(sorted(item for item in s.changes.items() if item[0] != "batch"))
        found.setdefault((s.method, s.inputs, s.base, rest), []).append(s)
    return list(found.values())


def _plainness(series: Series) -> tuple[bool, int]:
    # at most one of a family is plain; its own batch would have to import the method
    plain = "batch" not in series.changes
    return plain, 0 if plain else -(series.batch or 0)


def _method(name: str) -> methods.Method | None:
    try:
        return methods.get(name)
    except (InputError, MissingExtraError):  # of another version, or torch is not installed
        return None
