"""Datasets: one file each, and the folder is the registry.

`names()` reads the folder without importing anything; `load(name)` imports the one file and reads
its data. A file without a leading underscore is a dataset and declares `DATASET`.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from separatrix.columns.features import take
from separatrix.columns.groups import Grouping
from separatrix.datasets._dataset import Card, Data, Dataset, Truth, folds
from separatrix.datasets._files import find, where_to_put
from separatrix.datasets._frames import from_frame, plan
from separatrix.datasets._preprocessing import Band, Category, Date, Number, Preprocessing
from separatrix.errors import InputError

__all__ = [
    "Band",
    "Card",
    "Category",
    "Data",
    "Dataset",
    "Date",
    "Grouping",
    "Number",
    "Preprocessing",
    "Truth",
    "dataset",
    "folds",
    "from_frame",
    "listing",
    "load",
    "names",
    "plan",
    "take",
]


def names() -> list[str]:
    """The names that `load` takes.

    >>> "adult" in names()
    True
    """
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def dataset(name: str) -> Dataset:
    """What the file of this name declares: title, source, licence, sizes, files. Reads no data."""
    if name not in names():
        raise InputError(f"There is no dataset {name!r}; there are {', '.join(names())}.")
    declared = import_module(f"{__name__}.{name}").DATASET
    assert isinstance(declared, Dataset)
    return declared


def load(name: str, **options: Any) -> Data:
    """Read a dataset.

    Args:
        name: one of `names()`.
        options: the keyword arguments of that dataset's `load`, such as `features="full"` of adult.

    Returns:
        X, y, z with the names of their values, the raw columns and a card.

    Raises:
        InputError: no such dataset or option.
        DataError: a file is not here, or not the one that was expected.

    >>> adult = load("adult")
    >>> adult.X.shape, adult.labels, adult.group_sizes
    ((32561, 16), ('<=50K', '>50K'), {'Female': 10771, 'Male': 21790})
    """
    reader = dataset(name).read
    known = list(inspect.signature(reader).parameters)
    for option in options:
        if option not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InputError(f"Dataset {name!r} has no option {option!r}; {takes}.")
    return reader(**options)


def listing() -> list[dict[str, Any]]:
    """One row per dataset for a table: sizes, licence, and where it is or must be put.

    >>> row = next(row for row in listing() if row["name"] == "adult")
    >>> row["rows"], row["features"], row["labels"], row["groups"], row["available"], row["where"]
    (32561, 16, 2, 2, True, 'embedded')
    """
    about = ("title", "rows", "features", "labels", "groups")
    rows = []
    for name in names():
        declared = dataset(name)
        place = declared.where()
        where = place or " ".join(where_to_put(file) for file in declared.files if find(file) is None)
        row = {"name": name} | {key: getattr(declared, key) for key in about}
        rows.append(row | {"available": place is not None, "where": where, "licence": declared.licence})
    return rows


def __dir__() -> list[str]:
    return __all__
