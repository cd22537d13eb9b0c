"""UCI Adult: income above 50,000 dollars, groups by sex; the training file, embedded."""

from __future__ import annotations

from typing import Literal

from separatrix.columns.features import as_category
from separatrix.columns.groups import Grouping
from separatrix.columns.text import read_csv
from separatrix.core.numbers import one_of
from separatrix.datasets._dataset import Data, Dataset
from separatrix.datasets._files import File, read
from separatrix.datasets._preprocessing import Band, Category, Number, Preprocessing

_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip
_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_PAPER = (
    Band("age", ("10", "20", "30", "40", "50", "60", ">=70"), edges=(20, 30, 40, 50, 60, 70)),
    Band("education-num", ("<6", *map(str, range(6, 13)), ">12"), edges=tuple(range(6, 14))),
)
_FULL = tuple(
    Number(name) if name in _NUMBERS else Category(name) for name in _COLUMNS if name not in ("sex", "income")
)
_FILE = File(
    ("adult/adult.data",),
    ("5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",),
    embedded="adult.data.xz",
)


def load(*, features: Literal["paper", "full"] = "paper") -> Data:
    """Adult.

    Args:
        features: "paper": decades of age, years of education (16 dummies). "full": all but sex.
    """
    one_of(features, "features", "paper", "full")
    blob = read(_FILE)
    plan = _PAPER if features == "paper" else _FULL
    wanted = (*Preprocessing(plan).columns, "sex", "income")
    lines = blob.content.decode().splitlines()
    columns = read_csv(lines, source="adult.data", header=_COLUMNS, only=wanted, missing=frozenset({"?"}))
    income, sex = (as_category(columns.pop(name), name) for name in ("income", "sex"))
    note = "`relationship` (Husband, Wife) all but names the sex that is left out of X."
    card = DATASET.card("adult", blob.read_from, notes=(note,) if features == "full" else ())
    grouping = Grouping(("sex",), sex.levels)
    return Data.from_columns(income, sex, columns, Preprocessing(plan), card, target="income", grouping=grouping)


DATASET = Dataset(
    title="UCI Adult (Census Income)",
    source="UCI Machine Learning Repository, doi:10.24432/C5XW20",
    licence="CC BY 4.0",
    citation="Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository.",
    rows=32_561,
    features=16,
    labels=2,
    groups=2,
    read=load,
    files=(_FILE,),
)
