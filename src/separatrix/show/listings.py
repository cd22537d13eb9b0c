"""The registries as tables: the datasets and the methods."""

from __future__ import annotations

from separatrix import datasets, methods
from separatrix.errors import MissingExtraError
from separatrix.show.tables import Table

__all__ = ["dataset_table", "method_table"]


def dataset_table() -> str:
    """One line per dataset."""
    rows = tuple(
        (
            row["name"],
            row["rows"],
            row["features"],
            row["labels"],
            row["groups"],
            "yes" if row["available"] else "no",
            row["where"],
            row["licence"],
        )
        for row in datasets.listing()
    )
    return Table(
        "Datasets",
        ("Name", "Rows", "Features", "Labels", "Groups", "Here", "Where", "Licence"),
        rows,
    ).text()


def method_table() -> str:
    """One line per method."""
    rows: list[tuple[str, ...]] = []
    for name in methods.names():
        try:
            method = methods.get(name)
        except MissingExtraError as error:
            rows.append((name, "–", "–", "–", "–", str(error)))
            continue
        takes = [
            ("any" if able else "two")
            for able in (method.supports.multiclass, method.supports.multigroup)
        ]
        rows.append((name, method.label, *takes, str(len(method.trade_offs)), method.reference))
    return Table(
        "Methods", ("Name", "Label", "Labels", "Groups", "Trade-offs", "Reference"), tuple(rows)
    ).text()
