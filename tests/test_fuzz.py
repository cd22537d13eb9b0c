"""Every public entry point on hostile input: a right answer or a `SeparatrixError`, nothing else.

1,000 cases in the suite, 10,000 fresh ones in `make fuzz`. A case is one number; `run(number)` of
its family repeats it.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import hostile
import separatrix as sx
from people import people
from separatrix import datasets
from separatrix.cli import main
from separatrix.columns import readers
from separatrix.deploy.component import Component
from separatrix.deploy.predictor import Predictor
from separatrix.errors import SeparatrixError
from separatrix.nn.networks import Networks

TIMES = 10 if settings.get_current_profile_name() == "fuzz" else 1
SEEDS = st.integers(0, 2**40)


def cases(count):
    """So many cases; nothing to shrink in a number."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    phases = (Phase.explicit, Phase.generate)
    return settings(max_examples=count * TIMES, suppress_health_check=quiet, phases=phases)


def told(call):
    """The answer, or None where a `SeparatrixError` said why not, in one sentence."""
    try:
        return call()
    except SeparatrixError as error:
        text = str(error)
        assert text.strip(), "an error without a word"
        assert len(text) < 1_500, f"{len(text)} characters of error"
        assert "\n" not in text, "an error of several lines"
        return None


def finite(value):
    """Every number in it is finite; undefined ones are None."""
    if isinstance(value, dict):
        for one in value.values():
            finite(one)
    elif isinstance(value, list | tuple):
        for one in value:
            finite(one)
    elif isinstance(value, np.ndarray):
        assert value.dtype.kind not in "fc" or np.isfinite(value).all()
    elif isinstance(value, float):
        assert math.isfinite(value), value


def plug_in(y, u, z):
    """v = I(U;Z|Y) of lists, by counting with dictionaries."""
    n = len(y)
    yzu, yz, yu, one = Counter(zip(y, z, u)), Counter(zip(y, z)), Counter(zip(y, u)), Counter(y)  # noqa: B905
    return sum(c / n * math.log(c * one[a] / (yz[a, b] * yu[a, d])) for (a, b, d), c in yzu.items())


def show(result):
    """Text, JSON and page of a result."""
    assert str(result)
    finite(json.loads(result.to_json(), parse_constant=pytest.fail))
    assert "<" in result._repr_html_()


def seldom(rng, right, share=0.15):
    """The right argument, or a hostile one."""
    return hostile.column(rng, right[1]) if rng.random() < share else right[0]


