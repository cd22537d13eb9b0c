"""Nothing ships whose promise is above its budget."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.simulations.distributions import DISTRIBUTIONS

from separatrix.crossfit.out_of_fold import NestedScores
from separatrix.errors import InfeasibleError
from separatrix.procedure.candidates import candidates
from separatrix.procedure.procedures import Rows
from separatrix.procedure.promise import Run, tightened
from separatrix.procedure.request import Request


def evidence(name, seed):
    distribution = DISTRIBUTIONS[name]
    scores, y, z = distribution.sample((3, seed))
    fold = np.arange(len(y)) % 3
    rows = Rows(y, z, (0, 1), tuple(range(len(distribution.share))))
    held_out = NestedScores.from_out_of_fold(fold, scores)
    return rows, lambda _, procedure: Run(procedure, held_out, rows).measured()


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("asked", [0.02, 0.06, 0.15])
def test_a_rule_promises_what_was_asked_or_names_a_budget_that_succeeds(asked, confidence):
    rows, measure = evidence("label noise in one group", 0)

    def ask(level):
        request = Request.from_arguments(max_eo_gap=level, confidence=confidence)
        (found,) = candidates({"group rule": ""}, measure, rows, request)
        return found

    found = ask(asked)
    if not found.possible:
        smallest = found.refusal.smallest["eo_gap"]
        assert smallest > asked
        asked, found = smallest, ask(smallest)
    assert found.possible
    promise = found.promise["eo_gap"]
    assert promise.value <= asked + 1e-9
    assert promise.low <= promise.value <= promise.high
    assert promise.error > 0


def test_a_promise_above_its_budget_is_tightened_as_far_as_needed():
    """Each rule promises a fifth more than it was solved for."""
    solved = []

    def solve(budgets):
        solved.append(budgets["eo_gap"])
        return budgets["eo_gap"]

    found = tightened(solve, lambda b: {"eo_gap": 1.2 * b}, {"eo_gap": 0.06})
    assert 0.03 < found <= 0.05
    assert solved[0] == 0.06
    assert len(solved) < 7


def test_the_strictest_rule_is_tried_before_a_budget_is_refused():
    def solve(budgets):
        if budgets["eo_gap"] < 0.03:
            raise InfeasibleError("too few", {"eo_gap": 0.03}, float("nan"))
        return budgets["eo_gap"]

    def used(level):
        return {"eo_gap": level + 0.02}

    assert tightened(solve, used, {"eo_gap": 0.05}) == pytest.approx(0.03)
    with pytest.raises(InfeasibleError) as refused:
        tightened(solve, used, {"eo_gap": 0.04})
    smallest = refused.value.smallest
    assert smallest["eo_gap"] == pytest.approx(0.05)
    assert tightened(solve, used, smallest) == pytest.approx(0.03)
