"""Columns as users have them: dates, missing groups, numbers as groups, numbers as targets."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix import datasets
from separatrix.columns.features import as_category, as_days, looks_like_dates, raw_values
from separatrix.columns.groups import bin_labels, binned, quantile_edges
from separatrix.columns.readers import read_blocks
from separatrix.datasets import Grouping, Preprocessing
from separatrix.errors import InputError

N = 120
DAYS = [None if i % 40 == 7 else date(2020, 1, 1) + timedelta(days=3 * i % 101) for i in range(N)]
AGES = [18 + (i * 7) % 60 for i in range(N)]
BASE: dict[str, Any] = {
    "hired": [i % 3 % 2 for i in range(N)],
    "sex": [["f", "m", None][i % 3 if i < 9 else i % 2] for i in range(N)],
    "age": AGES,
    "x": [float(i % 11) for i in range(N)],
}
ENGINES = ["dict", "pandas", "polars", "pyarrow", "csv", "nullable"]


def table(engine: str, columns: dict[str, Any], folder: Path) -> Any:
    """The same columns as a frame of each library, or as a file."""
    if engine == "dict":
        return columns
    if engine == "csv":
        path = folder / "a.csv"
        rows = zip(*columns.values(), strict=True)
        lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
        path.write_text("\n".join([",".join(columns), *lines]), encoding="utf-8")
        return path
    module = pytest.importorskip("pandas" if engine == "nullable" else engine)
    if engine == "nullable":
        return module.DataFrame(columns).convert_dtypes()
    return module.table(columns) if engine == "pyarrow" else module.DataFrame(columns)


def opened(source: Any, **arguments: Any) -> datasets.Data:
    return datasets.from_frame(source, **{"target": "hired", "sensitive": "sex", **arguments})


@pytest.mark.parametrize("engine", ENGINES)
def test_dates_are_days_since_the_first(engine: str, tmp_path: Path) -> None:
    columns = {"hired": BASE["hired"], "z": [i % 2 for i in range(N)], "when": DAYS}
    data = opened(table(engine, columns, tmp_path), sensitive="z")
    assert data.features == ("when", "when=(missing)")
    assert data.card.notes == ("`when`: dates are used as days since 2020-01-01.",)
    days = np.array([np.nan if d is None else (d - date(2020, 1, 1)).days for d in DAYS])
    known = days[~np.isnan(days)]
    wanted = np.where(np.isnan(days), 0.0, (days - known.mean()) / known.std())
    np.testing.assert_allclose(data.X[:, 0], wanted, atol=1e-6)
    assert data.X[:, 1].tolist() == np.isnan(days).astype(int).tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_new_dates_reach_a_saved_preprocessing(engine: str, tmp_path: Path) -> None:
    """Dates that training did not have, before and after its own, from any source."""
    columns = {"hired": BASE["hired"], "z": [i % 2 for i in range(N)], "when": DAYS}
    prepared = datasets.from_frame(columns, target="hired", sensitive="z").preprocessing
    assert prepared is not None
    again = Preprocessing.from_dict(json.loads(json.dumps(prepared.to_dict())))
    assert again == prepared
    new = table(engine, {"when": [date(2031, 5, 1), date(1969, 12, 31), None]}, tmp_path)
    if isinstance(new, Path):
        ((new, _),) = read_blocks(new, ["when"], 10) if new.stat().st_size else ()
    (number,) = again.features
    start = date(2020, 1, 1)
    days = [(date(2031, 5, 1) - start).days, (date(1969, 12, 31) - start).days]
    wanted = [(day - number.mean) / number.scale for day in days]
    np.testing.assert_allclose(again.transform(new)[:2, 0], wanted, rtol=1e-5)


@settings(max_examples=25)
@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), st.integers(-11, 11))
def test_a_time_is_the_same_number_in_every_form(moment: datetime, hours: int) -> None:
    zone = timezone(timedelta(hours=hours))
    days = (moment - datetime(1970, 1, 1)) / timedelta(days=1)
    aware = moment.replace(tzinfo=UTC).astimezone(zone)
    forms = [
        [moment.isoformat()],
        [moment.isoformat(" ")],
        [aware.isoformat()],
        [moment.isoformat() + "Z"],
        [moment],
        [aware],
        np.array([moment], "M8[us]"),
    ]
    for form in forms:
        found = as_days(raw_values(form, "when"), "when")
        assert found == pytest.approx([days], abs=1e-9)


def test_times_with_a_zone_of_each_library() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    moments = [datetime(2024, 3, 31, 23, 30, tzinfo=timezone(timedelta(hours=2))), None]
    wanted = (datetime(2024, 3, 31, 21, 30) - datetime(1970, 1, 1)) / timedelta(days=1)
    for column in (
        pandas.Series(pandas.to_datetime(moments)),
        polars.Series(moments),
        polars.Series(moments).to_arrow(),
        pandas.Series(moments, dtype=object),
    ):
        days = as_days(raw_values(column, "when"), "when")
        assert days[0] == wanted
        assert np.isnan(days[1])


def test_what_is_no_date() -> None:
    for text in ("2023-02-30", "2023-13-01", "31.12.2023", "2023", "2023-01", "20230101", "x"):
        assert looks_like_dates(as_category([text], "when")) != "iso"
    for text in ("2023-02-28", "2023/2/8", "2023.02.28 10:00", "2023-02-28T10:00:00.123456+02:00"):
        assert looks_like_dates(as_category([text], "when")) == "iso"
    prepared = Preprocessing((datasets.Date("when"),)).fit({"when": ["2024-01-01", "2024-02-01"]})
    with pytest.raises(InputError, match=r"`when` must hold dates in ISO form .* got 'soon'"):
        prepared.transform({"when": ["soon"]})
    assert np.isfinite(prepared.transform({"when": [None, None]})).all()
    with pytest.raises(InputError, match="`when` must hold dates, got float64"):
        prepared.transform({"when": [1.5]})


def test_durations_are_days() -> None:
    pandas = pytest.importorskip("pandas")
    spans = pandas.Series(pandas.to_timedelta([36, 12, None], unit="h"))
    assert raw_values(spans, "for").tolist()[:2] == [1.5, 0.5]
    assert raw_values(np.array([36, 12], "m8[h]"), "for").tolist() == [1.5, 0.5]


def test_notes_say_what_was_done_to_columns() -> None:
    columns = {
        "hired": BASE["hired"],
        "z": [i % 2 for i in range(N)],
        "town": [f"town {i % 60:02d}" for i in range(N)],
        "seen": [f"{1 + i % 28}/{1 + i % 12}/2020" for i in range(N)],
    }
    with pytest.warns(UserWarning, match=r"`seen` \(dates that are not in ISO form"):
        data = datasets.from_frame(columns, target="hired", sensitive="z", cap=20)
    assert data.card.dropped == ("`seen`: left out, dates that are not in ISO form such as 2024-03-31.",)
    assert data.card.notes == (
        '`town`: the 20 most frequent of its 60 levels are used; the others are joined as "(other)".',
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_missing_groups_are_dropped_or_their_own(engine: str, tmp_path: Path) -> None:
    source = table(engine, BASE, tmp_path)
    with pytest.raises(InputError, match=r"`sex` has 3 missing values \(rows 2, 5, 8\)"):
        opened(source)
    rows = [i for i in range(N) if BASE["sex"][i] is not None]
    dropped = opened(source, missing_groups="drop")
    assert dropped.groups == ("f", "m")
    assert [dropped.groups[code] for code in dropped.z] == [BASE["sex"][i] for i in rows]
    assert dropped.y.tolist() == [BASE["hired"][i] for i in rows]
    assert len(dropped.X) == len(rows)
    assert "`sex`: 3 rows without a value are left out." in dropped.card.notes
    own = opened(source, missing_groups="own")
    assert own.groups == ("f", "m", "(missing)")
    assert np.flatnonzero(own.z == 2).tolist() == [2, 5, 8]
    assert own.grouping is not None
    again = Grouping.from_dict(json.loads(json.dumps(own.grouping.to_dict())))
    assert again == own.grouping
    if not isinstance(source, Path):
        assert (again.codes(source) == own.z).all()
    assert again.codes({"sex": ["m", None]}).tolist() == [1, 2]
    assert again.codes_of([None, "f"], 2).tolist() == [2, 0]
    assert dropped.grouping is not None
    with pytest.raises(InputError, match="missing value"):
        dropped.grouping.codes({"sex": ["m", None]})


def test_missing_groups_of_several_columns() -> None:
    data = datasets.from_frame(
        {**BASE, "old": [i % 4 > 1 for i in range(N)]}, target="hired", sensitive=["sex", "old"], missing_groups="own"
    )
    assert data.groups[-2:] == (("(missing)", False), ("(missing)", True))
    assert data.grouping is not None
    rows = {"old": [True, False], "sex": [None, "f"]}
    names = [data.groups[code] for code in data.grouping.codes(rows)]
    assert names == [("(missing)", True), ("f", False)]
    with pytest.raises(InputError, match="'drop' or 'own', got 'keep'"):
        datasets.from_frame(BASE, target="hired", sensitive="sex", missing_groups="keep")
    nobody = {**BASE, "sex": [None] * N}
    with pytest.raises(InputError, match="`sex` has no value in any row"):
        datasets.from_frame(nobody, target="hired", sensitive="sex", missing_groups="drop")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sensitive_number_is_cut_at_quartiles(engine: str, tmp_path: Path) -> None:
    columns = {name: BASE[name] for name in ("hired", "age", "x")}
    source = table(engine, columns, tmp_path)
    data = opened(source, sensitive="age")
    assert data.groups == ("below 33", "33 to below 48", "48 to below 63", "63 or more")
    edges = np.array([33, 48, 63])
    assert data.z.tolist() == np.searchsorted(edges, AGES, "right").tolist()
    assert np.bincount(data.z).min() >= N / 4 - 2
    assert data.card.notes[0].startswith("`age`: its numbers are put into 4 groups at quantiles")
    assert data.grouping is not None
    again = Grouping.from_dict(json.loads(json.dumps(data.grouping.to_dict())))
    new = [17, 33, 47.5, 90]
    assert again.codes({"age": new}).tolist() == [0, 1, 1, 3]
    assert again.codes_of(np.array(new), 4).tolist() == [0, 1, 1, 3]
    assert again.codes_of(["below 33", "63 or more"], 2).tolist() == [0, 3]
    if isinstance(source, Path):
        parts = [again.codes(block) for block, _ in read_blocks(source, ["age"], 50)]
        assert np.concatenate(parts).tolist() == data.z.tolist()
    with pytest.raises(InputError, match="`age` holds 'old'; its groups are made of numbers"):
        again.codes({"age": ["old"]})
    with pytest.raises(InputError, match="missing value"):
        again.codes({"age": [20, None]})
    with pytest.raises(InputError, match="one group per row, 3, got 2"):
        again.codes_of([20, 30], 3)
    whole = opened(source, sensitive="age", categorical=["age"])
    assert len(whole.groups) == len(set(AGES))
    assert "edges" not in whole.grouping.to_dict()


def test_few_numbers_are_codes_and_not_cut() -> None:
    data = datasets.from_frame({**BASE, "race": [i % 12 for i in range(N)]}, target="hired", sensitive="race")
    assert data.groups == tuple(range(12))
    assert data.card.notes == ()


def test_a_number_beside_another_column() -> None:
    table_ = {**BASE, "sex": ["f" if i % 2 else "m" for i in range(N)]}
    table_["age"] = [None if i == 3 else a for i, a in enumerate(AGES)]
    data = datasets.from_frame(table_, target="hired", sensitive=["sex", "age"], missing_groups="own")
    assert ("f", "(missing)") in data.groups
    assert data.grouping is not None
    one = data.grouping.codes_of({"age": [20, None], "sex": ["f", "f"]}, 2)
    assert [data.groups[code] for code in one] == [("f", "below 33"), ("f", "(missing)")]
    assert (data.grouping.codes_of([["f", "f"], [20, None]], 2) == one).all()
    assert (data.grouping.codes_of([("f", "below 33"), ("f", "(missing)")], 2) == one).all()
    with pytest.raises(InputError, match="must be the columns sex, age, got 3 columns"):
        data.grouping.codes_of([["f"], [20], [1]], 1)


@settings(max_examples=40)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.integers(-50, 50), min_size=2, max_size=200).filter(
        lambda values: len(set(values)) > 1
    )
)
def test_bins_cover_every_number_and_none_is_empty(values: list[float]) -> None:
    x = np.array(values, dtype=float)
    edges = quantile_edges(x)
    assert 1 <= len(edges) <= 3
    assert list(edges) == sorted(set(edges))
    codes = binned(x, edges, "x").codes
    assert set(codes.tolist()) == set(range(len(edges) + 1))
    assert (codes == np.searchsorted(edges, x, "right")).all()
    assert len(bin_labels(edges)) == len(edges) + 1


def test_a_numeric_target_is_called_regression() -> None:
    pay = {**BASE, "pay": np.linspace(10.5, 99.0, N)}
    with pytest.raises(InputError, match=r"`pay` holds 120 different numbers.*regression.*54\.75"):
        datasets.from_frame(pay, target="pay", sensitive="x")
    grades = {**BASE, "grade": [float(i % 5) / 2 for i in range(N)]}
    assert len(datasets.from_frame(grades, target="grade", sensitive="x").labels) == 5
    letters = {**BASE, "letter": [i % 26 for i in range(N)]}
    assert len(datasets.from_frame(letters, target="letter", sensitive="x").labels) == 26


def test_a_frame_with_dates_reaches_a_plan() -> None:
    frame = {"when": DAYS, "x": BASE["x"]}
    prepared = datasets.plan(frame).fit(frame)
    assert prepared.names == ("when", "when=(missing)", "x")
