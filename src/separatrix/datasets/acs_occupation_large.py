"""ACS occupation at full size: twenty occupations, nine race groups, missing as levels."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.datasets import _acs
from separatrix.datasets._dataset import Data, Dataset


def load(*, columns: _acs.Kind = "income", states: Sequence[str] | None = None) -> Data:
    """Every record with one of the twenty occupations.

    Args:
        columns: "income": AGEP, COW, SCHL, MAR, RELP, SEX, WKHP, POBP of workers over 16 who earn.
            "employment": the columns of folktables' ACSEmployment, of everyone with an occupation.
        states: read the Census files of these states ("vt", …); those not here are downloaded.
    """
    preprocessing = _acs.plan(columns)
    records = _acs.records(columns, states)
    table = dict(records.columns)
    dropped = (f"{records.left_out:,} rows without an occupation among the twenty most frequent.",)
    card = DATASET.card("acs_occupation_large", records.read_from, dropped, records.notes)
    coded = _acs.coded_names(table.pop("OCCP"), table.pop("RAC1P"))
    fitted = preprocessing.fit(table)
    return Data(*coded, card, columns=table, preprocessing=fitted, target="OCCP")


DATASET = Dataset(
    title="ACS occupation, missing kept as levels",
    source=_acs.SOURCE,
    licence=_acs.LICENCE,
    citation=_acs.CITATION,
    rows=251_208,
    features=55,
    labels=20,
    groups=9,
    read=load,
    files=(_acs.INCOME,),
    instead=_acs.census_here,
)
