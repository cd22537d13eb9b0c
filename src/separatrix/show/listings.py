"""The registries as tables: the datasets and the methods."""

from __future__ import annotations

from separatrix import datasets, methods
from separatrix.errors import MissingExtraError
from separatrix.show.tables import Table

__all__ = ["dataset_table", "method_table"]


def dataset_table() -> str:
    """One line per dataset."""
    head = ("Name", "Rows", "Features", "Labels", "Groups", "Here", "Where", "Licence")
    names = "name", "rows", "features", "labels", "groups", "available", "where", "licence"
    known = [row | {"available": "yes" if row["available"] else "no"} for row in datasets.listing()]
    return Table("Datasets", head, tuple(tuple(row[n] for n in names) for row in known)).text()


def method_table() -> str:
    """One line per method."""
    rows: list[tuple[str, ...]] = []
    for name in methods.names():
        try:
            method = methods.get(name)
        except MissingExtraError as error:
            rows.append((name, "–", "–", "–", "–", str(error)))
            continue
        able = method.supports.multiclass, method.supports.multigroup
        takes = ["any" if one else "two" for one in able]
        rows.append((name, method.label, *takes, str(len(method.trade_offs)), method.reference))
    head = ("Name", "Label", "Labels", "Groups", "Trade-offs", "Reference")
    return Table("Methods", head, tuple(rows)).text()
