"""`limit` for every objective and budget: its rules do what the curve says."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import separatrix as sx
from separatrix.core.information import accuracy, conditional_mutual_information, eo_gap
from separatrix.core.measures import BUDGETS
from separatrix.errors import InputError
from separatrix.optimum.objectives import Cost
from separatrix.optimum.roc.regions import Regions
from separatrix.optimum.rules import ThresholdChannel


def rows(seed: int, n: int = 2000, groups: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, groups, n), (rng.random(n) < 0.4).astype(int)
    s = rng.normal(size=n) + y * (0.5 + 0.4 * z) + 0.2 * z
    return y, 1 / (1 + np.exp(-s)), z


def counted(q: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """N[y, z, u] of posteriors."""
    return np.einsum("ny,nz,nu->yzu", np.eye(2)[y], np.eye(z.max() + 1)[z], q)


def rates(q: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.array([[q[(y == k) & (z == g), 1].mean() for k in (0, 1)] for g in np.unique(z)])


@pytest.mark.slow
@pytest.mark.parametrize("budget", [name for name in BUDGETS if name != "predictive_gap"])
@pytest.mark.parametrize("maximize", ["utility", "accuracy", Cost(1, 3)], ids=str)
def test_the_rule_for_a_level_spends_no_more_and_gains_what_the_curve_says(maximize, budget):
    """Any level, not only those of the grid; the budget is recounted from the rule's own rows."""
    y, s, z = rows(0)
    best = sx.limit(y, s, sensitive_features=z, maximize=maximize, budget=budget, points=3)
    for level in (0.0, 0.0123):
        q = best.rule(level).predict_proba(s, sensitive_features=z)
        x, table = rates(q, y, z), counted(q, y, z)
        widths = np.ptp(x, axis=0)
        shares = [q[z == g, 1].mean() for g in np.unique(z)]
        used = {
            "violation": conditional_mutual_information(table), "eo_gap": eo_gap(table),
            "eo_max": widths.max(), "tpr_gap": widths[1], "fpr_gap": widths[0],
            "independence": conditional_mutual_information(table.sum(0, keepdims=True)),
            "parity_gap": np.ptp(shares), "impact_gap": 1 - min(shares) / max(shares),
        }[budget]  # fmt: skip
        assert used <= level + 1e-9
        solved = best.solver.curve(np.array([level]))
        if maximize == "accuracy":
            assert accuracy(table) == pytest.approx(solved.values[0], abs=1e-9)
        if isinstance(maximize, Cost):
            errors = q[y == 0, 1].sum() + 3 * q[y == 1, 0].sum()
            assert -errors / len(y) == pytest.approx(solved.values[0], abs=1e-9)
        assert solved.upper[0] - solved.values[0] < 1e-4


def test_costs_by_group_name_and_asked_levels():
    y, s, z = rows(1)
    names = np.array(["a", "b", "c"])[z]
    cost = Cost({"a": 1.0, "b": 2.0, "c": 1.0}, 1.0)
    best = sx.limit(y, s, sensitive_features=names, maximize=cost, budget="eo_max", levels=[0.1, 0.0])
    assert best.levels.tolist() == [0.0, 0.1]
    assert best.gap < 1e-9
    q = best.rule(0.1).predict_proba(s, sensitive_features=names)
    paid = np.where(y == 1, q[:, 0], q[:, 1] * np.where(names == "b", 2.0, 1.0)).mean()
    assert -paid == pytest.approx(best.values[1], abs=1e-9)


def test_rules_survive_their_arrays():
    y, s, z = rows(2)
    rule = sx.limit(y, s, sensitive_features=z, maximize="accuracy", budget="eo_gap").rule(0.02)
    again = ThresholdChannel.from_arrays(rule.groups, rule.arrays())
    a, b = (r.predict_proba(s, sensitive_features=z) for r in (rule, again))
    np.testing.assert_array_equal(a, b)


def test_the_result_is_shown_in_the_users_terms():
    y, s, z = rows(3)
    best = sx.limit(y, s, sensitive_features=z, maximize="accuracy", budget="eo_gap", points=5)
    text = str(best)
    for words in ("any binary decision", "EO gap at most", "accuracy", "FPR", "TPR"):
        assert words in text
    assert best._repr_html_().count("<tr>") == 6
    ax = best.plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("EO gap at most", "accuracy")
    assert (best.violation >= 0).all()
    assert (best.utility > 0).any()


@pytest.mark.parametrize("budget", ["violation", "eo_gap"])
def test_the_limit_of_a_table_is_that_of_the_score_rounded_down(budget):
    y, s, z = rows(4)
    table = pl.DataFrame({"y": y, "z": z, "s": s})
    options = {"maximize": "accuracy", "budget": budget, "levels": [0.0, 0.01, 0.1]}
    named = {"target": "y", "sensitive_features": "z", "score": "s"}
    found = sx.limit(table.lazy(), **named, bins=64, **options)
    expected = sx.limit(y, np.floor(s * 64) / 64, sensitive_features=z, **options)
    np.testing.assert_allclose(found.values, expected.values, atol=2e-6)
    q = found.rule(0.01).predict_proba(s, sensitive_features=z)  # thresholds are edges of bins
    assert accuracy(counted(q, y, z)) == pytest.approx(found.values[1])


def test_a_table_with_three_labels_is_refused():
    table = pl.DataFrame({"y": [0, 1, 2], "z": [0, 0, 1], "s": [0.1, 0.2, 0.3]})
    named = {"target": "y", "sensitive_features": "z", "score": "s"}
    for data in (table.lazy(), table):
        with pytest.raises(InputError, match="label"):
            sx.limit(data, **named)


@pytest.mark.slow
def test_thirty_rows_in_three_groups_take_a_bounded_number_of_steps(monkeypatch):
    """Two of three groups have scores that say nothing, so the best separated rule is a constant,
    and what is left to cut off close to it is not asked for again and again.
    """
    steps, start = [0], Regions._on_chain

    def counted(self, xi, z):
        steps[0] += 1
        return start(self, xi, z)

    monkeypatch.setattr(Regions, "_on_chain", counted)
    rng = np.random.default_rng(1)
    z, y = np.arange(30) % 3, rng.integers(0, 2, 30)
    best = sx.limit(y, rng.random(30), sensitive_features=z)
    assert best.gap < 1e-4
    assert steps[0] < 2500


@pytest.mark.nightly
def test_no_random_thresholds_beat_the_bound_for_six_groups():
    y, s, z = rows(5, n=6000, groups=6)
    best = sx.limit(y, s, sensitive_features=z, levels=[1e-3])
    rng = np.random.default_rng(0)
    found = 0.0
    for _ in range(300):
        cut = rng.normal(0.5, 0.15) + rng.normal(0, 0.03, 6)
        table = counted(np.eye(2)[(s >= cut[z]).astype(int)], y, z)
        if conditional_mutual_information(table) <= 1e-3:
            found = max(found, float(sx.theory.mutual_information(table)))
    assert 0 < found <= best.upper[0]


@pytest.mark.parametrize("budget", ["eo", "v"])
def test_unknown_names_are_refused(budget):
    y, s, z = rows(6, n=50)
    with pytest.raises(InputError, match="`budget` must be one of"):
        sx.limit(y, s, sensitive_features=z, budget=budget)
    with pytest.raises(InputError, match="`maximize` must be"):
        sx.limit(y, s, sensitive_features=z, maximize=np.eye(2))
