"""ACS occupation, both sizes: the counts of the real files, and the Census Bureau's own layout in
miniature.
"""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from separatrix import datasets
from separatrix.datasets import _acs
from separatrix.errors import DataError, InputError, MissingExtraError

_COLUMNS = (
    "RT SERIALNO PWGTP AGEP COW SCHL MAR OCCP POBP RELP WKHP SEX RAC1P PINCP DIS ESP CIT MIG MIL "
    "ANC NATIVITY DEAR "
    "DEYE DREM"
)
COLUMNS = _COLUMNS.split()
TOP = [2310, 440, 9130, 4720, 3255, 4760, 5740, 5240, 4700, 4220, 9620, 4020, 4110, 800, 6260, 9645, 5860, 2205, 2545]


def person_file(seed: int, n: int = 400, columns: list[str] = COLUMNS) -> bytes:
    """A psam_pNN.csv of made-up people in the Census Bureau's layout: leading zeros, empty for
    missing.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(n):
        rows.append(
            {
                "RT": "P",
                "SERIALNO": f"2018{index:09d}",
                "PWGTP": f"{rng.integers(1, 200):05d}",
                "AGEP": f"{rng.integers(0, 95):02d}",
                "COW": rng.choice(["1", "2", "5", "8", ""]),
                "SCHL": f"{rng.integers(1, 25):02d}",
                "MAR": rng.integers(1, 6),
                "OCCP": rng.choice(["", "0010", *(f"{code:04d}" for code in TOP)]),
                "POBP": f"{rng.choice([6, 50, 72, 303]):03d}",
                "RELP": f"{rng.integers(0, 18):02d}",
                "WKHP": rng.choice(["", "01", "40", "60"]),
                "SEX": rng.integers(1, 3),
                "RAC1P": rng.integers(1, 10),
                "PINCP": rng.choice(["", "0000000", "0054000", "-005000"]),
                "ESP": rng.choice(["", "1"]),
                "MIL": rng.choice(["", "4"]),
                **dict.fromkeys(("DIS", "CIT", "MIG", "NATIVITY", "DEAR", "DEYE", "DREM", "ANC"), 1),
            }
        )
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, columns, extrasaction="ignore", quoting=csv.QUOTE_MINIMAL)
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def zipped(content: bytes, name: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
        archive.writestr("ACS2018_PUMS_README.pdf", b"%PDF")
    return stream.getvalue()


@pytest.fixture
def census(own_data: Path) -> Path:
    pytest.importorskip("pyarrow")
    folder = own_data / "acs" / "2018" / "1-Year"
    folder.mkdir(parents=True)
    (folder / "csv_pvt.zip").write_bytes(zipped(person_file(1), "psam_p50.csv"))
    (folder / "psam_p56.csv").write_bytes(person_file(2))
    return folder


@pytest.mark.slow
def test_the_papers_small_regime(data_folder: str) -> None:
    data = datasets.load("acs_occupation")
    assert data.X.shape == (2_576, 55)
    assert data.cells.shape == (20, 9)
    assert min(data.group_sizes.values()) >= 5
    other = datasets.load("acs_occupation", random_state=1)
    assert not np.array_equal(other.y, data.y)
    assert min(other.group_sizes.values()) >= 5
    assert len(datasets.load("acs_occupation", n=500)) == 500
    with pytest.raises(InputError, match="`n` must be between 45"):
        datasets.load("acs_occupation", n=44)


@pytest.mark.nightly
def test_the_small_sample_is_drawn_from_the_large_one(data_folder: str) -> None:
    small, large = datasets.load("acs_occupation"), datasets.load("acs_occupation_large")
    rows = Counter(_keys(large))
    assert not Counter(_keys(small)) - rows
    # Groups beyond the floor of five are represented as in the large sample.
    share = np.bincount(small.z)[[0, 1, 5]] / len(small)
    assert np.allclose(share, np.bincount(large.z)[[0, 1, 5]] / len(large), atol=0.03)


def _keys(data: datasets.Data) -> list[tuple[Any, ...]]:
    raw = np.column_stack([np.asarray(column) for column in data.columns.values()])
    return [(*row, data.labels[y], data.groups[z]) for row, y, z in zip(raw.tolist(), data.y, data.z, strict=True)]


@pytest.mark.slow
def test_full_size(data_folder: str) -> None:
    data = datasets.load("acs_occupation_large")
    assert data.X.shape == (251_208, 55)
    assert list(data.group_sizes.values()) == [195_199, 23_814, 1_769, 154, 337, 12_915, 452, 10_112, 6_456]
    assert {*data.labels} == {f"{code:04d}" for code in (*TOP, 4850)}
    assert np.array_equal(data.X.sum(1), np.full(len(data), 8))  # each of the eight columns has exactly one level


def test_the_employment_columns(data_folder: str) -> None:
    large = datasets.load("acs_occupation_large", columns="employment")
    assert len(large) == 36_400
    assert list(large.group_sizes.values()) == [30_636, 889, 1_001, 4, 70, 1_530, 347, 613, 1_310]
    assert "ESP=(missing)" in large.features
    assert np.array_equal(large.X.sum(1), np.full(len(large), 15))
    small = datasets.load("acs_occupation", columns="employment")
    assert len(small) == 493
    assert "the 493 complete rows are all of working people aged 17" in small.card.notes[-1]
    assert not [name for name in small.features if "missing" in name]


def test_census_files_give_the_people_of_the_nationwide_file(
    data_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vermont, written in the Census layout, filtered as ACSIncome, holds every Vermonter of the
    nationwide sample.
    """
    parquet = pytest.importorskip("pyarrow.parquet")
    wanted = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"]
    full = parquet.read_table(
        Path(data_folder, _acs.EMPLOYMENT.paths[0]),
        columns=["SERIALNO", "PWGTP", "PINCP", *wanted],
        filters=[("ST", "=", 50)],
    )
    sample = parquet.read_table(
        Path(data_folder, _acs.INCOME.paths[0]), columns=wanted, filters=[("ST", "=", 50)]
    ).to_pydict()
    stream = io.StringIO(newline="")
    csv.writer(stream).writerow(full.column_names)
    csv.writer(stream).writerows(zip(*full.to_pydict().values(), strict=True))
    folder = tmp_path / "own" / "2018" / "1-Year"
    folder.mkdir(parents=True)
    (folder / "csv_pvt.zip").write_bytes(zipped(stream.getvalue().encode(), "psam_p50.csv"))
    monkeypatch.setenv("SEPARATRIX_DATA", str(tmp_path / "own"))
    people, _ = _acs._read_census(["vt"], wanted, "income")
    ours = Counter(zip(*(people[name].astype(int).tolist() for name in wanted), strict=True))
    theirs = Counter(zip(*(sample[name] for name in wanted), strict=True))
    assert sum(theirs.values()) > 1_000
    assert not theirs - ours
    data = datasets.load("acs_occupation_large", states=["VT"])
    assert len(data.labels) == 20
    assert "1 Census files (VT), workers over 16 who earn" in data.card.notes[0]


