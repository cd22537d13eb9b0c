"""Columns, tables and files as nobody should pass them, from a random generator."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

LONG = "x" * 40_000
TEXTS = (
    "a",
    "b",
    "",
    " ",
    "1",
    "1.0",
    "01",
    "-1",
    "nan",
    "NA",
    "None",
    "é",
    "e\u0301",
    "\u202e",
    "\0",
    "a,b",
    'quo"te',
    "two\nlines",
    "<b>",
    "=1+1",
    "true",
    "1e400",
    "1,5",
    "🙂",
    "\ud800",
    LONG,
)
VALUES = (None, float("nan"), pd.NA, pd.NaT, float("inf"), -float("inf"), 1j, complex("nan"), 2**70,
          -(2**63), 1e308, 5e-324, -0.0, True, False, 0, 1, 1.0, 0.5, b"a", b"\xff", Decimal("1"),
          Fraction(1, 3), date(2020, 1, 1), datetime(2020, 1, 1), np.datetime64("NaT"), (), (1, 2),
          [1], {"a": 1}, {1}, object(), np.int8(1), np.float16(2), np.str_("a"),
          *TEXTS)  # fmt: skip


def pick(rng, options):
    """One of them."""
    return options[int(rng.integers(len(options)))]


def labels(rng, n, k=2):
    """A column that is right."""
    codes = rng.integers(0, k, n)
    kind = int(rng.integers(6))
    if kind == 0:
        return codes
    if kind == 1:
        return np.array([f"level {c}" for c in codes])
    if kind == 2:
        return [f"l{c}" for c in codes]
    if kind == 3:
        return pd.Series(codes).astype("category")
    if kind == 4:
        return pl.Series("s", [f"p{c}" for c in codes])
    return codes.astype(bool) if k == 2 else codes.astype(np.float64)


def scores(rng, n):
    """Probabilities that are right."""
    return np.round(rng.random(n), int(rng.integers(1, 8)))


def posteriors(rng, n, k=2):
    """A matrix of probabilities that is right."""
    return rng.dirichlet(np.ones(k), n)


def column(rng, n):
    """A column that is most often wrong."""
    kind = int(rng.integers(20))
    base = rng.integers(0, 3, n)
    if kind == 0:  # anything
        return [pick(rng, VALUES) for _ in range(n)]
    if kind == 1:  # right but for one value
        out = base.tolist()
        out[int(rng.integers(n))] = pick(rng, VALUES)
        return out
    if kind == 2:
        values = np.empty(n, dtype=object)
        values[:] = [pick(rng, VALUES) for _ in range(n)]
        return values
    if kind == 3:
        x = rng.normal(size=n)
        x[int(rng.integers(n))] = pick(rng, (np.nan, np.inf, -np.inf, 1e308, 0.0))
        return x
    if kind == 4:
        return pick(
            rng,
            (
                None,
                3,
                "abc",
                b"abc",
                object(),
                [],
                (),
                {},
                set(),
                np.array(1.0),
                1j,
                np.zeros((0, 2)),
                np.zeros((2, 0)),
                range(n),
                (i for i in range(n)),
                {"a": base},
                {0: base, "0": base},
                np.zeros((n, 2, 2)),
                [[]],
                [[1], [1, 2]],
            ),
        )
    if kind == 5:
        return labels(rng, max(1, n + int(rng.integers(-2, 3))))
    if kind == 6:
        return pd.array([pick(rng, (0, 1, pd.NA)) for _ in range(n)], dtype="Int64")
    if kind == 7:
        return pd.Series([pick(rng, (True, False, pd.NA)) for _ in range(n)], dtype="boolean")
    if kind == 8:
        return base + 1j * rng.integers(0, 2, n)
    if kind == 9:
        return np.ma.masked_array(base, rng.random(n) < 0.2)
    if kind == 10:
        return pd.Categorical([pick(rng, ("a", "b", None)) for _ in range(n)], categories=["b", "a", "c"])
    if kind == 11:
        return rng.integers(0, 2**62, n) + pick(rng, (0, 2**62, -(2**62)))
    if kind == 12:
        return np.array(["2020-01-01", "NaT"], dtype="datetime64[D]")[rng.integers(0, 2, n)]
    if kind == 13:
        return pl.Series([pick(rng, ([1], [2, 3], None)) for _ in range(n)])
    if kind == 14:
        return pa.array([pick(rng, ({"a": 1}, {"a": 2})) for _ in range(n)])
    if kind == 15:
        return [pick(rng, TEXTS) for _ in range(n)]
    if kind == 16:
        names = pick(rng, ([0, 1], ["a", "a"], [None, 1]))
        return pd.DataFrame(rng.integers(0, 2, (n, 2)), columns=names)
    if kind == 17:
        return base.astype(pick(rng, ("float16", "uint64", "S3", "U9", "object", "longdouble", "m8[s]")))
    if kind == 18:
        x = np.column_stack([rng.random(n), rng.random(n)])
        x[int(rng.integers(n)), 0] = pick(rng, (np.nan, -0.1, 2.0, np.inf, 0.5))
        return x
    return pd.Series(base, index=rng.permutation(n)).to_frame("z")


def weights(rng, n):
    """Row weights, often wrong."""
    kind = int(rng.integers(6))
    if kind == 0:
        return None
    if kind == 1:
        return rng.random(n) * pick(rng, (1.0, 1e-300, 1e300, 1e-12, 1e12))
    if kind == 2:
        return np.zeros(n)
    if kind == 3:
        return -rng.random(n)
    if kind == 4:
        return rng.integers(0, 3, n)
    return column(rng, n)


def cell(rng):
    """A field of a CSV file, as text."""
    if rng.random() < 0.7:
        return pick(rng, ("0", "1", "0.5", "a"))
    text = pick(rng, (*TEXTS[:-2], "1_000", "0x1", "inf", "NaN", "1;2", "1.5.2", "\t"))
    return text.replace("\ud800", "")


def csv_bytes(rng, columns, n):
    """A CSV file that may be damaged."""
    good = rng.random() < 0.4
    rows = []
    for _ in range(n):
        if good:
            rows.append([str(int(rng.integers(2))) for _ in columns])
        else:
            rows.append([cell(rng) for _ in columns])
    delimiter = pick(rng, (",", ",", ";", "\t", "|", " "))
    names = list(columns)
    odd = int(rng.integers(12))
    if odd == 0:
        names[-1] = names[0]
    if odd == 1:
        rows = []
    if odd == 2:
        rows = [[*row, *[""] * int(rng.integers(3))] for row in rows]
    if odd == 3:
        rows = [row[: int(rng.integers(len(row) + 1))] for row in rows]
    if odd == 4:
        names = [*names, ""]
    if odd == 5:
        rows = [[one.replace(".", ",") for one in row] for row in rows]

    def quoted(one):
        special = any(mark in one for mark in (delimiter, '"', "\n", "\r"))
        return '"' + one.replace('"', '""') + '"' if special and rng.random() < 0.9 else one

    lines = [delimiter.join(map(quoted, row)) for row in [names, *rows]]
    text = pick(rng, ("\n", "\r\n", "\n")).join(lines)
    data = text.encode(pick(rng, ("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")), "replace")
    if odd == 6:
        data = data[: int(rng.integers(len(data) + 1))]
    if odd == 7:
        data = bytes(rng.integers(0, 256, 200, dtype=np.uint8))
    return data


def arrow_table(rng, columns, n):
    """A table for Parquet whose columns may be nested or missing values."""
    made = {}
    for name in columns:
        kind = int(rng.integers(8))
        codes = rng.integers(0, 2, n).tolist()
        if kind == 0:
            made[name] = pa.array([[c] for c in codes])
        elif kind == 1:
            made[name] = pa.array([{"a": c} for c in codes])
        elif kind == 2:
            made[name] = pa.array([c if rng.random() < 0.8 else None for c in codes])
        elif kind == 3:
            made[name] = pa.array(rng.random(n))
        elif kind == 4:
            made[name] = pa.array([pick(rng, (0.0, 1.0, np.nan, np.inf)) for _ in codes])
        else:
            made[name] = pa.array(list(map(str, codes)))
    return pa.table(made)
