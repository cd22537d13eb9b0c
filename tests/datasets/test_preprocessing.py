"""The fitted preprocessing: by column name, from any engine, through JSON, on training rows
only.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.datasets import Band, Category, Number, Preprocessing
from separatrix.errors import InputError

PLAN = Preprocessing(
    (
        Number("age"),
        Category("job", cap=2),
        Band("hours", ("short", "middle", "long"), edges=(20, 40)),
        Category("member"),
    )
)
RAW: dict[str, list[Any]] = {
    "age": [20, 40, None, 60],
    "job": ["cook", "nurse", "pilot", None],
    "hours": [19.9, 20.0, 40.0, None],
    "member": [True, False, True, None],
}


def as_engine(engine: str, raw: dict[str, list[Any]]) -> Any:
    if engine == "dict":
        return raw
    module = pytest.importorskip(engine)
    if engine == "pyarrow":
        return module.table(raw)
    if engine == "duckdb":
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(raw)
        return module.sql("select * from frame") if frame is not None else None
    return module.DataFrame(raw)


@pytest.mark.parametrize("engine", ["dict", "pandas", "polars", "pyarrow", "duckdb"])
def test_every_engine_gives_the_same_matrix(engine: str) -> None:
    fitted = PLAN.fit(as_engine(engine, RAW))
    assert fitted == PLAN.fit(RAW)
    assert np.array_equal(fitted.transform(as_engine(engine, RAW)), PLAN.fit(RAW).transform(RAW))


def test_lazy_and_categorical_frames() -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    expected = PLAN.fit(RAW).transform(RAW)
    lazy = polars.LazyFrame(RAW, schema_overrides={"job": polars.Categorical})
    assert np.array_equal(PLAN.fit(lazy).transform(lazy), expected)
    frame = pandas.DataFrame(RAW).astype({"job": "category", "age": "Int64", "hours": "Float32"})
    assert np.array_equal(PLAN.fit(frame).transform(frame), expected)


def test_the_matrix_by_hand() -> None:
    fitted = PLAN.fit(RAW)
    assert fitted.names == (
        *("age", "age=(missing)", "job=cook", "job=nurse", "job=(other)", "job=(missing)"),
        *("hours=short", "hours=middle", "hours=long", "hours=(missing)"),
        *("member=false", "member=true", "member=(missing)"),
    )
    spread = np.sqrt(800 / 3)
    expected = [
        [-20 / spread, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0],
        [0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0],
        [20 / spread, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1],
    ]
    assert np.allclose(fitted.transform(RAW), expected, atol=1e-6)


def test_columns_are_found_by_name_and_others_ignored() -> None:
    fitted = PLAN.fit(RAW)
    shuffled = {name: RAW[name] for name in ("member", "hours", "job", "age")} | {"salary": [1, 2, 3, 4]}
    assert np.array_equal(fitted.transform(shuffled), fitted.transform(RAW))
    with pytest.raises(InputError, match=r"X has no column 'hours'. There are 'age', 'job'"):
        fitted.transform({"age": [1], "job": ["cook"]})
    with pytest.raises(InputError, match="found by name, so an array will not do"):
        fitted.transform(np.zeros((3, 4)))


def test_the_input_is_untouched() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(RAW)
    before = frame.copy(deep=True)
    PLAN.fit(frame).transform(frame)
    pandas.testing.assert_frame_equal(frame, before)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 6))
def test_it_survives_json(seed: int, n: int, cap: int) -> None:
    rng = np.random.default_rng(seed)
    raw = {
        "x": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n) * 10.0 ** rng.integers(-8, 9)),
        "c": rng.integers(0, 9, n),
    }
    fitted = Preprocessing((Number("x"), Category("c", cap=cap))).fit(raw)
    again = Preprocessing.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert again == fitted
    assert np.array_equal(again.transform(raw), fitted.transform(raw))
    assert np.isfinite(fitted.transform(raw)).all()


def test_json_of_another_version_or_kind_is_refused() -> None:
    with pytest.raises(InputError, match="has version 2"):
        Preprocessing.from_dict({"version": 2, "features": []})
    with pytest.raises(InputError, match="Unknown kind of feature 'spline'"):
        Preprocessing.from_dict({"version": 1, "features": [{"kind": "spline", "column": "x"}]})


@given(st.integers(0, 10**6))
def test_refitting_sees_the_training_rows_only_and_keeps_the_layout(seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw = {
        "x": rng.normal(size=30),
        "c": np.array([*"abcdefgh", None])[rng.integers(9, size=30)],
        "m": np.where(rng.random(30) < 0.1, np.nan, rng.normal(size=30)),
    }
    bands = Band("m", ("a", "b", "c", "d"), edges=(-2, 0, 2))
    fitted = Preprocessing((Number("x"), Category("c", cap=5), Number("m"), bands)).fit(raw)
    train = rng.permutation(30)[:12]
    refitted = fitted.refit(raw, train)
    other = {name: column.copy() for name, column in raw.items()}
    test = np.setdiff1d(np.arange(30), train)
    other["x"][test], other["c"][test], other["m"][test] = 1e6, "z", np.nan
    assert fitted.refit(other, train) == refitted
    assert refitted.names == fitted.names
    X = refitted.transform(raw)
    assert np.allclose(X[train, 0].mean(dtype=np.float64), 0, atol=1e-6)
    dead = [i for i, name in enumerate(fitted.names) if "=" in name and not X[train, i].any()]
    assert not X[:, dead].any()  # no test row uses a column that no training row used: its weights are untrained


def test_a_level_absent_from_training_is_other_where_there_is_one() -> None:
    raw = {"c": ["a", "a", "b", "b", "c", "d"]}
    fitted = Preprocessing((Category("c", cap=2),)).fit(raw).refit(raw, np.array([0, 4]))
    assert fitted.names == ("c=a", "c=b", "c=(other)")
    assert fitted.transform({"c": ["a", "b", "z"]}).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1]]


def test_an_unseen_level_or_missing_value_without_a_column_is_zero() -> None:
    fitted = Preprocessing((Category("c"), Number("x"), Band("b", ("low", "high"), edges=(1,)))).fit(
        {"c": ["a", "b"], "x": [1.0, 3.0], "b": [0, 1]}
    )
    assert fitted.transform({"c": ["z", None], "x": [None, 2.0], "b": [None, 2]}).tolist() == [
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1],
    ]


@pytest.mark.parametrize("codes", [[1, 2, 2], [1.0, 2.0, 2.0], ["1", "2", "2"]])
def test_a_code_is_the_same_level_as_integer_float_or_text(codes: list[Any]) -> None:
    fitted = Preprocessing((Category("c"),)).fit({"c": [1, 2]})
    assert fitted.transform({"c": codes}).tolist() == [[1, 0], [0, 1], [0, 1]]


@pytest.mark.parametrize("value", [0.1, 1e12, -3.7e-9])
def test_a_constant_column_stays_tame(value: float) -> None:
    fitted = Preprocessing((Number("x"),)).fit({"x": [value] * 10})
    assert np.abs(fitted.transform({"x": [value, value + 1]})).max() <= 1.001


def test_bad_values_are_named() -> None:
    with pytest.raises(InputError, match="`x` holds an infinite value in row 1"):
        Preprocessing((Number("x"),)).fit({"x": [1.0, np.inf]})
    with pytest.raises(InputError, match="`x` must hold numbers, got 'many'"):
        Preprocessing((Number("x"),)).fit({"x": [1.0, 2.0]}).transform({"x": ["1", "many"]})
    with pytest.raises(InputError, match="`levels` of `x` must be 3"):
        Preprocessing((Band("x", ("a", "b"), edges=(1, 2)),)).fit({"x": [1]})
    with pytest.raises(InputError, match="same number of rows, got `x` 2, `c` 1"):
        Preprocessing((Number("x"), Category("c"))).fit({"x": [1, 2], "c": ["a", "b"]}).transform(
            {"x": [1, 2], "c": ["a"]}
        )
