"""Files: one dialect, in memory and in DuckDB; a right answer or one sentence."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import separatrix as sx
from separatrix import datasets
from separatrix.auditing.tables import count_rows
from separatrix.cli import app
from separatrix.columns import readers
from separatrix.columns.readers import scan
from separatrix.columns.text import read_files
from separatrix.columns.values import Coded
from separatrix.errors import DataError, InputError


@pytest.fixture(params=["memory", "duckdb"])
def reader(request, monkeypatch):
    """Small files through either engine."""
    monkeypatch.setattr(readers, "LARGE", 1 << 40 if request.param == "memory" else -1)
    if request.param == "memory":
        monkeypatch.setattr(readers, "duckdb_is_here", lambda: False)
    return request.param


def values(column):
    if isinstance(column, Coded):
        return [None if code < 0 else column.levels[code] for code in column.codes]
    return [None if x != x else x for x in column.tolist()]


TEXT = """id,mixed,number,code,flag,answer,empty,"a,b"
1,NA,NA,007,true,yes,,"x
y"
2,x,2.5,008,false,no,, z\x20
3,,-3e2,1,true,yes,,"q""q"
"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_the_dialect(reader, tmp_path, ending, start):
    path = tmp_path / "rows.csv"
    path.write_bytes((start + TEXT.replace("\n", ending)).encode())
    table = {name: values(column) for name, column in readers.read_table(path).items()}
    assert table.pop("a,b") == [f"x{ending}y", "z", 'q"q']
    assert table == {
        "id": [1, 2, 3],
        "mixed": ["NA", "x", None],  # a text column: NA is a level
        "number": [None, 2.5, -300.0],  # a column of numbers: NA is missing
        "code": ["007", "008", "1"],  # leading zeros
        "flag": ["true", "false", "true"],  # no booleans are guessed
        "answer": ["yes", "no", "yes"],
        "empty": [None, None, None],
    }
    assert isinstance(table["id"][0], int)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_header_shows_the_delimiter(reader, tmp_path, delimiter):
    path = tmp_path / "rows.csv"
    path.write_text(delimiter.join("abc") + "\n" + delimiter.join("123") + "\n")
    assert values(readers.read_table(path, ["c"])["c"]) == [3]


def rows(tmp_path, n=300, name="rows.csv"):
    rng = np.random.default_rng(0)
    y, z = rng.choice(["no", "yes"], n), rng.choice(["NA", "f", "m"], n)
    n_old = rng.integers(0, 2, n)
    p = np.clip(0.5 * (y == "yes") + 0.5 * rng.random(n), 0.01, 0.99).round(3)
    frame = pl.DataFrame(
        {"y": y, "sex": z, "old": n_old, "p": p, "u": np.where(p > 0.5, "yes", "no"),
         "q": (1 - p).round(3),
         "w": rng.integers(1, 4, n), "x": rng.normal(size=n)}
    )  # fmt: skip
    frame.write_csv(tmp_path / name)
    return frame


@pytest.mark.parametrize("pred", ["u", ["q", "p"]])
@pytest.mark.parametrize("weight", [None, "w"])
def test_audits_of_files_equal_the_audit_of_their_arrays(reader, tmp_path, pred, weight):
    frame = rows(tmp_path)
    table = count_rows(tmp_path / "rows.csv", y="y", z=["sex", "old"], pred=pred, weight=weight)
    w = None if weight is None else frame["w"].to_numpy()
    a = sx.audit(frame["y"], frame[pred], sensitive_features=frame[["sex", "old"]], sample_weight=w)
    assert table.labels == ("no", "yes")  # as they stand in the file
    assert table.groups == a.table.groups
    assert table.groups[0] == ("NA", 0)
    np.testing.assert_allclose(table.counts, a.table.counts, atol=1e-9)
    np.testing.assert_allclose(table.second_moments, a.table.second_moments, atol=1e-9)


def test_trace_and_audit_read_the_same_labels_and_groups(reader, tmp_path):
    rows(tmp_path)
    data = datasets.from_frame(tmp_path / "rows.csv", target="y", sensitive=["sex", "old"], drop=["u", "q"])
    table = count_rows(tmp_path / "rows.csv", y="y", z=["sex", "old"], pred="u")
    assert (data.labels, data.groups) == (table.labels, table.groups)
    np.testing.assert_array_equal(data.cells, table.counts.sum(2))


@pytest.mark.slow
def test_the_limit_of_a_file_is_that_of_its_columns(reader, tmp_path):
    frame = rows(tmp_path)
    asked = ["--target", "y", "--sensitive", "sex", "--sensitive", "old", "--score", "p"]
    told = CliRunner().invoke(app, ["limit", str(tmp_path / "rows.csv"), *asked])
    best = sx.limit(frame["y"], frame["p"].to_numpy(), sensitive_features=frame[["sex", "old"]])
    assert told.exit_code == 0
    assert told.stdout.splitlines()[0] == str(best).splitlines()[0]
    table = readers.read_table(tmp_path / "rows.csv", ["y", "sex", "old", "p"])
    gc.collect()
    groups = {name: table[name] for name in ("sex", "old")}
    best = sx.limit(frame["y"], frame["p"], sensitive_features=frame[["sex", "old"]])
    assert str(sx.limit(table["y"], table["p"], sensitive_features=groups)) == str(best)


