"""Shared by the two ACS datasets: the person records of the 2018 one-year PUMS.

Two kinds of source: a Parquet file with selected columns, and the Census Bureau's own files
(csv_pXX.zip or the psam_pNN.csv inside, in folktables' folders) of any states.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.features import as_numbers, raw_values
from separatrix.columns.readers import read_table
from separatrix.columns.values import Coded
from separatrix.core.numbers import one_of
from separatrix.datasets._dataset import Data, Dataset
from separatrix.datasets._files import File, find, read, where_to_put
from separatrix.datasets._preprocessing import Band, Category, Feature, Preprocessing
from separatrix.errors import DataError, InputError, require
from separatrix.io import Stages

Kind = Literal["income", "employment"]
Columns = dict[str, NDArray[np.float64]]
INCOME = File(
    ("acs/acs_income_2018_1yr_us.parquet",), ("5ecde6a3900a974ec0011c345be387e7df0539b273d5d1adeb2b94d64e773ca0",)
)
EMPLOYMENT = File(
    ("acs/acs_pums_2018_1yr_person_14states.parquet",),
    ("6abf140b986f19d750074fd492adcfc085f2c1ea065a8f3fc0d174d03a5f228a",),
)
_PARQUET = {
    "income": "the nationwide 46 % sample of the ACSIncome table (workers over 16 who earn)",
    "employment": "all persons of 14 states (DE HI ID ME MT ND NE NH NM RI SD VT WV WY)",
}
_STATES = (
    "01 al 02 ak 04 az 05 ar 06 ca 08 co 09 ct 10 de 11 dc 12 fl 13 ga 15 hi 16 id 17 il 18 in 19 "
    "ia 20 ks 21 ky 22 la 23 me 24 md 25 ma 26 mi 27 mn 28 ms 29 mo 30 mt 31 ne 32 nv 33 nh 34 nj "
    "35 nm 36 ny 37 nc 38 nd 39 oh 40 ok 41 or 42 pa 44 ri 45 sc 46 sd 47 tn 48 tx 49 ut 50 vt 51 "
    "va 53 wa 54 wv 55 wi 56 wy 72 pr us us"
)
# "vt": "50"; "us" is all states
_FIPS = {_STATES[i + 3 : i + 5]: _STATES[i : i + 2] for i in range(0, len(_STATES), 6)}
_RACES = {
    1: "White",
    2: "Black or African American",
    3: "American Indian",
    4: "Alaska Native",
    5: "American Indian or Alaska Native, tribe not specified",
    6: "Asian",
    7: "Native Hawaiian or other Pacific Islander",
    8: "some other race",
    9: "two or more races",
}
_DECADES = ("10", "20", "30", "40", "50", "60", ">=70")
_DEGREES = ("no diploma", "high school", "some college", "associate", "bachelor", "master")
_HOURS = ("<20", "20-34", "35-39", "40", "41-49", ">=50")
_BANDS = {
    "AGEP": Band("AGEP", _DECADES, edges=(20, 30, 40, 50, 60, 70)),
    "POBP": Band("POBP", ("US", "elsewhere"), edges=(60,)),
    "SCHL": Band("SCHL", (*_DEGREES, "professional or doctorate"), edges=(16, 18, 20, 21, 22, 23)),
    "WKHP": Band("WKHP", _HOURS, edges=(20, 35, 40, 41, 50)),
}
_LAST_CODE = {  # of codes 1, 2, …
    "CIT": 5, "COW": 8, "DEAR": 2, "DEYE": 2, "DIS": 2, "DREM": 2, "ESP": 8, "MAR": 5, "MIG": 3,
    "MIL": 4, "NATIVITY": 2, "SEX": 2,
}  # fmt: skip
_CODES: dict[str, Sequence[int]] = {name: range(1, k + 1) for name, k in _LAST_CODE.items()}
_CODES |= {"ANC": (1, 2, 3, 4, 8), "RELP": range(18)}
_FEATURES = {
    "income": "AGEP COW SCHL MAR RELP SEX WKHP POBP",
    "employment": "AGEP SCHL MAR RELP DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM SEX",
}


def _plan(kind: str) -> Preprocessing:
    """The features of "income" or "employment", not yet fitted."""
    one_of(kind, "columns", *_FEATURES)
    features: list[Feature] = []
    for name in _FEATURES[kind].split():
        codes = tuple(map(str, _CODES.get(name, ())))
        features.append(_BANDS[name] if name in _BANDS else Category(name, codes))
    return Preprocessing(tuple(features))


@dataclass(frozen=True, eq=False)
class Records:
    """Person records with one of the twenty most frequent occupations; NaN for missing.

    Args:
        kind: "income" or "employment".
        columns: the feature columns, and OCCP and RAC1P.
        read_from: file and sha256 of each part.
        note: what was read.
        left_out: rows with another occupation or none.
    """

    kind: Kind
    columns: Columns
    read_from: dict[str, str]
    note: str
    left_out: int

    def __len__(self) -> int:
        return len(self.columns["OCCP"])

    def data(
        self,
        declared: Dataset,
        name: str,
        rows: NDArray[np.intp],
        dropped: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> Data:
        """Some records as data; only occupations and groups that occur have a code."""
        table = {column: x[rows] for column, x in self.columns.items()}
        labels, y = np.unique(table.pop("OCCP").astype(np.int64), return_inverse=True)
        groups, z = np.unique(table.pop("RAC1P").astype(np.int64), return_inverse=True)
        occupation = Coded(y, tuple(f"{code:04d}" for code in labels))  # as the Census writes it
        race = Coded(z, tuple(_RACES[code] for code in groups.tolist()))
        others = f"{self.left_out:,} rows without an occupation among the twenty most frequent."
        card = declared.card(name, self.read_from, (others, *dropped), (self.note, *notes))
        return Data.from_columns(occupation, race, table, _plan(self.kind), card, target="OCCP")


def records(kind: Kind, states: str | Sequence[str] | None) -> Records:
    """Read the Parquet file, or Census files: of `states` (downloaded if absent) or those here."""
    states = states.split(",") if isinstance(states, str) else states
    wanted = (*_plan(kind).columns, "OCCP", "RAC1P")
    parquet = INCOME if kind == "income" else EMPLOYMENT
    if states is None and find(parquet) is not None:
        blob = read(parquet)
        table = read_table(blob.origin, wanted)
        columns = {name: as_numbers(raw_values(x, name), name) for name, x in table.items()}
        read_from = {blob.origin: blob.sha256}
        note = f"Read: {_PARQUET[kind]}."
    else:
        chosen = _states_here() if states is None else [name.lower() for name in states]
        for state in chosen:
            if state not in _FIPS:
                raise InputError(f"There is no state {state!r}; use postal codes such as 'vt' ({', '.join(_FIPS)}).")
        if not chosen:
            raise DataError(
                f"No ACS data here. {where_to_put(_census_file('us'))} states=['vt', …] downloads some states, "
                "states=['us'] all (`separatrix benchmark --option acs_occupation.states=vt`)."
            )
        columns, read_from = _read_census(chosen, wanted, kind)
        who = "workers over 16 who earn (the filter of ACSIncome)" if kind == "income" else "all persons"
        note = f"Read: {len(read_from)} Census files ({' '.join(chosen).upper()}), {who}."
    occupation = columns["OCCP"]
    codes, counts = np.unique(occupation[~np.isnan(occupation)], return_counts=True)
    top = codes[np.argsort(-counts, kind="stable")[:20]]  # ties: the smaller code
    usable = np.isin(occupation, top) & ~np.isnan(columns["RAC1P"])
    if not usable.any():
        raise DataError(f"No record with an occupation in {', '.join(read_from)}. Are these 2018 person files?")
    rows = {name: x[usable] for name, x in columns.items()}
    return Records(kind, rows, read_from, note, int((~usable).sum()))


def declare(title: str, rows: int, load: Callable[..., Data]) -> Dataset:
    """What both datasets declare."""
    return Dataset(
        title=title,
        source="US Census Bureau, American Community Survey 2018 1-year PUMS",
        licence="public domain (US Government work)",
        citation="US Census Bureau (2019). American Community Survey 2018 1-year Public Use "
        "Microdata Sample; columns as in Ding, F., Hardt, M., Miller, J. and Schmidt, L. (2021). "
        "Retiring Adult. NeurIPS.",
        rows=rows,
        features=55,
        labels=20,
        groups=9,
        read=load,
        files=(_census_file("us"),),
        instead=_here,
    )


def _census_file(state: str) -> File:
    names = (f"csv_p{state}.zip", f"psam_p{_FIPS[state]}.csv")
    return File(
        tuple(f"{folder}2018/1-Year/{name}" for folder in ("acs/", "") for name in names),
        url=f"https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year/csv_p{state}.zip",
        check=_check_person_file,
    )


def _here() -> str | None:
    """The file or the Census files at hand, for the listing."""
    states = _states_here()
    return find(INCOME) or (f"Census files ({' '.join(states).upper()})" if states else None)


def _states_here() -> list[str]:
    states = [state for state in _FIPS if find(_census_file(state)) is not None]
    return ["us"] if "us" in states else states  # the file of all states holds the others


def _check_person_file(content: bytes) -> None:
    """A zip must be whole; the Census states no hash, but a zip has checksums of its own."""
    if content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if (bad := archive.testzip()) is not None:
                raise ValueError(f"{bad} inside it is damaged")
    elif b"SERIALNO" not in content[:10_000]:
        raise ValueError("neither a zip file nor a CSV file of person records")


def _read_census(states: Sequence[str], wanted: Sequence[str], kind: str) -> tuple[Columns, dict[str, str]]:
    filters = ("AGEP", "PINCP", "WKHP", "PWGTP") if kind == "income" else ()
    needed = tuple(dict.fromkeys((*wanted, *filters)))
    parts: dict[str, list[NDArray[np.float64]]] = {name: [np.empty(0)] for name in wanted}
    read_from = {}
    with Stages().stage("Census files", len(states)) as advance:
        for state in states:
            blob = read(_census_file(state))
            for batch in _person_batches(blob.content, blob.origin, needed):
                rows: Any = slice(None)
                if kind == "income":
                    age, income, hours, weight = (batch[name] for name in filters)
                    rows = (age > 16) & (income > 100) & (hours > 0) & (weight >= 1)
                for name in wanted:
                    parts[name].append(batch[name][rows])
            read_from[blob.origin] = blob.sha256
            advance()
    return {name: np.concatenate(columns) for name, columns in parts.items()}, read_from


def _person_batches(content: bytes, origin: str, needed: Sequence[str]) -> Iterator[Columns]:
    """The needed columns, batch by batch: the file of all states has 3 million rows."""
    csv = require("pyarrow.csv", "engines", "The Census files")
    options = csv.ConvertOptions(include_columns=list(needed), column_types=dict.fromkeys(needed, "float64"))
    try:
        for text in _person_texts(content, origin):
            with text, csv.open_csv(text, convert_options=options) as batches:
                for batch in batches:
                    numbers = (batch[name].to_numpy(zero_copy_only=False) for name in needed)
                    yield dict(zip(needed, numbers, strict=True))
    except KeyError as error:  # pyarrow's own names the column
        what = f"a person file of the 2018 one-year PUMS (it has no {error.args[0]})"
        raise DataError(f"{origin} is not {what}.") from error
    except ValueError as error:  # pyarrow's ArrowInvalid is one
        raise DataError(f"{origin} is damaged or truncated: {error}.") from error


def _person_texts(content: bytes, origin: str) -> Iterator[IO[bytes]]:
    """A person file itself, or those in a zip: the file of all states has two."""
    if content[:2] != b"PK":
        yield io.BytesIO(content)
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        inside = [name for name in names if name.startswith("psam_p") and name.endswith(".csv")]
        if not inside:
            raise DataError(f"{origin} should hold a psam_pNN.csv, it holds {', '.join(names)}.")
        yield from map(archive.open, inside)
