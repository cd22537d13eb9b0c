"""UCI Bank Marketing: does a client subscribe a term deposit, groups by being married. Embedded."""

from __future__ import annotations

import numpy as np

from separatrix.columns.features import as_category
from separatrix.columns.text import read_csv
from separatrix.columns.values import Coded
from separatrix.datasets._dataset import Data, Dataset
from separatrix.datasets._files import File, read
from separatrix.datasets._preprocessing import Category, Number, Preprocessing

_NUMBERS = ("age", "balance", "day", "duration", "campaign", "pdays", "previous")
_CATEGORIES = (
    "job", "marital", "education", "default", "housing", "loan", "contact", "month", "poutcome",
)  # fmt: skip
_FILE = File(
    ("bank/bank-full.csv",),
    ("d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",),
    embedded="bank-full.csv.xz",
)


def load(*, marital: bool = True) -> Data:
    """Bank: 7 numbers and 44 dummies.

    Args:
        marital: keep the dummies of marital status in X, as in the paper; they give the group.
    """
    blob = read(_FILE)
    lines = blob.content.decode().splitlines()
    only = (*_NUMBERS, *_CATEGORIES, "y")
    columns = read_csv(lines, source="bank-full.csv", delimiter=";", only=only, missing=frozenset())
    subscribed = as_category(columns.pop("y"), "y")
    married = as_category(columns["marital"], "marital").is_level("married")
    if not marital:
        del columns["marital"]
    plan = Preprocessing(tuple(Number(name) if name in _NUMBERS else Category(name) for name in columns))
    notes: tuple[str, ...] = ("`duration` is known only after the call: a model for use before it must leave it out.",)
    if marital:
        notes += ("X holds the dummies of `marital`, from which the group follows.",)
    z = Coded(married.astype(np.intp), ("not married", "married"))
    card = DATASET.card("bank", blob.read_from, notes=notes)
    return Data.from_columns(subscribed, z, columns, plan, card, target="y")


DATASET = Dataset(
    title="UCI Bank Marketing (bank-full)",
    source="UCI Machine Learning Repository, doi:10.24432/C5K306",
    licence="CC BY 4.0",
    citation="Moro, S., Cortez, P. and Rita, P. (2014). A data-driven approach to predict the "
    "success of bank telemarketing. Decision Support Systems 62, 22-31.",
    rows=45_211,
    features=51,
    labels=2,
    groups=2,
    read=load,
    files=(_FILE,),
)
