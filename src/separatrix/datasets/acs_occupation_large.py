"""ACS occupation at full size: twenty occupations, nine race groups, missing as levels.

The paper keeps rows unless occupation, race or age is invalid, which is `columns="employment"` with
the Census Bureau's file of all states: about 634,000 rows by the shares of the 14 states that were
counted. The paper has 575,989; it does not tell its rule for the age (18 to 64 would give about
529,000). "income", workers who earn, gives about 546,000.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from separatrix.datasets import _acs
from separatrix.datasets._dataset import Data


def load(*, columns: _acs.Kind = "income", states: str | Sequence[str] | None = None) -> Data:
    """Every record with one of the twenty occupations.

    Args:
        columns: "income": AGEP, COW, SCHL, MAR, RELP, SEX, WKHP, POBP of workers over 16 who earn.
            "employment": the columns of folktables' ACSEmployment, of everyone with an occupation.
        states: read the Census files of these states ("vt", …, or "us" for all, also as the text
            "vt,wy"); those not here are downloaded.
    """
    records = _acs.records(columns, states)
    return records.data(DATASET, "acs_occupation_large", np.arange(len(records)))


DATASET = _acs.declare("ACS occupation, missing kept as levels", 251_208, load)
