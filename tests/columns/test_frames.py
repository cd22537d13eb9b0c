"""Tables with odd names and odd types: a right answer or one sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import separatrix as sx
from separatrix import datasets
from separatrix.columns.features import raw_columns
from separatrix.errors import InputError

ROWS = {"y": [0, 1, 1, 0, 1], "z": ["a", "b", "a", "b", "b"], "u": [0, 1, 0, 0, 1]}
KNOWN = sx.audit(ROWS["y"], ROWS["u"], sensitive_features=ROWS["z"]).violation


def test_integer_names_are_names():
    frame = pd.DataFrame(ROWS).set_axis([0, 1, 2], axis=1)
    assert sx.audit(frame, target="0", sensitive_features="1", prediction="2").violation == pytest.approx(KNOWN)
    assert sx.audit(frame, target=0, sensitive_features=1, prediction=2).violation == pytest.approx(KNOWN)
    assert sx.audit(frame, target=0, sensitive_features=[1], prediction=[2]).violation == pytest.approx(KNOWN)
    data = datasets.from_frame(frame, target="0", sensitive="1")
    assert data.features == ("2",)


@pytest.mark.parametrize("names", [("__rows", "__w", "__ww"), ("k0", "rows", "w"), ("k1", "k0", "q0")])
@pytest.mark.parametrize("soft", [False, True])
def test_columns_may_be_called_like_our_internals(names, soft):
    frame = pd.DataFrame(ROWS).assign(w=2).set_axis([*names, "sum"], axis=1)
    if soft:
        frame[names[2]] = frame[names[2]].astype(float)
    a = sx.audit(frame, target=names[0], sensitive_features=names[1], prediction=names[2], sample_weight="sum")
    assert a.violation == pytest.approx(KNOWN)


@pytest.mark.parametrize("names", [["y", "z", "z"], ["y", 0, "0"]])
def test_two_columns_of_one_name_are_one_sentence(names):
    frame = pd.DataFrame(ROWS).set_axis(names, axis=1)
    with pytest.raises(InputError, match="two columns of the name"):
        sx.audit(frame, target="y", sensitive_features="z", prediction="u")
    with pytest.raises(InputError, match="two columns of the name"):
        datasets.from_frame(frame, target="y", sensitive="z")
    with pytest.raises(InputError, match="two columns of the name"):
        sx.trace(frame, ROWS["y"], sensitive_features=ROWS["z"])


@pytest.mark.parametrize(
    "types",
    [
        {"y": "Int64", "z": "string", "u": "Int8"},
        {"y": "boolean", "z": "category", "u": "boolean"},
        {"y": "int64[pyarrow]", "z": "string[pyarrow]", "u": "int64[pyarrow]"},
        {"y": "category", "z": "object", "u": "category"},
    ],
)
def test_nullable_and_string_types(types):
    frame = pd.DataFrame(ROWS).astype(types)
    assert sx.audit(frame, target="y", sensitive_features="z", prediction="u").violation == pytest.approx(KNOWN)
    a = sx.audit(frame["y"], frame["u"], sensitive_features=frame[["z"]])
    assert a.violation == pytest.approx(KNOWN)
    data = datasets.from_frame(frame, target="y", sensitive="z")
    assert data.groups == ("a", "b")
    np.testing.assert_array_equal(data.y, ROWS["y"])
    frame.loc[1, "z"] = None
    with pytest.raises(InputError, match="1 missing value"):
        sx.audit(frame, target="y", sensitive_features="z", prediction="u")
    with pytest.raises(InputError, match=r"1 missing value \(row 1\)"):
        sx.audit(frame["y"], frame["u"], sensitive_features=frame[["z"]])


def test_an_arrays_columns_are_numbered():
    found = raw_columns(np.arange(6.0).reshape(3, 2), ["x1"])
    np.testing.assert_array_equal(found["x1"], [1, 3, 5])
    with pytest.raises(InputError, match="found by name, so an array will not do"):
        raw_columns(np.arange(6.0).reshape(3, 2), ["age"])