def test_whatever_states_are_there(census: Path) -> None:
    both = datasets.load("acs_occupation_large")
    one = datasets.load("acs_occupation_large", states=["wy"])
    assert [Path(name).name for name in both.card.read_from] == ["csv_pvt.zip", "psam_p56.csv"]
    assert 0 < len(one) < len(both)
    assert "COW=(missing)" in both.features  # missing is a level
    assert "2 Census files (VT WY)" in both.card.notes[0]


def test_the_listing_knows_census_files(census: Path) -> None:
    rows = {row["name"]: row for row in datasets.listing()}
    for name in ("acs_occupation", "acs_occupation_large"):
        assert (rows[name]["available"], rows[name]["where"]) == (True, "Census files (VT WY)")


def test_the_file_of_all_states_holds_two_parts(census: Path) -> None:
    both = datasets.load("acs_occupation_large")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("psam_pusa.csv", person_file(1))
        archive.writestr("psam_pusb.csv", person_file(2))
    (census / "csv_pus.zip").write_bytes(stream.getvalue())
    data = datasets.load("acs_occupation_large")  # and the states are not read twice
    assert [Path(name).name for name in data.card.read_from] == ["csv_pus.zip"]
    assert np.array_equal(data.X, both.X)
    assert np.array_equal(data.y, both.y)


