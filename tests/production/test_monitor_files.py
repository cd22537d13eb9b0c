"""`separatrix monitor`: rows of files, the sentence, the status, and the page."""

from __future__ import annotations

import csv
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import separatrix as sx
from separatrix.cli import app
from separatrix.errors import InputError
from separatrix.production.monitor import Monitor
from separatrix.production.streaming import watch

NAMES = ["income", "sex", "race", "decision", "score", "other"]
COLUMNS = ["--y", "income", "--z", "sex", "--pred", "decision"]
AUDITED = ["--target", "income", "--sensitive", "sex"]


def people(path, n, copies, seed, decimals=False):
    rng = np.random.default_rng(seed)
    y, m = rng.integers(0, 2, (2, n))
    u = np.where(rng.random(n) < copies, m, y)
    u = np.where(rng.random(n) < 0.1, 1 - u, u)
    sex, race = np.where(m == 1, "m", "<b>f</b>"), rng.choice(["a", "b"], n)
    score = np.clip(0.7 * u + 0.3 * rng.random(n), 0.01, 0.99).round(3)
    truth = (y.astype(float) if decimals else y).tolist()
    rows = list(zip(truth, sex, race, u, score, (1 - score).round(3), strict=True))
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([NAMES, *rows])
    return path


@pytest.fixture
def folder(tmp_path):
    people(tmp_path / "ref.csv", 3_000, 0.02, 0)
    people(tmp_path / "quiet.csv", 3_000, 0.02, 1)
    people(tmp_path / "loud.csv", 3_000, 0.35, 2)
    audit = run("audit", tmp_path / "ref.csv", *AUDITED, "--prediction", "decision", "--json")
    (tmp_path / "reference.json").write_text(audit.stdout)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_reference_is_the_table_of_the_audit(folder):
    start = {"audit": folder / "reference.json", "budgets": {"violation": 0.005}}
    table = watch(folder / "state.json", **start).reference
    columns = {name: [] for name in NAMES}
    with (folder / "ref.csv").open() as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                columns[name].append(value)
    whole = sx.audit(
        list(map(int, columns["income"])), list(map(int, columns["decision"])), sensitive_features=columns["sex"]
    ).table
    np.testing.assert_array_equal(table.counts, whole.counts)
    assert (table.labels, table.groups) == (whole.labels, whole.groups)
    assert (table.predictions, table.rows) == (whole.predictions, 3_000)


@pytest.mark.slow
def test_quiet_then_alarm_with_status_sentence_json_and_page(folder):
    state, start = (folder / "state.json", ["--audit", folder / "reference.json", "--max-violation", 0.005])
    first = run("monitor", state, folder / "quiet.csv", *start, *COLUMNS)
    assert first.exit_code == 0
    assert first.stdout.startswith("Quiet: 3,000 rows seen, v = ")
    page = folder / "page.html"
    second = run("monitor", state, folder / "loud.csv", *start, *COLUMNS, "--html", page)
    assert second.exit_code == 3
    assert second.stdout.startswith("ALARM: 6,000 rows seen; after ")
    assert "mostly with label " in second.stdout
    third = run("monitor", state, "--json")
    assert third.exit_code == 3
    found = json.loads(third.stdout)
    assert found["rows"] == 6_000
    assert 3_000 < found["alarm"]["rows"] <= 6_000
    text = page.read_text()
    assert "<b>f</b>" not in text
    assert "&lt;b&gt;f&lt;/b&gt;" in text
    assert "ALARM" in text
    assert "<polyline" in text
    assert "http" not in text.replace("http-equiv", "")  # nothing is fetched


