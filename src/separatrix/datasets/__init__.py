"""Datasets: one file each, and the folder is the registry.

`names()` reads the folder without importing anything; `load(name)` imports the one file and reads its data. A file
without a leading underscore is a dataset and declares `DATASET`.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.resources import files
from typing import Any

from separatrix.datasets._folds import folds
from separatrix.datasets._preprocessing import Band, Category, Number, Preprocessing
from separatrix.datasets._sample import Card, Dataset, Sample, Truth
from separatrix.errors import InputError

__all__ = [
    "Band",
    "Card",
    "Category",
    "Dataset",
    "Number",
    "Preprocessing",
    "Sample",
    "Truth",
    "dataset",
    "folds",
    "load",
    "names",
]


def names() -> list[str]:
    """The names that `load` takes.

    >>> "adult" in names()
    True
    """
    found = (entry.name for entry in files(__name__).iterdir())
    return sorted(name[:-3] for name in found if name.endswith(".py") and not name.startswith("_"))


def dataset(name: str) -> Dataset:
    """What the file of this name declares: title, source, licence, sizes, files. Reads no data."""
    if name not in names():
        raise InputError(f"There is no dataset {name!r}; there are {', '.join(names())}.")
    declared = import_module(f"{__name__}.{name}").DATASET
    assert isinstance(declared, Dataset)
    return declared


def load(name: str, **options: Any) -> Sample:
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
