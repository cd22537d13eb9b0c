"""Inputs that once ended in a raw exception: each is one sentence, or the right answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

import separatrix as sx
from separatrix.columns import readers
from separatrix.errors import SeparatrixError


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y,z,u\n0,a,0\n1,b,1,,\n0,b,1\n1,a,1\n", None),  # trailing commas
        ("y,z,u\n", "no rows"),
        ("", "empty"),
        ("y;z;u\n0;a;0,5\n1;b;0,7\n0;b;0,2\n1;a;0,1\n", None),  # decimal commas are text
        ("y,y,u\n0,a,0\n1,b,1\n", "two columns of the name 'y'"),
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
        assert sx.audit(path, target="y", sensitive_features="z", prediction="u").table.rows == 4
    else:
        with pytest.raises(SeparatrixError, match=message) as error:
            sx.audit(path, target="y", sensitive_features="z", prediction="u")
        assert len(str(error.value)) < 1_000


@pytest.mark.parametrize("values", [[[1], [2]], [{"a": 1}, {"a": 2}]])
def test_nested_parquet_is_named(tmp_path, values):
    pq.write_table(pa.table({"y": [0, 1], "z": ["a", "b"], "u": values}), tmp_path / "a.parquet")
    with pytest.raises(SeparatrixError, match="'u' is nested"):
        sx.audit(tmp_path / "a.parquet", target="y", sensitive_features="z", prediction="u")


Y, Z = [0, 1, 0, 1], ["a", "b", "b", "a"]
DAYS = ["2020-01-01", "NaT", "2020-01-02", "2020-01-01"]
LINE = LogisticRegression()
X = np.arange(8.0).reshape(4, 2)
FRAME = pd.DataFrame({"y": Y, "z": Z, "u": Y})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sx.audit([0, 1, pd.NA, 1], Y, sensitive_features=Z), "1 missing value"),
        (lambda: sx.audit([0, 1j, 0, 1], Y, sensitive_features=Z), "complex"),
        (lambda: sx.audit([0, 1, np.inf, 1], Y, sensitive_features=Z), "infinite value in row 2"),
        (lambda: sx.audit([0, 1, -np.inf, 1], Y, sensitive_features=Z), "infinite value in row 2"),
        (lambda: sx.audit(Y, Y, sensitive_features=Z, labels=5), "`labels` must list"),
        (lambda: sx.audit(Y, Y, sensitive_features=Z, guarantee=np.ones(3)), "`guarantee` must be"),
        (lambda: sx.audit(Y * 20, Y * 20, sensitive_features=[["a"], ["b"]] * 40), "80 columns"),
        (lambda: sx.audit(Y, Y, sensitive_features=Z, random_state=-1), "from 0 on"),
        (lambda: sx.audit(Y, Y, sensitive_features=Z, confidence="x"), "`confidence`.*'x'"),
        (lambda: sx.CountTable(np.ones((2, 2, 2)), (0, 1), None, (0, 1), 8), "`groups` must be a"),
        (lambda: sx.CountTable(np.ones((2, 2, 2)), (0, 1), (0,), (0, 1), 8), "has the shape"),
        (lambda: sx.CountTable(np.ones((2, 1, 2)), (0, 0), (0,), (0, 1), 4), "different names"),
        (lambda: sx.CountTable(np.full((1, 1, 1), np.nan), (0,), (0,), (0,), 1), "finite"),
        (lambda: sx.audit(FRAME, target="y", sensitive_features=None, prediction="u"), "at least one column"),
        (lambda: sx.audit(FRAME, target="y", sensitive_features="z", prediction="y"), "two things at once"),
        (
            lambda: sx.audit(
                FRAME.set_axis(["y", "z", "z"], axis=1), target="y", sensitive_features="z", prediction="u"
            ),
            "two columns of the name",
        ),
        (lambda: sx.limit(Y, [0.1, 0.2, 0.3, 0.4], sensitive_features=Z, levels="x"), "numbers"),
        (lambda: sx.theory.separate(Y, [1j, 0.2, 0.3, 0.4], sensitive_features=Z), "must be numbers"),
        (lambda: sx.theory.concave_envelope(["a"], [1.0]), "must be numbers"),
        (lambda: sx.theory.mutual_information([[["a"]]]), "must be numbers"),
        (lambda: sx.theory.align([0.0, 1e308, 1.0, 2.0], Y, sensitive_features=Z), "1e.308 in row 1"),
        (lambda: sx.theory.align(Y, [0.0, 1.0, -1e200, 2.0], sensitive_features=Z), "-1e.200 in row 2"),
        (lambda: sx.SeparatedScorer(cv=2).fit(X, [0, 1e308, 0, 1], Z), "`y` holds 1e.308 in row 1"),
        (lambda: sx.SeparatedScorer(LINE, cv=2).fit((), Y, Z), "one row per person"),
        (lambda: sx.SeparatedScorer(LINE, cv=2).fit(np.float64(1.0), Y, Z), "one row per person"),
        (lambda: sx.audit([np.float16(np.inf), "a", 0, 1], Y, sensitive_features=Z), "holds inf"),
        (lambda: sx.audit(FRAME, target="y", sensitive_features="z", prediction="u", sample_weight=""), "no column ''"),
        (lambda: sx.SeparationClassifier().fit(X, np.array(DAYS, dtype="M8[D]"), Z), "`y` has 1 missing value"),
        (lambda: sx.nn.SeparationLoss(0.5, 2, 2)(None, None, None), "`logits`"),
        (lambda: sx.AlignedRegressor(cv=2).fit(X, list("abab"), Z), "`y` must be numbers"),
        (lambda: sx.SeparationClassifier(random_state=-1).fit(X, Y, Z), "from 0 on"),
        (lambda: sx.SeparationClassifier("x").fit(X, Y, Z), "`trade_off`.*'x'"),
    ],
)
def test_what_was_once_raw_is_one_sentence(call, message):
    with pytest.raises(SeparatrixError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_columns_may_be_called_by_numbers():
    numbered = FRAME.set_axis([0, 1, 2], axis=1)
    result = sx.audit(numbered, target=0, sensitive_features=1, prediction=2)
    assert result.violation == sx.audit(FRAME, target="y", sensitive_features="z", prediction="u").violation


def test_a_fresh_seed_is_one_too():
    assert sx.audit(Y, Y, sensitive_features=Z, random_state=None).table.rows == 4