def test_files_are_the_same_stream_as_arrays_in_csv_and_parquet(folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    with (folder / "quiet.csv").open() as file:
        rows = list(csv.DictReader(file))
    y, u = ([int(row[name]) for row in rows] for name in ("income", "decision"))
    z = [row["sex"] for row in rows]
    parquet.write_table(pyarrow.table({"income": y, "sex": z, "decision": u}), folder / "q.parquet")
    start = {"audit": folder / "reference.json", "budgets": {"violation": 0.005}}
    arrays = watch(folder / "arrays.json", **start)
    arrays.update(y, u, sensitive_features=z)
    for name in ("quiet.csv", "q.parquet"):
        columns = {"y": "income", "z": ["sex"], "pred": ["decision"]}
        files = watch(folder / f"{name}.json", [str(folder / name)], **start, **columns)
        assert files.to_json() == arrays.to_json()


def test_numbers_are_found_again_however_they_are_written(folder):
    people(folder / "decimals.csv", 500, 0.02, 3, decimals=True)
    state, start = (folder / "state.json", ["--audit", folder / "reference.json", "--max-violation", 0.005])
    assert run("monitor", state, folder / "decimals.csv", *start, *COLUMNS).exit_code == 0


def test_posteriors_and_two_sensitive_columns(folder):
    columns = ["--y", "income", "--z", "sex", "--z", "race", "--pred", "score"]
    posteriors = ["--sensitive", "race", "--prediction", "other", "--prediction", "score"]
    audit = run("audit", folder / "ref.csv", *AUDITED, *posteriors, "--json")
    (folder / "soft.json").write_text(audit.stdout)
    start = ["--audit", folder / "soft.json", "--max-violation", 0.05]
    found = run("monitor", folder / "s.json", folder / "quiet.csv", *start, *columns, "--json")
    assert found.exit_code == 0, found.output
    monitor = Monitor.load(folder / "s.json")
    assert monitor.posteriors
    assert monitor.rows == 3_000
    assert monitor.table.counts.sum() == pytest.approx(3_000)
    assert monitor.table.groups[0] == ("<b>f</b>", "a")
    assert run("monitor", folder / "s.json", folder / "quiet.csv", *columns).exit_code == 0


def test_errors_say_what_to_pass_and_leave_the_state_as_it_was(folder):
    state, audit = folder / "state.json", folder / "reference.json"
    with pytest.raises(InputError, match="pass --model, or --audit"):
        watch(state, budgets={"violation": 0.005})
    assert run("monitor", state, folder / "quiet.csv", "--audit", audit).exception is not None
    run("monitor", state, folder / "quiet.csv", "--audit", audit, "--max-violation", 0.005, *COLUMNS)
    before = state.read_text()
    other = ["--y", "income", "--z", "race", "--pred", "decision"]
    bad = run("monitor", state, folder / "quiet.csv", folder / "loud.csv", *other)
    assert isinstance(bad.exception, InputError)
    assert state.read_text() == before
    for other in (None, audit):
        with pytest.raises(InputError, match=r"budget violation 0.005, not violation 0.1"):
            watch(state, audit=other, budgets={"violation": 0.1})
    with pytest.raises(InputError, match=r"confidence 0\.95, not 0\.9"):
        watch(state, audit=audit, confidence=0.9)
    for wrong in (state, folder / "nothing.json"):
        with pytest.raises(InputError, match=wrong.name):
            watch(folder / "new.json", audit=wrong, budgets={"violation": 0.1})
    assert state.read_text() == before


def test_rows_of_many_processes_are_all_counted(folder):
    """Each reads the state, adds its rows and writes it again: none may lose another's rows."""
    start = {"audit": folder / "reference.json", "budgets": {"violation": 0.5}}
    columns = {"y": "income", "z": ["sex"], "pred": ["decision"]}
    files = [str(folder / "quiet.csv")]
    with ThreadPoolExecutor(4) as pool:  # a lock of a file is one of its handle
        done = [pool.submit(watch, folder / "state.json", files, **start, **columns) for _ in range(4)]
    assert sorted(one.result().rows for one in done) == [3_000, 6_000, 9_000, 12_000]


def test_a_page_before_the_first_row_says_so(folder):
    start = {"audit": folder / "reference.json", "budgets": {"violation": 0.005}}
    text = watch(folder / "state.json", **start).to_html()
    assert "nothing is known" in text


def test_labels_and_decisions_may_be_words(tmp_path):
    rng = np.random.default_rng(0)
    truth, sex = rng.choice(["no", "yes"], 2_000), rng.choice(["f", "m"], 2_000)
    decided = np.where(rng.random(2_000) < 0.8, truth, "no")
    with (tmp_path / "words.csv").open("w", newline="") as file:
        rows = zip(truth, sex, decided, strict=True)
        csv.writer(file).writerows([["income", "sex", "decision"], *rows])
    audit = sx.audit(truth, decided, sensitive_features=sex)
    (tmp_path / "reference.json").write_text(audit.to_json())
    monitor = watch(
        tmp_path / "state.json", [str(tmp_path / "words.csv")], y="income", z=["sex"],
        pred=["decision"], audit=tmp_path / "reference.json", budgets={"violation": 0.01},
    )  # fmt: skip
    assert monitor.report().rows == 2_000


def test_the_shipped_model_brings_its_groups_and_its_budget(tmp_path):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(300, 2)), np.where(rng.random(300) < 0.5, "f", "m")
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    model = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.08, cv=3, random_state=0)
    sx.Predictor.from_estimator(model.fit(X, y, sensitive_features=z)).save(tmp_path / "model")
    watched = watch(tmp_path / "state.json", model=tmp_path / "model")
    assert (watched.measure, watched.budget) == ("eo_gap", 0.08)
    assert watched.reference.groups == ("f", "m")
    assert watched.update(y, (z == "f").astype(int), sensitive_features=z) is not None
    other = watch(tmp_path / "other.json", model=tmp_path / "model", budgets={"parity_gap": 0.2})
    assert (other.measure, other.budget) == ("parity_gap", 0.2)
