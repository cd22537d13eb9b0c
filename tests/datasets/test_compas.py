"""ProPublica COMPAS: the filter, the features, and that no person leaves the reader."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from separatrix import datasets
from separatrix.columns.values import Coded
from separatrix.datasets import compas
from separatrix.errors import DataError, InputError

# The header of ProPublica's file, 53 columns; two names occur twice.
_HEADER = (
    "id,name,first,last,compas_screening_date,sex,dob,age,age_cat,race,juv_fel_count,decile_score,juv_misd_count,"
    "juv_other_count,priors_count,days_b_screening_arrest,c_jail_in,c_jail_out,c_case_number,c_offense_date,"
    "c_arrest_date,c_days_from_compas,c_charge_degree,c_charge_desc,is_recid,r_case_number,r_charge_degree,"
    "r_days_from_arrest,r_offense_date,r_charge_desc,r_jail_in,r_jail_out,violent_recid,is_violent_recid,"
    "vr_case_number,vr_charge_degree,vr_offense_date,vr_charge_desc,type_of_assessment,decile_score,score_text,"
    "screening_date,v_type_of_assessment,v_decile_score,v_score_text,v_screening_date,in_custody,out_custody,"
    "priors_count,start,end,event,two_year_recid"
)
HEADER = _HEADER.split(",")
PRIVATE = ("id", "name", "first", "last", "dob", "_date", "case_number", "jail_", "custody")
KEPT = {"days_b_screening_arrest": "-1", "score_text": "Low", "two_year_recid": "1", "is_recid": "1"}


def row(**values: str) -> list[str]:
    """One person; what identifies him is the text SECRET."""
    base = {
        **{name: "SECRET" for name in HEADER if any(part in name or part == name for part in PRIVATE)},
        "sex": "Male",
        "age": "31",
        "age_cat": "25 - 45",
        "race": "Caucasian",
        "priors_count": "2",
        "c_charge_degree": "F",
        "c_charge_desc": "Battery",
        **KEPT,
    }
    for name in ("juv_fel_count", "juv_misd_count", "juv_other_count"):
        base[name] = "0"
    base.update(values)
    return [base.get(name, "") for name in HEADER]


@pytest.fixture
def original(own_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with ProPublica's 53 columns and eight made-up people, of whom four pass the
    filter.
    """
    rows = [
        row(race="African-American", age_cat="Less than 25", priors_count="0"),
        row(priors_count="3", c_charge_degree="M"),
        row(age_cat="Greater than 45", priors_count="4", is_recid="0", two_year_recid="0"),
        row(race="African-American", is_recid="1", two_year_recid="0"),
        row(days_b_screening_arrest="31"),
        row(days_b_screening_arrest=""),
        row(race="Hispanic"),
        row(score_text="N/A"),
        row(c_charge_degree="O"),
        row(is_recid="-1"),
    ]
    path = own_data / "compas" / "compas-scores-two-years.csv"
    path.parent.mkdir()
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([HEADER, *rows])
    monkeypatch.setattr(compas, "_FILE", replace(compas._FILE, sha256=(), url=None))
    return path


def test_the_papers_data(data_folder: str) -> None:
    data = datasets.load("compas")
    assert data.X.shape == (5_278, 8)
    assert data.group_sizes == {"African-American": 3_175, "Caucasian": 2_103}
    assert round(float(data.y.mean()), 4) == 0.5015
    assert round(float(datasets.load("compas", target="two_year_recid").y.mean()), 4) == 0.4704
    assert len(np.unique(np.column_stack([data.X, data.z]), axis=0)) == 36  # distinct (x, z)
    assert np.array_equal(data.X.sum(1), np.full(5_278, 3))


def test_against_the_text(data_folder: str) -> None:
    """The standard filter, row by row, without any of the reader's parts."""
    text = gzip.decompress(Path(data_folder, "compas/compas-scores-two-years.noid.csv.gz").read_bytes()).decode()
    rows = list(csv.reader(io.StringIO(text)))
    place = {name: rows[0].index(name) for name in rows[0]}
    expected = []
    for fields in rows[1:]:
        get = {name: fields[index] for name, index in place.items()}
        if get["days_b_screening_arrest"] == "" or abs(int(get["days_b_screening_arrest"])) > 30:
            continue
        if get["is_recid"] == "-1" or get["c_charge_degree"] == "O" or get["score_text"] == "N/A":
            continue
        if get["race"] in ("African-American", "Caucasian"):
            priors = int(get["priors_count"])
            band = "0" if priors == 0 else "1-3" if priors <= 3 else ">3"
            on = {f"age_cat={get['age_cat']}", f"c_charge_degree={get['c_charge_degree']}", f"priors_count={band}"}
            expected.append((on, int(get["is_recid"]), get["race"]))
    data = datasets.load("compas")
    found = [
        ({data.features[i] for i in np.flatnonzero(x)}, int(y), data.groups[z])
        for x, y, z in zip(data.X, data.y, data.z, strict=True)
    ]
    assert found == expected


def test_propublicas_own_file_is_read_alike(original: Path) -> None:
    data = datasets.load("compas")
    assert data.y.tolist() == [1, 1, 0, 1]
    assert [data.groups[z] for z in data.z] == ["African-American", "Caucasian", "Caucasian", "African-American"]
    assert [[data.features[i] for i in np.flatnonzero(x)] for x in data.X] == [
        ["age_cat=Less than 25", "c_charge_degree=F", "priors_count=0"],
        ["age_cat=25 - 45", "c_charge_degree=M", "priors_count=1-3"],
        ["age_cat=Greater than 45", "c_charge_degree=F", "priors_count=>3"],
        ["age_cat=25 - 45", "c_charge_degree=F", "priors_count=1-3"],
    ]
    assert datasets.load("compas", target="two_year_recid").y.tolist() == [1, 1, 0, 0]
    assert data.card.dropped[0].startswith("5 rows")
    assert data.card.dropped[1].startswith("1 rows")


@pytest.mark.parametrize("features", ["paper", "full"])
def test_no_person_leaves_the_reader(original: Path, features: str) -> None:
    data = datasets.load("compas", features=features)
    levels = [level for column in data.columns.values() if isinstance(column, Coded) for level in column.levels]
    assert "SECRET" in original.read_text()
    assert "SECRET" not in repr((data, levels, data.features, data.card, data.preprocessing))
    assert not [name for name in data.columns if any(part in name or part == name for part in PRIVATE)]


def test_a_changed_column_is_an_error(original: Path) -> None:
    original.write_text(original.read_text().replace("days_b_screening_arrest", "days_before_arrest"))
    with pytest.raises(DataError, match="has no column 'days_b_screening_arrest'"):
        datasets.load("compas")


def test_a_truncated_file_is_an_error(original: Path) -> None:
    original.write_text(original.read_text()[:-40])
    with pytest.raises(DataError, match="truncated or damaged"):
        datasets.load("compas")


def test_a_wrong_file_is_an_error(own_data: Path) -> None:
    path = own_data / "compas" / "compas-scores-two-years.csv"
    path.parent.mkdir()
    path.write_text("sex,age\nMale,31\n")
    with pytest.raises(DataError, match="is not the file that was expected"):
        datasets.load("compas")


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(InputError, match="must be 'is_recid' or 'two_year_recid', got 'decile_score'"):
        datasets.load("compas", target="decile_score")