def case_arrays(rng):
    n, k, g = int(rng.integers(1, 60)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    y, z = (hostile.labels(rng, n, k), n), (hostile.labels(rng, n, g), n)
    u = pick_prediction(rng, n, k), n
    how = {"sensitive_features": seldom(rng, z)}
    if rng.random() < 0.3:
        how["sample_weight"] = hostile.weights(rng, n)
    which = int(rng.integers(8))
    if which <= 2:
        more = {}
        if rng.random() < 0.2:
            more["confidence"] = hostile.pick(rng, (0.9, 0.0, 1.0, -1, np.nan, "x", None, 0.5))
        if rng.random() < 0.2:
            more["random_state"] = hostile.pick(rng, (-1, 0, 2**64, None, "x", 1.5, np.nan))
        if rng.random() < 0.2:
            more["labels"] = hostile.pick(rng, ([0, 1], [], [0, 0], "ab", 5, [np.nan], ["x"], [[]]))
        result = told(lambda: sx.audit(seldom(rng, y), seldom(rng, u), **how, **more))
        if result is not None:
            show(result)
            finite([result.violation, result.utility, *result.violation_interval])
            assert 0 <= result.violation <= result.violation_upper + 1e-9
    elif which == 3:
        call = hostile.pick(rng, (sx.violation_score, sx.utility_score))
        finite(told(lambda: call(seldom(rng, y), seldom(rng, u), **how)))
    elif which == 4:
        q = seldom(rng, (hostile.posteriors(rng, n, k), n))
        table = told(lambda: sx.soft_counts(seldom(rng, y), q, **how))
        if table is not None:
            finite(np.asarray(getattr(table, "counts", table)))
    elif which == 5:
        s = seldom(rng, (hostile.scores(rng, n), n))
        bins = hostile.pick(rng, (20, 20, 5, 1, 0, -1, 10**6, "x", 2.5))
        seed = hostile.pick(rng, (0, 0, 0, -1, None, "x", np.nan))
        result = told(
            lambda: sx.audit_score(seldom(rng, y), s, bins=bins, random_state=seed, **how)
        )
        if result is not None:
            show(result)
    elif which == 6:
        s = seldom(rng, (hostile.scores(rng, n), n))
        best = hostile.pick(rng, ("utility", "accuracy", "balanced_accuracy", "x", None, 3))
        budget = hostile.pick(rng, ("violation", "eo_gap", "eo_max", "tpr_gap", "x", None))
        levels = hostile.pick(rng, ([0.01], [0.0, 0.1], [-1], [np.nan], [], "x", 0.1, [np.inf]))
        y2 = (hostile.labels(rng, n, 2), n)
        found = told(
            lambda: sx.limit(seldom(rng, y2), s, maximize=best, budget=budget, levels=levels, **how)
        )
        if found is not None:
            finite(np.asarray(found.values))
            assert str(found)
    else:
        s, y2 = seldom(rng, (hostile.scores(rng, n), n)), (hostile.labels(rng, n, 2), n)
        penalty = hostile.pick(rng, (None, None, 1.0, -1, np.nan, "x", 1e300))
        score = told(lambda: sx.separate(seldom(rng, y2), s, penalty=penalty, **how))
        if score is not None:
            finite([score.levels, score.auroc, score.utility])
            some = seldom(rng, (hostile.scores(rng, n), n))
            told(lambda: score.transform(some, sensitive_features=seldom(rng, z), random_state=0))


def pick_prediction(rng, n, k):
    """Labels, a posterior, or a column of probabilities."""
    kind = int(rng.integers(3))
    if kind == 0:
        return hostile.labels(rng, n, k)
    return hostile.posteriors(rng, n, k) if kind == 1 else hostile.scores(rng, n)


def case_tables(rng):
    which = int(rng.integers(6))
    shape = tuple(int(x) for x in rng.integers(0, 4, int(rng.integers(1, 5))))
    counts = (
        rng.integers(0, 9, shape).astype(float) if rng.random() < 0.7 else hostile.column(rng, 8)
    )
    if (
        rng.random() < 0.3
        and isinstance(counts, np.ndarray)
        and counts.size
        and counts.dtype == float
    ):
        counts.flat[int(rng.integers(counts.size))] = hostile.pick(
            rng, (np.nan, -1.0, np.inf, 1e308)
        )
    if which == 0:
        finite(told(lambda: np.asarray(sx.conditional_mutual_information(counts))))
    elif which == 1:
        finite(told(lambda: np.asarray(sx.mutual_information(counts))))
    elif which == 2:
        axes = [
            hostile.pick(
                rng, ((0, 1), ("a", "b", "c"), (), (0, 0), "ab", None, 5, (np.nan,), ([],))
            )
            for _ in range(3)
        ]
        rows = hostile.pick(rng, (5, -1, 0, np.nan, "x", 2.5))
        table = told(lambda: sx.CountTable(counts, *axes, rows=rows))
        if table is not None:
            finite(table.counts)
            again = told(lambda: table + table)
            if again is not None:
                np.testing.assert_allclose(again.counts, 2 * table.counts)
            told(lambda: sx.CountTable.merge([table, table]))
    elif which == 3:
        v, u = (seldom(rng, (rng.random(6), 6)) for _ in range(2))
        envelope = told(lambda: sx.concave_envelope(v, u))
        if envelope is not None and envelope.violation[0] <= 1.0:  # NaN left of all points
            told(lambda: envelope.at(hostile.column(rng, 3)))
            finite(envelope.at([1.0, 2.0]))
    elif which == 4:
        cost = told(
            lambda: sx.Cost(
                *(hostile.pick(rng, (1, 0, -1, np.nan, np.inf, "x", None)) for _ in range(2))
            )
        )
        assert cost is None or str(cost)
    else:
        law = counts if rng.random() < 0.5 else rng.dirichlet(np.ones(8)).reshape(2, 2, 2)
        found = told(lambda: sx.population.exact_frontier(law))
        if found is not None:
            finite([found.violation, found.utility])


def case_frames(rng):
    n = int(rng.integers(0, 40))
    names = ["y", "z", "u", "w"]
    data = {
        "y": hostile.labels(rng, n, 2),
        "z": hostile.labels(rng, n, 2),
        "u": hostile.labels(rng, n, 2) if rng.random() < 0.5 else hostile.scores(rng, n),
        "w": rng.random(n),
    }
    if n and rng.random() < 0.5:
        data[hostile.pick(rng, names)] = hostile.column(rng, n)
    make = hostile.pick(rng, (pd.DataFrame, pl.DataFrame, dict))
    try:
        frame = make(data)
        if make is pd.DataFrame and rng.random() < 0.3:
            frame.columns = hostile.pick(
                rng, ([0, 1, 2, 3], ["y", "y", "u", "w"], [None, "z", "u", "w"], [1, "z", "u", "w"])
            )
    except Exception:  # such a frame cannot be made
        return
    odd = ("y", 0, None, "", ("a",), "none", True, 1.5)
    y, z, u, w = (hostile.pick(rng, odd) if rng.random() < 0.08 else own for own in names)
    if rng.random() < 0.15:
        z = hostile.pick(rng, ([z, z], [z, "w"], [], [[]]))
    weight = w if rng.random() < 0.3 else None
    which = int(rng.integers(4))
    if which <= 1:
        result = told(lambda: sx.audit_frame(frame, y=y, z=z, pred=u, weight=weight))
    elif which == 2:
        result = told(lambda: sx.audit_score_frame(frame, y=y, z=z, score=u, weight=weight))
    else:
        with warnings.catch_warnings():  # it says which columns it left out
            warnings.filterwarnings("ignore", message="Left out of the features")
            result = told(lambda: sx.datasets.from_frame(frame, target=y, sensitive=z))
        if result is not None:
            finite(result.X)
        return
    if result is not None:
        show(result)


def case_files(rng, folder, monkeypatch):
    n = int(rng.integers(0, 30))
    monkeypatch.setattr(readers, "LARGE", hostile.pick(rng, (0, readers.LARGE)))  # DuckDB, or not
    names = ["y", "z", "u"]
    path = folder / hostile.pick(rng, ("a.csv", "a.csv", "a.csv", "a.tsv", "a.parquet", "a.txt"))
    if path.suffix == ".parquet" and rng.random() < 0.8:
        pq.write_table(hostile.arrow_table(rng, names, n), path)
    else:
        path.write_bytes(hostile.csv_bytes(rng, names, n))
    y, z, u = (hostile.pick(rng, (own, own, own, own, "y", "none", "")) for own in names)
    which = int(rng.integers(5))
    if which == 0:
        result = told(lambda: sx.audit_files(path, y=y, z=[z], pred=[u]))
        if result is not None:
            show(result)
    elif which == 1:
        result = told(lambda: sx.audit_score_files(path, y=y, z=[z], score=u))
        if result is not None:
            show(result)
    elif which == 2:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Left out of the features")
            result = told(lambda: sx.datasets.from_file(path, target=y, sensitive=[z]))
        assert result is None or np.isfinite(result.X).all()
    else:
        command(rng, path, y, z, u)


def command(rng, path, y, z, u):
    """A call of the command line: status 0, 2 or 3, and no traceback."""
    which = int(rng.integers(3))
    if which == 0:
        words = ["audit", path, "--y", y, "--z", z, "--pred", u, "--json"]
        words += hostile.pick(
            rng, ([], ["--score"], ["--seed", "-1"], ["--confidence", "2"], ["--fail-above", "x"],
                  ["--fail-above", "eo_gap=nan"], ["--fail-above", "eo_gap=0"], ["--weight", "y"])
        )  # fmt: skip
    elif which == 1:
        words = ["limit", path, "--y", y, "--z", z, "--score", u, "--level", "0.01"]
        words += hostile.pick(rng, ([], ["--cost", "fp=x"], ["--budget", "x"], ["--maximize", "x"]))
    else:
        words = [hostile.pick(rng, ("predict", "select", "replay")), path.parent, path, "--out"]
        words += [path.parent / "o.csv"]
        words = words[:3] if words[0] == "replay" else words
        if words[0] == "select":
            words = ["select", path.parent, "--max-violation", "0.1", "--out", path.parent / "m"]
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["separatrix", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv = before
    assert code in (0, 2, 3), (code, words)
    if code == 0 and words[0] == "audit":
        finite(json.loads(out.getvalue(), parse_constant=pytest.fail))
    if code == 2:
        assert err.getvalue().strip()


def case_deploy(rng, single, mixture, folder):
    n = int(rng.integers(0, 12))
    rows = {
        "age": rng.normal(40, 9, n),
        "job": rng.choice(["cook", "pilot", "astronaut"], n),
        "sex": rng.choice(["f", "m"], n),
    }
    predictor = hostile.pick(rng, (single, mixture))
    if n and rng.random() < 0.5:
        rows[hostile.pick(rng, list(rows))] = hostile.column(rng, n)
    draws = hostile.pick(
        rng, ({"random_state": 0}, {"random_state": None}, {}, {"random_state": -1},
              {"random_state": "x"}, {"random_state": np.nan}, "ids", "ids"),
    )  # fmt: skip
    if draws == "ids":
        good = "kept by the operator, not in the model"
        salt = hostile.pick(rng, (good, good, good, "", "a" * 30, None, 5, b"\0"))
        draws = {"ids": seldom(rng, (np.arange(n), max(n, 1))), "salt": salt}
    which = int(rng.integers(4))
    if which <= 1:
        labels = told(lambda: predictor.predict(rows, **draws))
        assert labels is None or set(labels) <= {"high", "low"}
        q = told(lambda: predictor.predict_proba(rows))
        finite(q)
        assert q is None or np.allclose(q.sum(1), 1.0)
    elif which == 2:
        z = seldom(rng, (rows["sex"], max(n, 1)))
        finite(told(lambda: predictor.predict_proba(rows, sensitive_features=z)))
        y = seldom(rng, (rng.choice(["high", "low"], n), max(n, 1)))
        table = told(lambda: predictor.counts(rows, y, z))
        if table is not None:
            budget = hostile.pick(rng, (0.01, 0, -1, np.nan, "x", None))
            monitor = told(lambda: sx.Monitor(table, budget=budget))
            if monitor is not None:
                u = seldom(rng, (rng.choice(["high", "low"], n), max(n, 1)))
                told(lambda: monitor.update(y, u, sensitive_features=z))
    else:
        load_damaged(rng, single, folder)


def load_damaged(rng, single, folder):
    """A saved model with one byte, one file or one field changed."""
    place = folder / "model"
    if not place.exists():
        single.save(place)
    names = sorted(path.name for path in place.iterdir())
    name = hostile.pick(rng, names)
    whole = (place / name).read_bytes()
    at, kind = int(rng.integers(len(whole))), int(rng.integers(4))
    damaged = (
        whole[:at],
        whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
        b"",
        whole + b"\0" * 9,
    )[kind]
    try:
        (place / name).write_bytes(damaged)
        assert told(lambda: sx.load(place)) is None
    finally:
        (place / name).write_bytes(whole)


@pytest.fixture(scope="session")
def single():
    """A network with made-up weights, for raw rows."""
    data = datasets.from_frame(people(200), target="pay", sensitive="sex")
    rng, width = np.random.default_rng(0), 2 + data.X.shape[1]
    layers = [rng.normal(size=(1, width, 4)), rng.normal(size=(1, 4, 2))]
    networks = Networks(
        tuple(w.astype(np.float32) for w in layers),
        (np.zeros((1, 4), np.float32), np.zeros((1, 2), np.float32)),
        2,
        ("ok",),
        np.zeros((1, 1)),
    )
    component = Component.of("cmi", 0.0, "randomized", networks)
    return Predictor(
        data.labels,
        data.groups,
        (component,),
        preprocessing=data.preprocessing,
        grouping=data.grouping,
    )


@pytest.fixture(scope="session")
def mixture(single):
    """Two branches of it."""
    hard = replace(single.components[0], policy="deterministic")
    return replace(single, components=(*single.components, hard), weights=(0.3, 0.7))


@pytest.mark.slow
@given(seed=SEEDS)
@cases(450)
def test_arrays(seed):
    case_arrays(np.random.default_rng(seed))


@pytest.mark.slow
@given(seed=SEEDS)
@cases(150)
def test_tables(seed):
    case_tables(np.random.default_rng(seed))


@pytest.mark.slow
@given(seed=SEEDS)
@cases(150)
def test_frames(seed):
    case_frames(np.random.default_rng(seed))


@pytest.mark.slow
@given(seed=SEEDS)
@cases(150)
def test_files_and_commands(seed, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    with pytest.MonkeyPatch.context() as monkeypatch:
        case_files(np.random.default_rng(seed), folder, monkeypatch)


@pytest.mark.slow
@given(seed=SEEDS)
@cases(100)
def test_predictors(seed, single, mixture, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "fuzz_models"
    folder.mkdir(exist_ok=True)
    case_deploy(np.random.default_rng(seed), single, mixture, folder)


@pytest.mark.slow
@given(seed=SEEDS)
@cases(60)
def test_plain_columns_have_the_right_answer(seed):
    """Against counting with dictionaries."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 60))
    y, u, z = (rng.integers(0, 2, n).tolist() for _ in range(3))
    if len(set(y)) == len(set(z)) == 2:
        assert sx.violation_score(y, u, sensitive_features=z) == pytest.approx(
            plug_in(y, u, z), abs=1e-12
        )


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y,z,u\n0,a,0\n1,b,1,,\n0,b,1\n1,a,1\n", None),  # trailing commas
        ("y,z,u\n", "no rows"),
        ("", "empty"),
        ("y;z;u\n0;a;0,5\n1;b;0,7\n0;b;0,2\n1;a;0,1\n", None),  # decimal commas are text
        ("y,y,u\n0,a,0\n1,b,1\n", "no column 'z'"),
        (f"y,z,u\n0,{'x' * 40_000},0\n1,b,1\n0,b,1\n1,{'x' * 40_000},1\n", None),
    ],
)
def test_files_as_people_have_them(tmp_path, monkeypatch, text, message, large):
    """The same answer from both readers."""
    if large:
        monkeypatch.setattr(readers, "LARGE", 0)
    path = tmp_path / "a.csv"
    path.write_text(text)
    if message is None and ";" not in text:
        assert sx.audit_files(path, y="y", z="z", pred="u").table.rows == 4
    else:
        with pytest.raises(SeparatrixError, match=message) as error:
            sx.audit_files(path, y="y", z="z", pred="u")
        assert len(str(error.value)) < 1_000


@pytest.mark.parametrize("values", [[[1], [2]], [{"a": 1}, {"a": 2}]])
def test_nested_parquet_is_named(tmp_path, values):
    pq.write_table(pa.table({"y": [0, 1], "z": ["a", "b"], "u": values}), tmp_path / "a.parquet")
    with pytest.raises(SeparatrixError, match="'u' is nested"):
        sx.audit_files(tmp_path / "a.parquet", y="y", z="z", pred="u")


Y, Z = [0, 1, 0, 1], ["a", "b", "b", "a"]
FRAME = pd.DataFrame({"y": Y, "z": Z, "u": Y})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sx.audit([0, 1, pd.NA, 1], Y, sensitive_features=Z), "1 missing value"),
        (lambda: sx.audit([0, 1j, 0, 1], Y, sensitive_features=Z), "complex"),
        (lambda: sx.audit([0, 1, np.inf, 1], Y, sensitive_features=Z), "infinite value in row 2"),
        (lambda: sx.audit([0, 1, -np.inf, 1], Y, sensitive_features=Z), "infinite value in row 2"),
        (lambda: sx.audit(Y, Y, sensitive_features=Z, labels=5), "`labels` must list"),
        (lambda: sx.audit(Y, Y, sensitive_features=Z, random_state=-1), "from 0 on"),
        (lambda: sx.audit(Y, Y, sensitive_features=Z, confidence="x"), "must be numbers"),
        (lambda: sx.CountTable(np.ones((2, 2, 2)), (0, 1), None, (0, 1), 8), "`groups` must be a"),
        (lambda: sx.CountTable(np.ones((2, 2, 2)), (0, 1), (0,), (0, 1), 8), "has the shape"),
        (lambda: sx.CountTable(np.ones((2, 1, 2)), (0, 0), (0,), (0, 1), 4), "different names"),
        (lambda: sx.CountTable(np.full((1, 1, 1), np.nan), (0,), (0,), (0,), 1), "finite"),
        (lambda: sx.audit_frame(FRAME, y="y", z=None, pred="u"), "at least one column"),
        (lambda: sx.audit_frame(FRAME, y="y", z="z", pred="y"), "two things at once"),
        (
            lambda: sx.audit_frame(FRAME.set_axis(["y", "z", "z"], axis=1), y="y", z="z", pred="u"),
            "two columns of the name",
        ),
        (lambda: sx.limit(Y, [0.1, 0.2, 0.3, 0.4], sensitive_features=Z, levels="x"), "numbers"),
        (lambda: sx.separate(Y, [1j, 0.2, 0.3, 0.4], sensitive_features=Z), "must be numbers"),
        (lambda: sx.concave_envelope(["a"], [1.0]), "must be numbers"),
        (lambda: sx.mutual_information([[["a"]]]), "must be numbers"),
    ],
)
def test_what_was_once_raw_is_one_sentence(call, message):
    with pytest.raises(SeparatrixError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_columns_may_be_called_by_numbers():
    numbered = FRAME.set_axis([0, 1, 2], axis=1)
    result = sx.audit_frame(numbered, y=0, z=1, pred=2)
    assert result.violation == sx.audit_frame(FRAME, y="y", z="z", pred="u").violation


def test_a_fresh_seed_is_one_too():
    assert sx.audit(Y, Y, sensitive_features=Z, random_state=None).table.rows == 4
