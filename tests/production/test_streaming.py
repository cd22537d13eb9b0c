"""Files of any size: the same decisions as in memory, block by block, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import separatrix as sx
from people import people
from separatrix.cli import app, main
from separatrix.errors import DataError, InputError
from separatrix.production.streaming import predict_file

SALT = "kept by the operator, not in the model"


@pytest.fixture
def rows():
    return people(1_000, seed=40) | {"id": np.arange(1_000), "note": np.repeat('two\nlines, "quoted"', 1_000)}


@pytest.fixture
def files(rows, tmp_path):
    frame = pl.DataFrame(rows)
    frame.write_csv(tmp_path / "rows.csv")
    frame.write_csv(tmp_path / "semicolon.csv", separator=";")
    frame.write_parquet(tmp_path / "rows.parquet")
    with gzip.open(tmp_path / "rows.csv.gz", "wb") as file:
        file.write((tmp_path / "rows.csv").read_bytes())
    return tmp_path


@pytest.mark.parametrize("source", ["rows.csv", "semicolon.csv", "rows.csv.gz", "rows.parquet"])
@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_a_file_is_predicted_like_the_rows_in_memory(mixture, rows, files, source, out):
    done = predict_file(mixture, files / source, files / out, id_column="id", salt=SALT, rows=137)
    read = pl.read_csv(files / out) if out.endswith("csv") else pl.read_parquet(files / out)
    labels, branch = mixture.predict(rows, ids=rows["id"], salt=SALT, return_branch=True)
    assert done == 1_000
    assert read.columns == ["id", "decision", "decided_by_coin", "branch"]
    assert list(map(str, read["id"].to_list())) == list(map(str, range(1_000)))
    assert read["decision"].to_list() == labels.tolist()
    assert read["branch"].to_list() == branch.tolist()
    unsure = mixture.predict_proba(rows).max(1) < 1.0
    assert [str(one).lower() == "true" for one in read["decided_by_coin"]] == unsure.tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_predict_and_audit_are_two_commands(single, rows, files, kind):
    single.save(files / "model")
    model, source, out = (str(files / x) for x in ("model", f"rows.{kind}", f"out.{kind}"))
    kept = ["--id", "id", "--keep", "pay", "--keep", "sex", "--keep", "note"]
    run = CliRunner().invoke
    done = run(app, ["predict", model, source, *kept, "--seed", "7", "--out", out])
    assert done.exit_code == 0, done.output
    audited = run(app, ["audit", out, "--target", "pay", "--sensitive", "sex", "--prediction", "decision", "--json"])
    decided = single.predict(rows, random_state=7)
    expected = sx.audit(rows["pay"], decided, sensitive_features=rows["sex"])
    assert json.loads(audited.stdout)["eo_gap"] == pytest.approx(expected.eo_gap)
    read = pl.read_csv(out) if kind == "csv" else pl.read_parquet(out)
    assert read.columns == ["id", "pay", "sex", "note", "decision", "decided_by_coin", "score"]
    assert read["note"].to_list() == rows["note"].tolist()
    np.testing.assert_allclose(read["score"], single.predict_proba(rows)[:, 1], atol=1e-7)
    with pytest.raises(InputError, match="column 'decision' has the name of an output"):
        predict_file(single, source, files / "o.csv", keep=["decision"], random_state=0)


def test_a_short_secret_is_told_by_the_option_of_the_command(single, files, monkeypatch, capsys):
    single.save(files / "model")
    (files / "short.txt").write_text("short")
    monkeypatch.chdir(files)
    given = "predict model rows.csv --id id --salt-file short.txt --out out.csv"
    monkeypatch.setattr(sys, "argv", ["separatrix", *given.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--salt-file must have at least 16 bytes, got 5." in capsys.readouterr().err


def test_a_seed_repeats_and_blocks_have_their_own_coins(single, files):
    for out in ("a.csv", "b.csv"):
        predict_file(single, files / "rows.csv", files / out, random_state=7, rows=100)
    assert (files / "a.csv").read_text() == (files / "b.csv").read_text()
    assert "branch" not in (files / "a.csv").read_text().splitlines()[0]
    drawn = single.predict(pl.read_csv(files / "rows.csv"), random_state=7)
    assert pl.read_csv(files / "a.csv")["decision"].to_list() == drawn.tolist()


def test_long_ids_stay_text_and_draw_the_same_everywhere(mixture, files):
    """Seventeen digits, in CSV and Parquet, whole and in pieces: one person, one draw."""
    n, ids = 300, [10**16 + i for i in range(300)]
    rows = {name: values[:n] for name, values in people(n, seed=43).items()} | {"id": ids}
    frame = pl.DataFrame(rows)
    frame.write_csv(files / "long.csv")
    frame.write_parquet(files / "long.parquet")
    frame.with_columns(pl.col("id").cast(str)).write_parquet(files / "text.parquet")
    frame[:1].write_csv(files / "one.csv")
    labels, branch = mixture.predict(rows, ids=ids, salt=SALT, return_branch=True)
    for source in ("long.csv", "long.parquet", "text.parquet", "one.csv"):
        for out in ("out.csv", "out.parquet"):
            predict_file(mixture, files / source, files / out, id_column="id", salt=SALT, rows=37)
            table = (
                pl.read_csv(files / out, infer_schema_length=0) if out.endswith("csv") else pl.read_parquet(files / out)
            )
            m = len(table)
            assert table["id"].to_list() == list(map(str, ids[:m]))
            assert table["decision"].to_list() == labels[:m].tolist()
            assert list(map(int, table["branch"].to_list())) == branch[:m].tolist()


def test_a_person_is_the_same_in_every_format(mixture, files):
    """Draws do not depend on the type of the column, on blanks, or on how an accent is written."""
    n = 40
    whole, words = [10**16 + 7 * i for i in range(n)], [f"Zoë-{i}" for i in range(n)]
    rows = {name: values[:n] for name, values in people(n, seed=45).items()}
    apart = [unicodedata.normalize("NFD", word) for word in words]
    numbers = [
        pl.Series(whole, dtype=pl.UInt64),
        list(map(str, whole)),
        pd.array(whole, "Int64"),
        pd.Series(whole, dtype=object),
        np.array(whole),
        [f" {one} " for one in whole],
    ]
    texts = [
        words,
        apart,
        pl.Series(words, dtype=pl.Categorical),
        np.array(apart),
        pd.Categorical(words),
        pa.array(words, pa.large_string()).dictionary_encode(),
    ]
    for ids, same in ((whole, numbers), (words, texts)):
        told = mixture.predict(rows, ids=ids, salt=SALT).tolist()
        for other in same:
            assert mixture.predict(rows, ids=other, salt=SALT).tolist() == told
            column = other if isinstance(other, pa.Array | pa.ChunkedArray) else list(other)
            table = pa.table({**rows, "id": column})
            pq.write_table(table, files / "ids.parquet")
            pl.from_arrow(table).write_csv(files / "ids.csv")
            for source in ("ids.parquet", "ids.csv"):
                out = files / "out.parquet"
                predict_file(mixture, files / source, out, id_column="id", salt=SALT, rows=13)
                assert pl.read_parquet(out)["decision"].to_list() == told


@pytest.mark.parametrize("damaged", ["1.23457E+16", "1e+16", "1.2345678901234568e+16"])
def test_ids_that_a_spreadsheet_rounded_are_refused(single, files, damaged):
    frame = pl.read_csv(files / "rows.csv").with_columns(id=pl.lit(damaged))
    frame.write_csv(files / "rounded.csv")
    with pytest.raises(InputError, match="has lost digits"):
        predict_file(single, files / "rounded.csv", files / "out.csv", id_column="id", salt=SALT)
    assert not (files / "out.csv").exists()


def test_an_id_column_may_not_be_called_like_an_output(mixture, files):
    for name in ("decision", "branch", "score"):
        frame = pl.read_csv(files / "rows.csv").rename({"id": name})
        frame.write_csv(files / "renamed.csv")
        with pytest.raises(InputError, match=f"column '{name}' has the name of an output"):
            predict_file(mixture, files / "renamed.csv", files / "out.csv", id_column=name, salt=SALT)


def test_no_cell_of_a_csv_is_a_formula(single, files):
    ids = ["=1+1", "@sum", "+49 30", "-5", "\tx", "plain", "-x", "'quoted"]
    n = len(ids)
    rows = {name: values[:n] for name, values in people(n, seed=44).items()} | {"id": ids}
    pl.DataFrame(rows).write_parquet(files / "formula.parquet")
    for out in ("out.csv", "out.parquet"):
        predict_file(single, files / "formula.parquet", files / out, id_column="id", salt=SALT)
    with open(files / "out.csv", newline="") as file:
        told = [row["id"] for row in csv.DictReader(file)]
    assert told == ["'=1+1", "'@sum", "'+49 30", "-5", "'\tx", "plain", "'-x", "'quoted"]
    assert pl.read_parquet(files / "out.parquet")["id"].to_list() == ids


def test_float_ids_are_refused(single, files):
    pl.read_csv(files / "rows.csv").with_columns(pl.col("id").cast(pl.Float64)).write_parquet(files / "float.parquet")
    with pytest.raises(InputError, match=r"must be text or whole numbers, got 0\.0 in row 0"):
        predict_file(single, files / "float.parquet", files / "out.csv", id_column="id", salt=SALT)


def test_what_fails_leaves_nothing_behind(single, files):
    text = (files / "rows.csv").read_text().replace(",f,", ",x,", 1)
    (files / "bad.csv").write_text(text)
    (files / "cut.parquet").write_bytes((files / "rows.parquet").read_bytes()[:-40])
    (files / "cut.csv.gz").write_bytes((files / "rows.csv.gz").read_bytes()[:-40])
    (files / "empty.csv").write_text("")
    (files / "header.csv").write_text("age,job,sex\n")
    before = {p.name for p in files.iterdir()}
    for source, kind, message in (
        ("bad.csv", InputError, "'x'"),
        ("cut.parquet", DataError, "not a whole Parquet"),
        ("cut.csv.gz", DataError, "cannot be read to its end"),
        ("empty.csv", DataError, "is empty"),
        ("header.csv", DataError, "has no rows"),
        ("nowhere.csv", DataError, "no file"),
    ):
        with pytest.raises(kind, match=message):
            predict_file(single, files / source, files / "out.csv", random_state=0)
    for keywords, message in (
        ({"id_column": "ID", "random_state": 0}, "no column 'ID'"),
        ({"salt": SALT}, "with `id_column` as well"),
        ({"rows": 0}, "got 0"),
        ({}, "pass `ids=` and a secret `salt=`"),
        ({"salt": SALT, "id_column": "id", "random_state": 0}, "Both `ids`"),
    ):
        with pytest.raises(InputError, match=message):
            predict_file(single, files / "rows.csv", files / "out.csv", **keywords)
    with pytest.raises(InputError, match=r"\.csv or \.parquet, got 'out.txt'"):
        predict_file(single, files / "rows.csv", files / "out.txt", random_state=0)
    assert {p.name for p in files.iterdir()} == before


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_file(single, tmp_path):
    """Ten times the rows, the same peak of memory within 20 MB: measured in processes of their
    own.
    """
    single.save(tmp_path / "model")
    peaks = []
    for n in (20_000, 200_000):
        rows = people(2_000, seed=41)
        with open(tmp_path / "rows.csv", "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(rows)
            for _ in range(n // 2_000):
                out.writerows(zip(*rows.values(), strict=True))
        code = (
            "import resource, sys, separatrix as sx;"
            "from separatrix.production.streaming import predict_file;"
            f"print(predict_file(sx.load('{tmp_path}/model'), '{tmp_path}/rows.csv', "
            f"'{tmp_path}/out.csv', random_state=0, rows=10_000));"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
        assert done.stdout.split()[0] == str(n)
        peaks.append(int(done.stdout.split()[1]) / 1024)
    assert peaks[1] < peaks[0] + 20
