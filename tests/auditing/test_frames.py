"""audit_frame on every engine: the same audit as of the arrays, and clear refusals."""

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


def make_frame(n: int = 2_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    y = rng.choice(["no", "yes"], n, p=[0.7, 0.3])
    sex, race = rng.choice(["f", "m"], n), rng.choice(["p", "q", "r"], n, p=[0.6, 0.3, 0.1])
    p = np.clip(0.5 * rng.beta(2, 2, n) + 0.3 * (y == "yes") + 0.1 * (sex == "m"), 0, 1)
    decision = np.where(p > 0.5, "yes", "no")
    return pd.DataFrame(
        {
            "y": y,
            "sex": sex,
            "race": race,
            "p": p,
            "p0": 1 - p,
            "p1": p,
            "u": decision,
            "w": rng.random(n),
        }
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


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("pred", ["u", ["p0", "p1"]])
def test_every_engine_gives_the_audit_of_the_arrays(engine, pred, weight):
    u = FRAME["u"] if pred == "u" else FRAME[["p0", "p1"]].to_numpy()
    weights = None if weight is None else FRAME["w"]
    expected = sx.audit(FRAME["y"], u, sensitive_features=FRAME["sex"], sample_weight=weights)
    a = sx.audit_frame(ENGINES[engine](FRAME), y="y", z="sex", pred=pred, weight=weight)
    assert facts(a) == about(expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_several_sensitive_columns_make_an_intersection(engine):
    expected = sx.audit(FRAME["y"], FRAME["u"], sensitive_features=FRAME[["sex", "race"]])
    a = sx.audit_frame(ENGINES[engine](FRAME), y="y", z=["sex", "race"], pred="u")
    assert facts(a) == about(expected)


@pytest.mark.slow
def test_a_real_dask_cluster_of_two_workers():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        big = dd.concat([dd.from_pandas(FRAME, npartitions=2)] * 3)
        a = sx.audit_frame(big, y="y", z="sex", pred="u")
    rows = pd.concat([FRAME] * 3)
    assert facts(a) == about(sx.audit(rows["y"], rows["u"], sensitive_features=rows["sex"]))


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")  # those of the JVM bridge, not ours
def test_pyspark():
    from pyspark.sql import SparkSession

    quiet = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    spark = SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
    try:
        frame = spark.createDataFrame(FRAME.to_dict("records")).repartition(4)
        for pred in ("u", ["p0", "p1"]):
            u = FRAME["u"] if pred == "u" else FRAME[pred]
            expected = sx.audit(FRAME["y"], u, sensitive_features=FRAME[["sex", "race"]])
            a = sx.audit_frame(frame, y="y", z=["sex", "race"], pred=pred)
            assert facts(a) == about(expected)
    finally:
        spark.stop()


def test_lists_and_order_of_labels():
    a = sx.audit_frame(FRAME, y="y", z="sex", pred=["p1", "p0"], labels=["yes", "no"])
    b = sx.audit_frame(FRAME, y="y", z="sex", pred=["p0", "p1"])
    assert a.table.labels == ("yes", "no")
    assert a.violation == pytest.approx(b.violation, abs=1e-12)


def with_value(column, row, value):
    frame = FRAME.copy()
    frame[column] = (
        frame[column].astype(object) if isinstance(value, str) or value is None else frame[column]
    )
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize("engine", ["pandas", "polars", "duckdb"])
@pytest.mark.parametrize(
    ("frame", "arguments", "message"),
    [
        (FRAME, {"y": "label"}, "no column 'label'. There are 'y'"),
        (FRAME, {"z": "sx"}, "Did you mean 'sex'"),
        (FRAME, {"pred": "y"}, "two things at once"),
        (FRAME, {"pred": []}, "at least one column"),
        (FRAME, {"pred": ["p0", "p"], "y": "race"}, "probabilities of 2 labels, but"),
        (FRAME, {"pred": "p"}, "`p` holds .*`audit_score`"),
        (FRAME.assign(p=0.5), {"pred": "p"}, "`p` holds 0.5.*`audit_score`"),
        (with_value("sex", 3, None), {}, "'sex' has 1 missing value"),
        (
            with_value("p1", 3, np.nan),
            {"pred": ["p0", "p1"]},
            "missing prediction|between 0 and 1, got nan",
        ),
        (with_value("p1", 3, 1.5), {"pred": ["p0", "p1"]}, "between 0 and 1, got 1.5"),
        (with_value("p1", 3, 0.999), {"pred": ["p0", "p1"]}, "sum to one"),
        (with_value("w", 3, -1.0), {"weight": "w"}, "-1.0"),
        (FRAME.iloc[:0], {}, "no rows"),
        (FRAME.assign(sex="f"), {}, "only one group"),
        (FRAME.assign(sex=np.arange(len(FRAME))), {}, "2,000 distinct values"),
        (FRAME.assign(u="other"), {}, "No value of `u`"),
        (FRAME, {"pred": ["p0", "p1"], "labels": ["maybe", "yes"]}, "not in `labels`"),
    ],
)
def test_bad_frames_get_one_clear_sentence(engine, frame, arguments, message):
    with pytest.raises(sx.InputError, match=message) as caught:
        sx.audit_frame(ENGINES[engine](frame), **{"y": "y", "z": "sex", "pred": "u", **arguments})
    assert "\n" not in str(caught.value)


def test_what_is_not_a_frame_is_refused():
    with pytest.raises(sx.InputError, match="got list"):
        sx.audit_frame([1, 2], y="y", z="z", pred="u")
