"""ProPublica COMPAS: recidivism in Broward County, African-American and Caucasian defendants.

The paper calls its target "recidivism within 2 years". Its constant predictors (EO gap 0 ± 0) have
an accuracy of 0.500. That fits `is_recid`, which 50.2 % of these rows have, and not
`two_year_recid`, with 47.0 %. So `is_recid` is the default.

The file names people. Only the columns listed here are ever decoded: no name, date of birth, case
number or date of jail or custody leaves this reader, whether it is given ProPublica's 53 columns or
a copy without them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from separatrix.columns.features import as_category, as_numbers, take
from separatrix.columns.groups import Grouping
from separatrix.columns.text import read_csv
from separatrix.columns.values import Coded
from separatrix.core.numbers import one_of
from separatrix.datasets._dataset import Data, Dataset
from separatrix.datasets._files import File, read
from separatrix.datasets._preprocessing import Band, Category, Feature, Number, Preprocessing

_PAPER = (
    Category("age_cat", ("Less than 25", "25 - 45", "Greater than 45")),
    Category("c_charge_degree", ("F", "M")),
    Band("priors_count", ("0", "1-3", ">3"), edges=(1, 4)),
)
_NUMBERS = ("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")
_FULL: tuple[Feature, ...] = (
    Category("sex"),
    *(Number(name) for name in _NUMBERS),
    Category("c_charge_degree"),
    Category("c_charge_desc", cap=30),
)
_FILTER = (
    "race", "days_b_screening_arrest", "is_recid", "two_year_recid", "c_charge_degree",
    "score_text",
)  # fmt: skip
_RACES = ("African-American", "Caucasian")
_FILE = File(
    ("compas/compas-scores-two-years.csv", "compas/compas-scores-two-years.noid.csv"),
    (
        "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        "b0f3cb2521cf096c805f5eac66536d80b57e70e604588dca9e649e16005ae98e",
    ),
    url="https://raw.githubusercontent.com/propublica/compas-analysis/"
    "bafff5da3f2e45eca6c2d5055faad269defd135a/compas-scores-two-years.csv",
)


def load(
    *, features: Literal["paper", "full"] = "paper", target: Literal["is_recid", "two_year_recid"] = "is_recid"
) -> Data:
    """COMPAS.

    Args:
        features: "paper": age category, charge degree and priors in three bands, 8 dummies. "full":
            also sex, age, juvenile counts, priors as a number and the 30 most frequent charges.
        target: any recidivism on file, which fits the paper's figures, or within two years.
    """
    one_of(features, "features", "paper", "full")
    one_of(target, "target", "is_recid", "two_year_recid")
    blob = read(_FILE)
    plan = Preprocessing(_PAPER if features == "paper" else _FULL)
    wanted = tuple(dict.fromkeys((*plan.columns, *_FILTER)))
    table = read_csv(blob.content.decode().splitlines(), source="compas-scores-two-years.csv", only=wanted)
    # ProPublica's filter: a charge within 30 days of screening, known outcome, no traffic offence
    usable = np.abs(as_numbers(table["days_b_screening_arrest"], "days_b_screening_arrest")) <= 30
    usable &= as_numbers(table["is_recid"], "is_recid") != -1
    usable &= ~as_category(table["c_charge_degree"], "c_charge_degree").is_level("O")
    usable &= ~as_category(table["score_text"], "score_text").is_level("N/A")
    race = as_category(table["race"], "race")
    both = usable & race.is_level(*_RACES)
    y = Coded(as_numbers(table[target], target)[both].astype(np.intp), (0, 1))
    z = Coded(race[both].is_level(_RACES[1]).astype(np.intp), _RACES)
    dropped = (
        f"{int((~usable).sum()):,} rows by ProPublica's filter (no charge within 30 days "
        "of the screening, unknown outcome, ordinary traffic offence, no score).",
        f"{int(usable.sum() - both.sum()):,} rows of other groups.",
        "Columns that name a person, a date or a case; COMPAS's scores; later outcomes.",
    )
    card = DATASET.card("compas", blob.read_from, dropped)
    columns = take({name: table[name] for name in plan.columns}, both)
    return Data.from_columns(y, z, columns, plan, card, target=target, grouping=Grouping(("race",), _RACES))


DATASET = Dataset(
    title="ProPublica COMPAS, two-year file",
    source="github.com/propublica/compas-analysis",
    licence="none stated; public records of Broward County, Florida",
    citation="Angwin, J., Larson, J., Mattu, S. and Kirchner, L. (2016). Machine bias. ProPublica.",
    rows=5_278,
    features=8,
    labels=2,
    groups=2,
    read=load,
    files=(_FILE,),
)
