"""What is deployed: draws that can be repeated, mixtures that keep their promise, rows by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chi2_contingency, kstest

from people import people
from separatrix.columns.draws import uniforms
from separatrix.crossfit.base_models import Base
from separatrix.errors import InputError
from separatrix.optimum.rules import DrawnLabel, OneThreshold
from separatrix.predictor.predictor import Branch, Predictor, policy_rule
from separatrix.theory import conditional_mutual_information, mutual_information

SALT = "kept by the operator, not in the model"


def test_proba_is_the_weighted_mean_of_the_branches(mixture):
    rows = people(200, seed=1)
    q = mixture.branch_proba(rows)
    assert q.shape == (2, 200, 2)
    np.testing.assert_allclose(mixture.predict_proba(rows), 0.3 * q[0] + 0.7 * q[1])
    np.testing.assert_allclose(mixture.predict_proba(rows).sum(1), 1.0)


def test_the_mixture_lies_on_the_segment_between_its_parts(mixture):
    """Proposition of the revealed mixture: (v, u) of (N, U) is the weighted mean of the
    branches', on data, exactly.
    """
    rows = people(3_000, seed=2)
    branches = [
        replace(mixture, branches=(branch,), weights=(1.0,)).counts(rows, rows["pay"]) for branch in mixture.branches
    ]
    whole = mixture.counts(rows, rows["pay"])
    for measure in (conditional_mutual_information, mutual_information):
        expected = 0.3 * measure(branches[0].counts) + 0.7 * measure(branches[1].counts)
        assert measure(whole.counts) == pytest.approx(float(expected), abs=1e-12)
    assert whole.rows == 3_000
    hidden = 0.3 * branches[0].counts + 0.7 * branches[1].counts
    assert conditional_mutual_information(hidden) <= conditional_mutual_information(
        whole.counts
    )  # less if not revealed


def test_drawn_decisions_have_the_promised_frequencies(mixture):
    rows = {name: np.repeat(values[:40], 500) for name, values in people(40, seed=3).items()}
    labels, branch = mixture.predict(rows, random_state=5, return_branch=True)
    q = mixture.branch_proba(rows)
    for b in range(2):
        share = (labels[branch == b] == mixture.labels[1]).mean()
        assert share == pytest.approx(q[b, branch == b, 1].mean(), abs=0.02)
    assert branch.mean() == pytest.approx(0.7, abs=0.015)


def test_the_same_person_gets_the_same_draw_in_any_batch_and_order(mixture):
    rows = people(300, seed=4)
    ids = np.array([f"person-{i}" for i in range(300)])
    labels, branch = mixture.predict(rows, ids=ids, salt=SALT, return_branch=True)
    order = np.random.default_rng(0).permutation(300)[:100]
    some = {name: values[order] for name, values in rows.items()}
    again, branch_again = mixture.predict(some, ids=ids[order], salt=SALT, return_branch=True)
    np.testing.assert_array_equal(again, labels[order])
    np.testing.assert_array_equal(branch_again, branch[order])
    other = mixture.predict(rows, ids=ids, salt="another secret of the operator", return_branch=True)[1]
    assert (other != branch).any()


def test_branch_and_features_are_independent(mixture):
    """N ⟂ (X, Y, Z) with consecutive ids, where a bad hash would show."""
    rows = people(20_000, seed=5)
    _, branch = mixture.predict(rows, ids=np.arange(20_000), salt=SALT, return_branch=True)
    for column in ("sex", "job", "pay"):
        assert chi2_contingency(pd.crosstab(rows[column], branch)).pvalue > 0.001
    coins = uniforms(20_000, ids=np.arange(20_000), salt=SALT)
    assert kstest(coins[:, 0], "uniform").pvalue > 0.001
    assert abs(np.corrcoef(coins.T)[0, 1]) < 0.03
    assert abs(np.corrcoef(coins[:-1, 0], coins[1:, 0])[0, 1]) < 0.03
    assert abs(np.corrcoef(coins[:, 0], rows["age"])[0, 1]) < 0.03


def test_one_row_requests_do_not_share_a_coin(mixture):
    """Each person takes the second branch with its weight, however the rows come in."""
    rows = people(300, seed=42)
    single_rows = [{k: v[i : i + 1] for k, v in rows.items()} for i in range(300)]
    with pytest.raises(InputError, match="pass `ids=` and a secret `salt=`"):
        mixture.predict(single_rows[0])
    for draw in (lambda i: {"ids": [i], "salt": SALT}, lambda i: {"random_state": None}):
        branch = [mixture.predict(row, **draw(i), return_branch=True)[1][0] for i, row in enumerate(single_rows)]
        assert np.mean(branch) == pytest.approx(0.7, abs=0.12)


def test_the_hash_is_of_what_decides(single, mixture):
    """Another secret, card or copy: the same hash; another weight: another one, other coins."""
    assert replace(mixture, about={}).with_key(SALT).model_hash == mixture.model_hash
    other = replace(mixture, weights=(0.31, 0.69))
    assert len({single.model_hash, mixture.model_hash, other.model_hash}) == 3
    ids = np.arange(500)
    assert (other.coins(500, ids=ids, salt=SALT) != mixture.coins(500, ids=ids, salt=SALT)).all()


def test_a_bound_secret_is_the_only_one(mixture):
    bound, rows = mixture.with_key(SALT), people(5, seed=11)
    bound.predict(rows, ids=range(5), salt=SALT)
    with pytest.raises(InputError, match=f"draws with the secret {bound.key_id}"):
        bound.predict(rows, ids=range(5), salt="another secret of the operator")


def test_a_seed_repeats_and_none_does_not(single):
    rows = people(500, seed=6)
    np.testing.assert_array_equal(single.predict(rows, random_state=3), single.predict(rows, random_state=3))
    assert (single.predict(rows, random_state=None) != single.predict(rows, random_state=None)).any()


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])
def test_rows_are_found_by_name_whatever_the_library(single, make):
    rows = people(50, seed=7)
    shuffled = {"extra": np.zeros(50), **{name: rows[name] for name in ("sex", "job", "age")}}
    np.testing.assert_array_equal(single.predict_proba(make(shuffled)), single.predict_proba(rows))
    np.testing.assert_array_equal(
        single.predict_proba(make(shuffled), sensitive_features=rows["sex"]), single.predict_proba(rows)
    )


def test_an_unseen_category_and_a_missing_value_are_taken_as_in_training(single):
    rows = {"age": [30.0, None], "job": ["astronaut", "cook"], "sex": ["f", "m"]}
    q = single.predict_proba(rows)
    assert np.isfinite(q).all()


def test_an_unseen_group_is_an_error_unless_the_model_does_not_look(single, data):
    rows = people(3, seed=8)
    rows["sex"] = np.array(["f", "x", "m"])
    with pytest.raises(InputError, match=r"'x', which is not one of"):
        single.predict_proba(rows)
    with pytest.raises(InputError, match=r"`sex` holds 'x', which is not one of 'f', 'm'"):
        single.predict_proba(rows, sensitive_features=rows["sex"])
    from separatrix import methods
    from separatrix.methods import Lane, Recipe, Sample

    sample, recipe = (Sample(data.X, data.y, data.z, 2, 2), Recipe(hidden=(4,), epochs=1, min_steps=0))
    blind = methods.fit("erm", sample, [Lane(0.0)], recipe=recipe, use_sensitive=False)
    branch = Branch(Base.from_lane("erm", 0.0, blind), DrawnLabel())
    x_only = replace(single, branches=(branch,))
    assert not x_only.uses_groups
    assert x_only.predict_proba(rows).shape == (3, 2)


def test_a_deterministic_part_throws_no_coin(single, fitted):
    branch = Branch(Base.from_lane("cmi", 0.0, fitted, 0), OneThreshold(0.4))
    hard = replace(single, branches=(branch,))
    rows = people(300, seed=9)
    q = single.predict_proba(rows)[:, 1]
    assert not hard.randomized
    expected = np.where(q > 0.4, hard.labels[1], hard.labels[0])
    for keywords in ({"random_state": 0}, {"random_state": None}, {}):
        np.testing.assert_array_equal(hard.predict(rows, **keywords), expected)
    assert hard.counts(rows, rows["pay"]).moments is None  # hard labels count as such


def test_several_sensitive_columns_join_as_in_training(single):
    wide = replace(single, groups=(("f", True), ("m", False)), grouping=None)
    rows = people(4, seed=10)
    frame = pd.DataFrame({"sex": ["f", "m", "m", "f"], "old": [True, False, False, True]})
    assert wide.group_codes(rows, frame, 4).tolist() == [0, 1, 1, 0]


def test_a_matrix_predictor_takes_arrays_and_named_columns(data, fitted):
    branches = (Branch(Base.from_lane("cmi", 0.0, fitted, 0), DrawnLabel()),)
    plain = Predictor((0, 1), (0, 1), branches, features=data.features)
    expected = plain.predict_proba(data.X[:20], sensitive_features=data.z[:20])
    frame = pd.DataFrame(data.X[:20], columns=data.features)[list(reversed(data.features))]
    np.testing.assert_array_equal(plain.predict_proba(frame, sensitive_features=data.z[:20]), expected)
    assert plain.predict(data.X[:20], data.z[:20], random_state=0).dtype.kind == "i"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, r: p.predict_proba({"age": r["age"], "sex": r["sex"]}), "no column 'job'"),
        (lambda p, r: p.predict_proba(np.zeros((5, 4))), "found by name, so an array will not do"),
        (lambda p, r: p.predict(r, ids=[1, 2]), "secret `salt`"),
        (lambda p, r: p.predict(r, ids=[1, 2], salt="short"), "at least 16 bytes, got 5"),
        (lambda p, r: p.predict(r, ids=[1, 2], salt=SALT), "one value per row, 5, got 2"),
        (lambda p, r: p.predict(r, ids=[1, None, 2, 3, 4], salt=SALT), "`ids` is missing in row 1"),
        (lambda p, r: p.predict(r, salt=SALT), "`salt` is for `ids`"),
        (lambda p, r: p.predict_proba(r, sensitive_features=["f"]), "one group per row, 5, got 1"),
        (lambda p, r: replace(p, weights=(0.5, 0.6), branches=p.branches * 2), "sum to one"),
        (
            lambda p, r: replace(p, grouping=None).predict_proba(r),
            "needs the group of every row: pass `sensitive_features`",
        ),
        (lambda p, r: policy_rule("fair", 2), "got 'fair'"),
        (lambda p, r: p.counts(r, ["high"] * 4), "`X` 5, `y` 4"),
        (lambda p, r: p.counts(r, ["rich"] * 5), "`y` holds 'rich'"),
    ],
)
def test_errors(single, call, message):
    with pytest.raises(InputError, match=message):
        call(single, people(5, seed=11))


def test_a_predictor_prints_as_one_line(mixture):
    assert repr(mixture).startswith("<Predictor of 'high', 'low': ")
    assert "with a coin" in repr(mixture)
    assert "\n" not in repr(mixture)
