"""The choice: what ships is never worse than the simplest candidate that keeps the budget."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.objectives import Cost
from separatrix.procedure.candidates import (
    Candidate,
    CandidateTable,
    choose,
    coin_share,
    contributions,
    keeps,
    paired_difference,
)
from separatrix.procedure.promise import Promise, PromiseTable
from separatrix.procedure.request import Request

ASKED = Request.from_arguments(max_eo_gap=0.05)
NAMES = ("plain", "without the group", "group rule")


def candidate(name: str, gap: float, right: np.ndarray, error: float = 0.001) -> Candidate:
    """A candidate with a gap and an accuracy; a rule may be solved for less, and loses by it."""
    found = {"eo_gap": Promise.normal(gap, error), "accuracy": Promise.normal(float(right.mean()), 0.01)}
    one = Candidate(name, PromiseTable(found), right)
    if "rule" not in name:
        return one

    def solve(budgets):
        level = budgets["eo_gap"]
        if level < 0.005:
            raise InfeasibleError("too few rows", {"eo_gap": 0.005}, np.nan)
        return candidate(name, level, np.clip(right - (gap - level), 0, 1), error)

    return replace(one, solve=solve)


@st.composite
def tables(draw):
    n = 400
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    base = rng.random(n) < 0.8
    found = []
    for name in NAMES:
        flip = rng.random(n) < draw(st.floats(0, 0.1))
        gap = 0.05 if name == "group rule" else draw(st.floats(0, 0.3))
        found.append(candidate(name, gap, (base ^ flip).astype(float)))
    return found


@given(tables(), st.booleans())
def test_what_ships_is_never_worse_than_the_simplest_that_keeps_the_budget(candidates, whole):
    """Sentence 2 of the design: on no axis, by more than one standard error of the difference."""
    request = replace(ASKED, use_whole_budget=whole)
    chosen = choose(candidates, request).candidate
    kept = [one for one in candidates if keeps(one, request)]
    assert kept, "the rule of these tables always keeps the budget"
    assert chosen.promise["eo_gap"].value <= 0.05 + 1e-9
    lost = paired_difference(kept[0], chosen)
    assert lost.value <= lost.error + 1e-9
    if not whole:
        assert chosen.promise["eo_gap"].value <= kept[0].promise["eo_gap"].value + 1e-9


def test_ties_go_to_the_simpler_one_whatever_the_order():
    right = np.r_[np.ones(80), np.zeros(20)]
    same = [candidate(name, 0.03, right) for name in reversed(NAMES)]
    found = choose(same, ASKED)
    assert found.candidate.name == "plain"
    assert "already keeps the budget" in found.sentence
    assert "0.030" in found.sentence


def test_an_involved_one_must_beat_the_standard_error_of_the_paired_difference():
    right = np.r_[np.ones(8000), np.zeros(2000)]
    better = right.copy()
    better[8000:8200] = 1.0  # two points on the same rows: error 0.0014
    plain, without = candidate("plain", 0.3, right), candidate("without the group", 0.03, right)
    rule = candidate("group rule", 0.03, better)
    assert choose([plain, without, rule], ASKED).candidate.name == "group rule"
    noisy = candidate("group rule", 0.03, np.random.default_rng(0).permutation(right))
    assert choose([plain, without, noisy], ASKED).candidate.name == "without the group"


def test_the_whole_budget_buys_what_is_best_by_however_little():
    """On an admissions table the rule was better by less than its error, and the budget of 0.1 stayed unused."""
    right = np.r_[np.ones(80), np.zeros(20)]
    better = np.r_[np.zeros(2), np.ones(81), np.zeros(17)]
    without, rule = candidate("without the group", 0.03, right), candidate("group rule", 0.05, better)
    assert not paired_difference(rule, without).clear
    assert choose([without, rule], ASKED).candidate is without
    assert choose([without, rule], replace(ASKED, use_whole_budget=True)).candidate is rule
    assert choose([without, candidate("group rule", 0.05, right)], ASKED).candidate is without


def test_the_sentence_says_what_the_whole_budget_would_buy():
    right = np.r_[np.ones(8000), np.zeros(2000)]
    more = right.copy()
    more[8000:8100] = 1.0
    leave = candidate("without the group", 0.003, right)
    found = choose([candidate("plain", 0.3, right), leave, candidate("group rule", 0.05, more)], ASKED, group="sex")
    assert found.candidate is leave  # the rule cannot be solved for 0.003
    assert "Leave out `sex`" in found.sentence
    assert "0.0100 ± 0.0010" in found.sentence
    whole = replace(ASKED, use_whole_budget=True)
    assert choose([leave, candidate("group rule", 0.05, more)], whole).candidate.name != leave.name


def test_a_gap_of_none_is_said_as_what_these_rows_can_see():
    found = choose([candidate("plain", 7.9e-5, np.ones(9), error=0.022)], ASKED)
    assert "EO gap below 0.044" in found.sentence


def test_the_rule_ships_where_nothing_simpler_keeps_the_budget():
    right = np.r_[np.ones(80), np.zeros(20)]
    rule = candidate("group rule", 0.052, right)  # expected a little above by chance: still the rule
    found = choose([candidate("plain", 0.3, right), rule], ASKED, group="sex")
    assert found.candidate is rule
    assert found.sentence.startswith("You need a rule")
    refused = Candidate.impossible("group rule", InfeasibleError("few rows", {"eo_gap": 0.1}, 0.0))
    with pytest.raises(InfeasibleError, match="few rows"):
        choose([candidate("plain", 0.3, right), refused], ASKED)


def test_a_confidence_asks_for_the_bound_not_the_estimate():
    right = np.ones(100)
    plain = candidate("plain", 0.04, right, error=0.02)
    sure = replace(ASKED, confidence=0.9)
    assert keeps(plain, ASKED)
    assert not keeps(plain, sure)
    rule = candidate("group rule", 0.03, right)
    assert choose([plain, rule], sure).candidate.name == "group rule"


@pytest.mark.parametrize("maximize", ["accuracy", "balanced_accuracy", "utility", Cost({"a": 1, "b": 2}, 5)])
def test_contributions_add_up_to_the_objective(maximize):
    from separatrix.core.measures import METRICS

    rng = np.random.default_rng(1)
    y, z, w = rng.integers(0, 2, 300), rng.integers(0, 2, 300), rng.random(300)
    law = rng.dirichlet([1, 1], 300)
    table = np.zeros((2, 2, 2))
    np.add.at(table, (y, z), w[:, None] * law)
    mean = np.average(contributions(law, y, z, maximize, ("a", "b"), w), weights=w)
    if isinstance(maximize, Cost):
        errors = table[0, :, 1] @ [1, 2] + 5 * table[1, :, 0].sum()
        assert mean == pytest.approx(-errors / w.sum())
    else:
        assert mean == pytest.approx(float(METRICS[maximize].of(table)))
    assert coin_share(law) == 1.0
    assert coin_share(np.eye(2)[y]) == 0.0


def test_promises_and_candidates_pickle_and_render():
    table = PromiseTable({"eo_gap": Promise.normal(0.02, 0.01)})
    again = pickle.loads(pickle.dumps(table))
    assert dict(again) == dict(table)
    assert again["eo_gap"] == Promise(0.02, 0.01, *table["eo_gap"][2:])
    assert table["eo_gap"].low == pytest.approx(0.02 - 1.96 * 0.01, abs=1e-4)
    listed = CandidateTable(
        [Candidate("plain", table), Candidate.impossible("without the group", "no column holds it")],
        ["eo_gap"],
        "plain",
    )
    for shown in (str(listed), listed._repr_html_(), table._repr_html_()):
        assert "0.02" in shown
    assert "not possible: no column" in str(listed)
    assert listed["plain"].possible
    assert listed.to_frame()["ships"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"budgets": {"gap": 0.1}}, "gap"),
        ({"budgets": 0.05}, "0.05"),
        ({"max_eo_gap": -0.1}, "-0.1"),
        ({"max_eo_gap": 0.1, "budgets": {"eo_gap": 0.1}}, "max_eo_gap"),
        ({"maximize": "f1"}, "f1"),
        ({"maximize": "cost"}, "Cost"),
        ({"confidence": 0.9}, "budget"),
        ({"max_eo_gap": 0.1, "confidence": 2}, "confidence"),
        ({"guarantee": "none"}, "none"),
    ],
)
def test_a_bad_request_names_the_value(arguments, said):
    with pytest.raises(InputError, match=said):
        Request.from_arguments(**arguments)


def test_a_budget_implies_its_criterion():
    assert Request.from_arguments(budgets={"parity_gap": 0.05}).criterion == "independence"
    assert str(Request.from_arguments(max_violation=0.01)).endswith("v ≤ 0.01")


def test_a_rule_that_decides_nothing_does_not_replace_a_simpler_one():
    """Solved for the gap of the simpler one, the rule gave everybody one label, which was then refused."""
    right = np.r_[np.ones(8000), np.zeros(2000)]
    better = right.copy()
    better[8000:8500] = 1.0
    constant = SimpleNamespace(tables=np.array([[[[0.0, 5.0]], [[0.0, 3.0]]]]))
    plain = candidate("plain", 0.03, right)
    rule = replace(candidate("group rule", 0.0, better), payload=constant, solve=None)
    assert choose([plain, rule], ASKED).candidate is plain
    assert choose([plain, replace(rule, payload=None)], ASKED).candidate.name == "group rule"
