"""A user's own table."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from separatrix import datasets
from separatrix.errors import DataError, InputError, MissingExtraError

N = 200
RNG = np.random.default_rng(0)
TABLE: dict[str, list[Any]] = {
    "id": [f"p{i:04d}" for i in range(N)],
    "row": list(range(1000, 1000 + N)),
    "age": RNG.integers(18, 80, N).tolist(),
    "income": [None if i % 9 == 0 else float(i % 37) for i in range(N)],
    "job": [f"job {i * i % 23:02d}" if i % 11 else None for i in range(N)],
    "remark": [f"the client {i} called on day {i % 7} about it" for i in range(N - 3)] + ["the client called"] * 3,
    "country": ["US"] * N,
    "empty": [None] * N,
    "member": [i % 3 == 0 for i in range(N)],
    "code": [i % 4 for i in range(N)],
    "sex": [["f", "m"][i % 2] for i in range(N)],
    "young": [i % 5 < 2 for i in range(N)],
    "hired": [int(i % 7 < 3) for i in range(N)],
}
ARGUMENTS = {"target": "hired", "sensitive": "sex", "drop": ["id", "row", "remark"]}


def frame(engine: str, table: dict[str, list[Any]] = TABLE) -> Any:
    if engine == "dict":
        return table
    module = pytest.importorskip(engine)
    return module.table(table) if engine == "pyarrow" else module.DataFrame(table)


@pytest.mark.parametrize("engine", ["pandas", "polars", "pyarrow"])
def test_every_engine_gives_the_same_data(engine: str) -> None:
    ours, plain = (datasets.from_frame(frame(e), **ARGUMENTS) for e in (engine, "dict"))
    assert ours.features == plain.features
    assert np.array_equal(ours.X, plain.X)
    assert np.array_equal(ours.y, plain.y)
    assert (ours.labels, ours.groups, ours.card) == (plain.labels, plain.groups, plain.card)


def test_a_lazy_table_is_collected() -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    eager = polars.DataFrame(TABLE)
    expected = datasets.from_frame(eager, **ARGUMENTS)
    for lazy in (eager.lazy(), duckdb.sql("select * from eager")):
        assert np.array_equal(datasets.from_frame(lazy, **ARGUMENTS).X, expected.X)


def test_a_dask_table_is_collected() -> None:
    pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    eager = pandas.DataFrame({name: TABLE[name] for name in ("age", "income", "job", "member", "sex", "hired")})
    lazy = dask.from_pandas(eager, npartitions=3)
    ours, expected = (datasets.from_frame(table, target="hired", sensitive="sex") for table in (lazy, eager))
    assert np.array_equal(ours.X, expected.X)
    assert np.array_equal(ours.y, expected.y)


def test_what_becomes_of_each_column() -> None:
    data = datasets.from_frame(TABLE, **ARGUMENTS, cap=3)
    jobs = Counter(job for job in TABLE["job"] if job is not None)
    frequent = sorted(sorted(jobs, key=lambda job: (-jobs[job], job))[:3])
    assert data.features == (
        *("age", "income", "income=(missing)", *(f"job={job}" for job in frequent)),
        *("job=(other)", "job=(missing)", "member=false", "member=true", "code", "young=false", "young=true"),
    )
    assert data.card.dropped == (
        *("`id`: left out, as you asked.", "`row`: left out, as you asked.", "`remark`: left out, as you asked."),
        *("`country`: left out, constant.", "`empty`: left out, constant."),
    )
    assert (data.labels, data.groups) == ((0, 1), ("f", "m"))
    assert data.y.tolist() == TABLE["hired"]
    assert data.group_sizes == {"f": 100, "m": 100}


def test_integer_codes_can_be_categories() -> None:
    data = datasets.from_frame(TABLE, **ARGUMENTS, categorical=["code"])
    assert [name for name in data.features if name.startswith("code")] == ["code=0", "code=1", "code=2", "code=3"]


def test_sensitive_columns_are_intersected_and_left_out() -> None:
    data = datasets.from_frame(TABLE, target="hired", sensitive=["sex", "young"], drop=["id", "row", "remark"])
    assert data.groups == (("f", False), ("f", True), ("m", False), ("m", True))
    assert not [name for name in data.features if name.startswith(("sex", "young"))]
    for i in range(N):
        assert data.groups[data.z[i]] == (TABLE["sex"][i], TABLE["young"][i])


@pytest.mark.parametrize("engine", ["dict", "pandas", "polars"])
def test_labels_keep_their_type(engine: str) -> None:
    kinds = {"hired": (0, 1), "member": (False, True), "sex": ("f", "m"), "income": tuple(float(i) for i in range(37))}
    for target in ("hired", "member", "sex"):
        data = datasets.from_frame(frame(engine), target=target, sensitive="young", drop=["id", "row", "remark"])
        assert data.labels == kinds[target]
        assert [type(label) for label in data.labels] == [type(label) for label in kinds[target]]
        assert [data.labels[y] for y in data.y] == TABLE[target]


def test_identifiers_and_free_text_are_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"`id` \(an identifier.*`row` \(an identifier.*`remark` \(free text\)"):
        data = datasets.from_frame(TABLE, target="hired", sensitive="sex")
    assert not {"id", "row", "remark"} & set(data.columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = datasets.from_frame(TABLE, target="hired", sensitive="sex", keep=["row"], drop=["id", "remark"])
    assert "row" in kept.features


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"target": "salary"}, r"`target`.* no column 'salary'. There are 'id', 'row', 'age'"),
        ({}, {"drop": ["sex"]}, "'sex' is named twice, in `sensitive` and in `drop`"),
        ({}, {"drop": ["hired"]}, "'hired' is named twice, in `target` and in `drop`"),
        ({}, {"sensitive": "hired"}, "'hired' is named twice, in `target` and in `sensitive`"),
        ({}, {"drop": "id"}, r"`drop` must be a list of column names, got the text 'id'"),
        ({}, {"sensitive": []}, "`sensitive` must name at least one column"),
        ({}, {"sensitive": ["sex", "sex"]}, "'sex' is named twice"),
        ({}, {"cap": 0}, "`cap` must be at least 1"),
        ({}, {"target": "country"}, "target column `country` has 1 levels .* needs 2 to 100. Is it constant"),
        (
            {},
            {"target": "row", "drop": ["id"]},
            "target column `row` holds 200 different numbers: that looks like regression",
        ),
        ({}, {"target": "income"}, r"`income` has 23 missing values \(rows 0, 9, 18, …\)"),
        (
            {"sex": [None, *TABLE["sex"][1:]]},
            {},
            r"`sex` has 1 missing value \(row 0\).*--missing-groups drop.*\"own\"",
        ),
        ({"age": [1, 2]}, {}, "same number of rows"),
        ({"age": [np.inf] + [1.0] * (N - 1)}, {}, "`age` holds an infinite value in row 0"),
        ({"age": [[1, 2]] * N}, {}, "`age` must be one value per row"),
    ],
)
def test_bad_tables_are_refused(change: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        datasets.from_frame({**TABLE, **change}, **{**ARGUMENTS, **arguments})


def test_an_empty_table_or_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="no rows"):
        datasets.from_frame({name: [] for name in TABLE}, **ARGUMENTS)
    with pytest.raises(InputError, match=r"must be a dataframe .* got ndarray"):
        datasets.from_frame(np.zeros((3, 3)), **ARGUMENTS)


def test_two_columns_of_one_name_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([[1, 2, 3]] * 4, columns=["a", "a", "b"])
    with pytest.raises(InputError, match="two columns of the name 'a'"):
        datasets.from_frame(table, target="a", sensitive="b")


def write_csv(path: Path, delimiter: str = ",") -> str:
    names = list(TABLE)
    lines = [delimiter.join(names)]
    for row in zip(*TABLE.values(), strict=True):
        lines.append(delimiter.join("" if value is None else str(value) for value in row))
    text = "\n".join(lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode("utf-8-sig"))
    return text


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t"), ("a.csv.gz", ",")])
def test_a_text_file_is_read_like_its_frame(tmp_path: Path, name: str, delimiter: str) -> None:
    path = tmp_path / name
    write_csv(path, delimiter)
    data = datasets.from_frame(path, **ARGUMENTS)
    expected = datasets.from_frame(TABLE, **ARGUMENTS)
    assert [f.lower() for f in data.features] == list(expected.features)  # True is text in a CSV file
    assert np.array_equal(data.X, expected.X)
    assert data.card.read_from == {str(path): hashlib.sha256(path.read_bytes()).hexdigest()}
    assert data.card.name == name


def test_a_parquet_file_is_read_like_its_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(frame("pyarrow"), tmp_path / "a.parquet")
    data = datasets.from_frame(tmp_path / "a.parquet", **ARGUMENTS)
    assert np.array_equal(data.X, datasets.from_frame(TABLE, **ARGUMENTS).X)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:500])
    with pytest.raises(DataError, match=r"cut\.parquet is not a whole Parquet file"):
        datasets.from_frame(tmp_path / "cut.parquet", **ARGUMENTS)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"a\.parquet needs pyarrow: pip install 'separatrix\[engines\]'"):
        datasets.from_frame(tmp_path / "a.parquet", **ARGUMENTS)


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*gone\.csv"):
        datasets.from_frame(tmp_path / "gone.csv", **ARGUMENTS)
    write_csv(tmp_path / "a.csv.gz")
    (tmp_path / "a.csv.gz").write_bytes((tmp_path / "a.csv.gz").read_bytes()[:-20])
    with pytest.raises(DataError, match=r"a\.csv\.gz cannot be read to its end"):
        datasets.from_frame(tmp_path / "a.csv.gz", **ARGUMENTS)
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        datasets.from_frame(tmp_path / "a.csv", **ARGUMENTS)


def test_new_raw_rows_reach_the_deployed_preprocessing() -> None:
    """What a predictor does: preprocessing from JSON, rows by column name, levels it never saw."""
    pandas = pytest.importorskip("pandas")
    data = datasets.from_frame(TABLE, **ARGUMENTS)
    assert data.preprocessing is not None
    deployed = datasets.Preprocessing.from_dict(data.preprocessing.to_dict())
    rows = pandas.DataFrame(TABLE).iloc[:5].drop(columns=["hired", "sex"])
    assert np.array_equal(deployed.transform(rows), data.X[:5])
    rows.loc[0, "job"] = "job 99"
    new = deployed.transform(rows)
    assert not new[0, [i for i, name in enumerate(data.features) if name.startswith("job=")]].any()


@pytest.mark.parametrize("sensitive", ["sex", "young", "code", ["sex", "young"], ["young", "code", "sex"]])
@pytest.mark.parametrize("engine", ["dict", "pandas", "polars", "pyarrow"])
def test_the_group_of_new_rows_is_found_by_name(engine: str, sensitive: str | list[str]) -> None:
    data = datasets.from_frame(TABLE, target="hired", sensitive=sensitive, drop=["id", "row", "remark"])
    assert data.grouping is not None
    again = datasets.Grouping.from_dict(json.loads(json.dumps(data.grouping.to_dict())))
    assert again == data.grouping
    assert np.array_equal(again.codes(frame(engine)), data.z)
    assert again.codes(frame(engine, {name: values[7:8] for name, values in TABLE.items()})).tolist() == [data.z[7]]


def test_an_unknown_group_is_an_error() -> None:
    grouping = datasets.from_frame(TABLE, **ARGUMENTS).grouping
    assert grouping is not None
    with pytest.raises(InputError, match=r"`sex` holds 'x', which is not one of 'f', 'm'"):
        grouping.codes({"sex": ["f", "x"]})
    with pytest.raises(InputError, match=r"`sex` has 1 missing value .row 1.\."):
        grouping.codes({"sex": ["f", None]})


def test_odd_column_types() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    base = {"y": [0, 1, 0, 1], "z": [0, 0, 1, 1]}
    mixed = pandas.DataFrame({**base, "m": pandas.Series([1, "1", "a", None], dtype=object)})
    data = datasets.from_frame(mixed, target="y", sensitive="z")
    assert data.X.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]  # 1 and "1" are one level
    decimals = polars.DataFrame({**base, "d": [1, 2, 3, None]}, schema_overrides={"d": polars.Decimal(10, 2)})
    assert datasets.from_frame(decimals, target="y", sensitive="z").features == ("d", "d=(missing)")
    enum = polars.DataFrame({**base, "e": ["a", "b", "b", "a"]}, schema_overrides={"e": polars.Enum(["b", "a", "c"])})
    assert datasets.from_frame(enum, target="y", sensitive="z").features == ("e=a", "e=b")
    for column in ([[1], [2], [3], [4]], [b"a", b"b", b"b", b"a"]):
        with pytest.raises(InputError, match=r"`odd` holds .* neither numbers nor categories"):
            datasets.from_frame(polars.DataFrame({**base, "odd": column}), target="y", sensitive="z")


def test_kept_columns_are_used_whatever_they_look_like() -> None:
    table = {"v": ["10.2.15", "10.2.16", "10.2.15", "10.2.16"], "y": [0, 1, 0, 1], "z": [0, 0, 1, 1]}
    with (
        pytest.warns(UserWarning, match=r"`v` \(dates that are not in ISO form"),
        pytest.raises(InputError, match="No feature is left"),
    ):
        datasets.from_frame(table, target="y", sensitive="z")
    assert datasets.from_frame(table, target="y", sensitive="z", keep=["v"]).features == ("v=10.2.15", "v=10.2.16")


def test_a_plan_is_from_frame_without_a_target() -> None:
    rest = ("hired", "sex", "id", "row", "remark")
    features = {name: TABLE[name] for name in TABLE if name not in rest}
    whole = datasets.from_frame(TABLE, **ARGUMENTS)
    assert datasets.plan(features).fit(features) == whole.preprocessing
