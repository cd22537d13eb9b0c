"""The registries as tables: the datasets and the methods."""

from __future__ import annotations

from separatrix import datasets, methods
from separatrix.errors import MissingExtraError
from separatrix.report.table import Table

__all__ = ["dataset_table", "method_rows", "method_table"]


def dataset_table() -> str:
    """One line per dataset."""
    head = ("Name", "Rows", "Features", "Labels", "Groups", "Here", "Where", "Licence")
    names = "name", "rows", "features", "labels", "groups", "available", "where", "licence"
    known = [row | {"available": "yes" if row["available"] else "no"} for row in datasets.listing()]
    return Table("Datasets", head, tuple(tuple(row[n] for n in names) for row in known)).text()


def method_table() -> str:
    """One line per method."""
    head = ("Name", "Label", "Labels", "Groups", "Trade-offs", "Reference")
    return Table("Methods", head, tuple(tuple(row.values()) for row in method_rows())).text()


def method_rows() -> list[dict[str, str]]:
    """What each method takes and where it comes from; or which extra it needs."""
    names = "name", "label", "labels", "groups", "trade_offs", "reference"
    rows: list[tuple[str, ...]] = []
    for name in methods.names():
        try:
            method = methods.get(name)
        except MissingExtraError as error:
            rows.append((name, "–", "–", "–", "–", str(error)))
            continue
        takes = "any" if method.multiclass else "two", "any"
        rows.append((name, method.label, *takes, str(len(method.trade_offs)), method.reference))
    return [dict(zip(names, row, strict=True)) for row in rows]
