"""Groups of one or several columns: one representation, whatever holds the columns."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import separatrix as sx
from separatrix.columns.groups import Grouping, as_groups, from_plain, group_name, to_plain
from separatrix.errors import InputError

SEX = ["f", "m", "f", "m", "f"]
AGE = ["old", "old", "young", "young", "old"]
TUPLES = list(zip(SEX, AGE, strict=True))
FRAME = pd.DataFrame({"sex": SEX, "age": AGE})
FORMS = {
    "pandas": FRAME,
    "polars": pl.DataFrame({"sex": SEX, "age": AGE}),
    "lazy": pl.LazyFrame({"sex": SEX, "age": AGE}),
    "arrow": pl.DataFrame({"sex": SEX, "age": AGE}).to_arrow(),
    "integer names": FRAME.set_axis([0, 1], axis=1),
    "string types": FRAME.astype({"sex": "string", "age": "category"}),
    "mapping": {"sex": SEX, "age": AGE},
    "array": FRAME.to_numpy(),
    "text array": np.array(TUPLES),
    "lists": [SEX, AGE],
    "arrays": [np.array(SEX), np.array(AGE)],
    "series": [FRAME["sex"], pl.Series(AGE)],
    "tuples": TUPLES,
}


@pytest.mark.parametrize("form", FORMS)
def test_two_columns_make_the_same_tuples_whatever_holds_them(form):
    groups = as_groups(FORMS[form])
    assert groups.levels == (("f", "old"), ("f", "young"), ("m", "old"), ("m", "young"))
    assert [groups.levels[code] for code in groups.codes] == TUPLES


def test_each_column_keeps_its_own_kind():
    levels = as_groups(pd.DataFrame({"sex": SEX, "n": [1, 2, 1, 2, 2]})).levels
    assert levels == (("f", 1), ("f", 2), ("m", 2))
    assert as_groups(np.array(list(zip(SEX, [1, 2, 1, 2, 2], strict=True)), dtype=object)).levels == levels


@pytest.mark.parametrize("form", [SEX, [SEX], FRAME[["sex"]], FRAME["sex"], np.array(SEX)[:, None]])
def test_one_column_is_no_intersection(form):
    assert as_groups(form).levels == ("f", "m")


def test_a_group_is_printed_with_an_ampersand_and_stored_as_a_list():
    assert group_name(("f", "old")) == "f & old"
    assert group_name("f") == "f"
    assert from_plain(json.loads(json.dumps(to_plain(("f", np.int64(3)))))) == ("f", 3)


def test_a_grouping_finds_its_groups_by_column_name():
    grouping = Grouping(("sex", "n"), (("f", 1), ("m", 2)))
    again = Grouping.from_dict(json.loads(json.dumps(grouping.to_dict())))
    assert again == grouping
    rows = pd.DataFrame({"other": [0, 0], "n": [2.0, 1.0], "sex": ["m", "f"]})
    np.testing.assert_array_equal(again.codes(rows), [1, 0])
    np.testing.assert_array_equal(again.codes({"n": ["2", "1"], "sex": ["m", "f"]}), [1, 0])
    with pytest.raises(InputError, match=r"`sex & n` holds \('m', 1\), which is not one of"):
        again.codes({"n": [1], "sex": ["m"]})


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (None, "`sensitive_features` is missing"),
        (FRAME[[]], "no columns"),
        ([SEX, AGE[:3]], "same number of rows"),
        ([SEX, [None, *AGE[1:]]], r"1 missing value \(row 0\)"),
        (FRAME.set_axis(["a", "a"], axis=1), "two columns of the name 'a'"),
        (np.zeros((2, 2, 2)), "shape"),
    ],
)
def test_what_makes_no_groups_is_one_sentence(groups, message):
    with pytest.raises(InputError, match=message):
        as_groups(groups)


def test_soft_counts_take_two_columns():
    q = np.full((5, 2), 0.5)
    table = sx.theory.soft_counts([0, 1, 0, 1, 1], q, sensitive_features=FRAME)
    assert table.shape == (2, 4, 2)
    np.testing.assert_allclose(table.sum(2), [[1, 1, 0, 0], [1, 0, 1, 1]])
