"""Score histograms: every engine counts what a plain loop counts, and parts add up."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from separatrix.columns.counting import score_histogram
from separatrix.columns.readers import scan
from separatrix.errors import InputError


def rows(n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "y": rng.integers(0, 2, n),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
            "age": rng.integers(0, 3, n),
            "s": np.r_[0.0, 1.0, rng.random(n - 2)],
            "w": rng.random(n),
        }
    )


ENGINES = {
    "pandas": lambda t: t,
    "polars": pl.from_pandas,
    "polars lazy": lambda t: pl.from_pandas(t).lazy(),
    "arrow": pa.Table.from_pandas,
    "duckdb": lambda t: duckdb.connect().from_df(t),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight", [None, "w"])
def test_every_engine_counts_what_a_plain_loop_counts(engine: str, weight: str | None) -> None:
    t = rows()
    found = score_histogram(ENGINES[engine](t), y="y", z=["sex", "age"], score="s", bins=64, weight=weight)
    expected = np.zeros((2, 6, 64))
    for row in t.itertuples():
        group = found.groups.index((row.sex, row.age))
        expected[row.y, group, min(int(row.s * 64), 63)] += 1.0 if weight is None else row.w
    np.testing.assert_allclose(found.counts, expected, rtol=1e-12)
    assert found.labels == (0, 1)
    assert list(found.groups) == sorted(found.groups)
    np.testing.assert_array_equal(found.edges, np.arange(65) / 64)


def test_the_histograms_of_parts_add_up() -> None:
    t = rows()
    parts = [score_histogram(p, y="y", z="sex", score="s").counts for p in (t[:200], t[200:])]
    whole = score_histogram(t, y="y", z="sex", score="s").counts
    np.testing.assert_array_equal(sum(parts), whole)


def test_a_bin_holds_the_scores_between_its_edges() -> None:
    """The rule score ≥ edges[b] decides the rows of the bins from b on, to the last float."""
    t = pd.DataFrame({"y": 0, "z": 0, "s": np.nextafter(np.arange(1, 4096) / 4096, 0.0)})
    counts = score_histogram(t, y="y", z="z", score="s").counts[0, 0]
    np.testing.assert_array_equal(counts, np.r_[np.ones(4095), 0.0])


def test_scores_that_are_no_probabilities_find_their_span() -> None:
    t = rows().assign(s=lambda f: 10 * f.s - 3)
    with pytest.raises(InputError, match="outside 0 to 1"):
        score_histogram(t, y="y", z="sex", score="s")
    found = score_histogram(t, y="y", z="sex", score="s", span=None, bins=8)
    assert found.edges[[0, -1]].tolist() == [-3.0, 7.0]
    assert found.counts.sum() == len(t)


@pytest.mark.parametrize("column", ["y", "sex", "s", "w"])
@pytest.mark.parametrize("engine", ["pandas", "polars", "duckdb"])
def test_missing_values_are_refused(engine: str, column: str) -> None:
    t = rows(20).astype({"y": object, "sex": object})
    t.loc[3, column] = None
    t["y"] = t["y"].astype("Int64")
    with pytest.raises(InputError, match=f"{column!r} has 1 missing"):
        score_histogram(ENGINES[engine](t), y="y", z="sex", score="s", weight="w")


def test_columns_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(InputError, match="must hold numbers"):
        score_histogram(rows(), y="y", z="age", score="sex")
    with pytest.raises(InputError, match="Did you mean 'sex'"):
        score_histogram(rows(), y="y", z="age", score="sx")
    with pytest.raises(InputError, match="two things at once"):
        score_histogram(rows(), y="y", z="sex", score="y")
    with pytest.raises(InputError, match="not negative"):
        score_histogram(rows().assign(w=-1.0), y="y", z="sex", score="s", weight="w")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_are_counted_like_frames(tmp_path, kind: str) -> None:
    """A CSV file opens as text: labels and groups get their types, the score its numbers."""
    t = rows()
    getattr(pl.from_pandas(t), f"write_{kind}")(tmp_path / f"rows.{kind}")
    found = score_histogram(scan([tmp_path / f"rows.{kind}"]), y="y", z="sex", score="s", weight="w")
    expected = score_histogram(t, y="y", z="sex", score="s", weight="w")
    np.testing.assert_allclose(found.counts, expected.counts, rtol=1e-12)
    assert (found.labels, found.groups) == (expected.labels, expected.groups)
