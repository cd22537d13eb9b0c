"""Audits of frames of every engine: the same audit as of the arrays, and clear refusals."""

from __future__ import annotations

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from distributed import Client, LocalCluster

import separatrix as sx
from separatrix.errors import InputError


def make_frame(n: int = 2_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    y = rng.choice(["no", "yes"], n, p=[0.7, 0.3])
    sex, race = rng.choice(["f", "m"], n), rng.choice(["p", "q", "r"], n, p=[0.6, 0.3, 0.1])
    p = np.clip(0.5 * rng.beta(2, 2, n) + 0.3 * (y == "yes") + 0.1 * (sex == "m"), 0, 1)
    decision = np.where(p > 0.5, "yes", "no")
    return pd.DataFrame(
        {"y": y, "sex": sex, "race": race, "p": p, "p0": 1 - p, "p1": p, "u": decision, "w": rng.random(n)}
    )


FRAME = make_frame()
ENGINES = {
    "pandas": lambda f: f,
    "pandas, pyarrow types": lambda f: f.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "pyarrow": pa.table,
    "duckdb": duckdb.from_df,
    "dask": lambda f: dd.from_pandas(f, npartitions=3),
}


@pytest.mark.slow
def test_groups_carry_the_name_of_their_column():
    by_name = sx.audit(FRAME, target="y", prediction="u", sensitive_features=["sex"])
    by_series = sx.audit(FRAME["y"], FRAME["u"], sensitive_features=FRAME["sex"])
    nameless = sx.audit(FRAME["y"], FRAME["u"], sensitive_features=FRAME["sex"].to_numpy())
    assert "Y = yes, sex=f" in str(by_name)
    assert str(by_name) == str(by_series)
    assert "Y = yes, f" in str(nameless)
    assert by_name.to_dict()["sensitive_columns"] == ["sex"]
    both = sx.audit_score(FRAME, target="y", prediction="p", sensitive_features=["sex", "race"])
    assert "sex=f & race=p" in str(both)


def test_a_cell_without_rows_is_said_before_the_gap():
    gone = (FRAME["y"] == "yes") & (FRAME["sex"] == "m")
    a = sx.audit(FRAME[~gone], target="y", prediction="u", sensitive_features="sex")
    assert str(a).startswith("No rows show (label, group) (yes, sex=m): that part of the gap is not known.")
    whole = sx.audit(FRAME, target="y", prediction="u", sensitive_features="sex")
    assert str(whole).startswith("Given the same outcome, groups differ by")


def facts(a: sx.Audit, close=lambda value, **_: value) -> dict:
    """What audits of the same rows have in common, cell by cell, so that a failure names the
    cells.
    """
    counts, moments = np.ndenumerate(a.table.counts), np.ndenumerate(a.table.second_moments)
    return {
        "levels": (a.table.labels, a.table.groups),
        "rows": a.table.rows,
        **{f"counts{list(cell)}": close(n, rel=1e-12, abs=1e-9) for cell, n in counts},
        **{f"second_moments{list(cell)}": close(s, rel=1e-9, abs=1e-9) for cell, s in moments},
        "violation": close(a.violation, abs=1e-12),
        "violation_upper": close(a.violation_upper, abs=1e-9),
    }


def about(a: sx.Audit) -> dict:
    """The facts to rounding: engines sum in other orders."""
    return facts(a, close=pytest.approx)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("pred", ["u", ["p0", "p1"]])
def test_every_engine_gives_the_audit_of_the_arrays(engine, pred, weight):
    u = FRAME["u"] if pred == "u" else FRAME[["p0", "p1"]].to_numpy()
    weights = None if weight is None else FRAME["w"]
    expected = sx.audit(FRAME["y"], u, sensitive_features=FRAME["sex"], sample_weight=weights)
    a = sx.audit(ENGINES[engine](FRAME), target="y", sensitive_features="sex", prediction=pred, sample_weight=weight)
    assert facts(a) == about(expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_several_sensitive_columns_make_an_intersection(engine):
    expected = sx.audit(FRAME["y"], FRAME["u"], sensitive_features=FRAME[["sex", "race"]])
    a = sx.audit(ENGINES[engine](FRAME), target="y", sensitive_features=["sex", "race"], prediction="u")
    assert facts(a) == about(expected)


@pytest.mark.slow
def test_a_real_dask_cluster_of_two_workers():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        big = dd.concat([dd.from_pandas(FRAME, npartitions=2)] * 3)
        a = sx.audit(big, target="y", sensitive_features="sex", prediction="u")
    rows = pd.concat([FRAME] * 3)
    assert facts(a) == about(sx.audit(rows["y"], rows["u"], sensitive_features=rows["sex"]))


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")  # those of the JVM bridge, not ours
def test_pyspark():
    from pyspark.sql import SparkSession

    quiet = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    spark = SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
    try:
        frame = spark.createDataFrame(FRAME.to_dict("records")).repartition(4)
        for pred in ("u", ["p0", "p1"]):
            u = FRAME["u"] if pred == "u" else FRAME[pred]
            expected = sx.audit(FRAME["y"], u, sensitive_features=FRAME[["sex", "race"]])
            a = sx.audit(frame, target="y", sensitive_features=["sex", "race"], prediction=pred)
            assert facts(a) == about(expected)
    finally:
        spark.stop()


def test_lists_and_order_of_labels():
    a = sx.audit(FRAME, target="y", sensitive_features="sex", prediction=["p1", "p0"], labels=["yes", "no"])
    b = sx.audit(FRAME, target="y", sensitive_features="sex", prediction=["p0", "p1"])
    assert a.table.labels == ("yes", "no")
    assert a.violation == pytest.approx(b.violation, abs=1e-12)


def with_value(column, row, value):
    frame = FRAME.copy()
    frame[column] = frame[column].astype(object) if isinstance(value, str) or value is None else frame[column]
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize("engine", ["pandas", "polars", "duckdb"])
@pytest.mark.parametrize(
    ("frame", "arguments", "message"),
    [
        (FRAME, {"target": "label"}, "no column 'label'. There are 'y'"),
        (FRAME, {"sensitive_features": "sx"}, "Did you mean 'sex'"),
        (FRAME, {"prediction": "y"}, "two things at once"),
        (FRAME, {"prediction": []}, "at least one column"),
        (FRAME, {"prediction": ["p0", "p"], "target": "race"}, "probabilities of 2 labels, but"),
        (FRAME, {"prediction": "p"}, "`p` holds .*`audit_score`"),
        (FRAME.assign(p=0.5), {"prediction": "p"}, "`p` holds 0.5.*`audit_score`"),
        (with_value("sex", 3, None), {}, "'sex' has 1 missing value"),
        (with_value("p1", 3, np.nan), {"prediction": ["p0", "p1"]}, "missing prediction|between 0 and 1, got nan"),
        (with_value("p1", 3, 1.5), {"prediction": ["p0", "p1"]}, "between 0 and 1, got 1.5"),
        (with_value("p1", 3, 0.999), {"prediction": ["p0", "p1"]}, "sum to one"),
        (with_value("w", 3, -1.0), {"sample_weight": "w"}, "-1.0"),
        (FRAME.iloc[:0], {}, "no rows"),
        (FRAME.assign(sex="f"), {}, "only one group"),
        (FRAME.assign(sex=np.arange(len(FRAME))), {}, "2,000 distinct values"),
        (FRAME.assign(u="other"), {}, "No value of `u`"),
        (FRAME, {"prediction": ["p0", "p1"], "labels": ["maybe", "yes"]}, "not in `labels`"),
    ],
)
def test_bad_frames_get_one_clear_sentence(engine, frame, arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        sx.audit(ENGINES[engine](frame), **{"target": "y", "sensitive_features": "sex", "prediction": "u", **arguments})
    assert "\n" not in str(caught.value)


ARRAYS = (FRAME["y"], FRAME["u"])
NAMED = {"target": "y", "prediction": "u"}


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        (([1, 2],), NAMED, "got list"),
        (("rows.csv", FRAME["u"]), {}, "'rows.csv' is a file: name its columns"),
        (ARRAYS, NAMED, "`y_pred` belongs to arrays"),
        ((FRAME,), {}, "`target` is missing"),
        ((FRAME,), {"target": "y"}, "`prediction` is missing"),
        ((FRAME["y"].to_numpy(),), {}, "`y_pred` is missing"),
        ((FRAME,), NAMED | {"sample_weight": np.ones(3)}, "`sample_weight` must name one column"),
        ((FRAME,), NAMED | {"target": ["y", "u"]}, "`target` must name one column"),
    ],
)
def test_mixed_forms_are_refused(data, more, message):
    with pytest.raises(InputError, match=message):
        sx.audit(*data, sensitive_features="sex", **more)


@pytest.mark.parametrize("door", [sx.audit, sx.audit_score])
def test_arrays_a_frame_a_mapping_and_a_file_have_one_audit(door, tmp_path):
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    column = "u" if door is sx.audit else "p"
    whole = door(FRAME["y"], FRAME[column], sensitive_features=FRAME["sex"])
    names = {"target": "y", "prediction": column, "sensitive_features": "sex"}
    mapping = {name: FRAME[name].tolist() for name in FRAME}
    for data in (FRAME, mapping, tmp_path / "rows.csv", str(tmp_path / "*.csv")):
        a = door(data, **names)
        assert type(a) is type(whole)
        assert a.violation == pytest.approx(whole.violation, abs=1e-12)