def test_the_filters_by_hand(census: Path) -> None:
    rows = [r for seed in (1, 2) for r in csv.DictReader(io.StringIO(person_file(seed).decode()))]
    workers = [
        r
        for r in rows
        if int(r["AGEP"]) > 16 and r["PINCP"] and int(r["PINCP"]) > 100 and r["WKHP"] and r["OCCP"]  # PWGTP ≥ 1 always
    ]
    top = {code for code, _ in sorted(Counter(r["OCCP"] for r in workers).items(), key=lambda c: (-c[1], c[0]))[:20]}
    data = datasets.load("acs_occupation_large")
    expected = [(r["OCCP"], int(r["RAC1P"])) for r in workers if r["OCCP"] in top]
    races = list(_acs._RACES.values())
    assert [(data.labels[y], races.index(data.groups[z]) + 1) for y, z in zip(data.y, data.z, strict=True)] == expected
    everyone = datasets.load("acs_occupation_large", columns="employment")
    assert len(everyone) > len(data)
    complete = datasets.load("acs_occupation", columns="employment")
    assert 0 < len(complete) < len(everyone)


def test_a_damaged_zip_is_an_error(census: Path) -> None:
    path = census / "csv_pvt.zip"
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"csv_pvt\.zip is damaged or truncated"):
        datasets.load("acs_occupation_large")
    path.write_bytes(bytes(content[:2_000]))
    with pytest.raises(DataError, match="damaged or truncated"):
        datasets.load("acs_occupation_large")


def test_a_changed_column_is_an_error(census: Path) -> None:
    columns = ["RELSHIPP" if name == "RELP" else name for name in COLUMNS]
    (census / "csv_pvt.zip").write_bytes(zipped(person_file(1, columns=columns), "psam_p50.csv"))
    with pytest.raises(DataError, match=r"not a person file of the 2018 .*'RELP'"):
        datasets.load("acs_occupation_large", states=["vt"])


def test_a_zip_of_something_else_is_an_error(census: Path) -> None:
    (census / "csv_pvt.zip").write_bytes(zipped(b"SERIALNO\n1\n", "psam_h50.csv"))
    with pytest.raises(DataError, match="should hold a psam_pNN"):
        datasets.load("acs_occupation_large", states=["vt"])


def test_a_page_instead_of_a_zip_does_not_enter_the_cache(
    own_data: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pooch = pytest.importorskip("pooch")
    sends = [
        b"<html>not found</html>",
        zipped(person_file(1), "psam_p50.csv")[:-100],
        zipped(person_file(1), "psam_p50.csv"),
    ]

    class Server:
        def __init__(self, timeout: int) -> None: ...

        def __call__(self, url: str, output_file: str, mypooch: Any) -> None:
            assert url == "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year/csv_pvt.zip"
            Path(output_file).write_bytes(sends.pop(0))

    monkeypatch.setattr(pooch, "HTTPDownloader", Server)
    for _ in range(2):
        with pytest.raises(DataError, match="nothing was kept"):
            datasets.load("acs_occupation_large", states=["vt"])
        assert not [path for path in cache.rglob("*") if path.is_file()]
    assert len(datasets.load("acs_occupation_large", states=["vt"])) > 0
    assert (cache / "acs/2018/1-Year/csv_pvt.zip").is_file()


def test_nothing_here_says_what_to_do(own_data: Path) -> None:
    with pytest.raises(DataError, match=rf"csv_pus.zip is not here: put it at {own_data}/acs/2018/.*https://www2.cens"):
        datasets.load("acs_occupation")


def test_bad_options_are_refused() -> None:
    with pytest.raises(InputError, match="must be 'income' or 'employment', got 'travel'"):
        datasets.load("acs_occupation_large", columns="travel")
    with pytest.raises(InputError, match="There is no state 'xx'"):
        datasets.load("acs_occupation_large", states=["xx"])


def test_without_pyarrow_the_extra_is_named(data_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"separatrix\[engines\]"):
        datasets.load("acs_occupation")