def test_types_that_only_late_rows_show_count(reader, tmp_path):
    """The first 3,000 rows look like integers; one later value decides."""
    late = tmp_path / "late.csv"
    body = "".join(f"{i % 2},a{i % 2},{i % 2}\n" for i in range(3_000))
    late.write_text("y,z,p\n" + body + "0,a0,0.25\n1,a1,0.75\n")
    with pytest.raises(InputError, match=r"`p` holds 0.25, which is no label"):
        count_rows(late, y="y", z="z", pred="p")
    late.write_text("z,y,p\n" + body.replace("a", "") + "007,1,1\n")
    assert count_rows(late, y="y", z="z", pred="p").groups == ("0", "007", "1")


def test_internal_looking_blank_and_case_twin_names(reader, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("__rows,__w,y,Y,k0,k0 \n0,0,1,5,1,0\n1,1,0,5,0,1\n0,0,1,5,1,1\n")
    table = count_rows(path, y="__rows", z="k0 ", pred="__w")
    assert (table.rows, table.groups, table.labels) == (3, (0, 1), (0, 1))
    assert count_rows(path, y="y", z="__w", pred="k0").counts.sum() == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y,z,u\n", "no rows"),
        ("", "empty|no rows"),
        ("y,z,u\n0,a,0,5\n1,b,1,\n", "4 fields|cannot be read"),
        ("y,z,u\n0,a\n", "2 fields|cannot be read"),
        ("y,z,u\n0,,0\n1,b,1\n", "missing value"),
        ("y,z,q\n0,a,0\n", "no column 'u'"),
        ("y,z,u,z\n0,a,0,b\n1,b,1,a\n", "two columns of the name 'z'"),
        ("y,z,u\n0,a,high\n1,b,low\n", "is a value of"),
    ],
)
def test_a_bad_file_is_one_sentence(reader, tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises((InputError, DataError), match=message) as caught:
        count_rows(path, y="y", z="z", pred="u")
    assert "\n" not in str(caught.value)


def test_trailing_commas_in_every_line_are_an_empty_column(reader, tmp_path):
    path = tmp_path / "rows.csv"
    for header in ("y,z,u,", "y,z,u"):
        path.write_text(f"{header}\n0,a,0,\n1,b,1,\n")
        assert count_rows(path, y="y", z="z", pred="u").rows == 2


def test_parquet_keeps_its_types(tmp_path):
    frame = pl.DataFrame({"y": [True, False, True], "z": ["a", "b", "NA"], "u": [True, False, False]})
    frame.write_parquet(tmp_path / "rows.parquet")
    table = count_rows(tmp_path / "rows.parquet", y="y", z="z", pred="u")
    assert (table.labels, table.groups) == ((False, True), ("NA", "a", "b"))
    again = readers.read_table(tmp_path / "*.parquet", ["z"])
    assert list(again) == ["z"]


@pytest.mark.slow
def test_a_scan_keeps_its_connection(tmp_path):
    """Older DuckDBs close a relation whose connection is collected."""
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n2,y\n")
    found = readers.scan([tmp_path / "rows.csv"])
    gc.collect()
    assert found.connection.execute("SELECT 1").fetchall() == [(1,)]
    assert len(found.relation.fetchall()) == 2


NUMBERS = [
    "1", "2.5", "-3", "+4", "0", "007", "1.", ".5", "1e3", "", "NA", "nan", "x", " 5 ", "1e999",
    "123456789012345678", "-123456789012345678", "1234567890123456789", "inf", "1_000", "0x1", "-0",
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3), min_size=1, max_size=4))
def test_duckdb_and_python_read_numbers_alike(tmp_path: Path, columns: list[list[str]]) -> None:
    """The engine that parses numbers itself gives the values and the types of `typed`."""
    pytest.importorskip("duckdb")
    rows = [["name", *(f"c{i}" for i in range(len(columns)))]]
    rows += [[f"n{r}", *(column[r % len(column)] for column in columns)] for r in range(5)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(map(",".join, rows)), encoding="utf-8")
    ours, wanted = scan([path]).columns(), read_files([path])
    assert list(ours) == list(wanted)
    for name, values in wanted.items():
        if isinstance(values, Coded):
            assert (ours[name].levels, ours[name].codes.tolist()) == (values.levels, values.codes.tolist())
        else:
            assert ours[name].dtype == values.dtype
            np.testing.assert_array_equal(ours[name], values)


def test_parquet_is_counted_without_duckdb(tmp_path, monkeypatch):
    pl.DataFrame({"y": [0, 1, 1], "z": ["f", "m", "f"], "u": [0, 1, 0]}).write_parquet(tmp_path / "rows.parquet")
    with_duckdb = count_rows(tmp_path / "rows.parquet", y="y", z="z", pred="u")
    monkeypatch.setattr("separatrix.columns.readers.duckdb_is_here", lambda: False)
    without = count_rows(tmp_path / "rows.parquet", y="y", z="z", pred="u")
    np.testing.assert_array_equal(without.counts, with_duckdb.counts)
