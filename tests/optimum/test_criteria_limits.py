"""Independence and sufficiency, two labels: exact against brute force on random laws."""

from __future__ import annotations

import numpy as np
import pytest

import separatrix as sx
from separatrix.core.measures import BUDGETS, CRITERIA
from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.law import BlindLaw
from separatrix.optimum.multiclass.column_generation import ColumnSolver
from separatrix.optimum.objectives import Cost, Value
from separatrix.optimum.promised import BlindPromises, Promises
from separatrix.optimum.roc.decisions import RocSolver, group_curves
from separatrix.optimum.roc.regions import roc_curve

AIMS = ("accuracy", "balanced_accuracy", Cost(1, 5), "utility")


def random_law(seed, groups=2, atoms=4):
    """ROC curves of groups whose scores have a few values, and P(Y, Z)."""
    rng = np.random.default_rng(seed)
    mass = rng.dirichlet(np.full(2 * groups, 3.0)).reshape(groups, 2)
    laws = rng.dirichlet(np.ones(atoms), (groups, 2))
    score = np.arange(atoms, dtype=float)
    order = np.argsort(laws[:, 1] / laws[:, 0], axis=1)
    laws = np.take_along_axis(laws, order[:, None], 2)
    curves = tuple(roc_curve(score, law[1] * m[1], law[0] * m[0])
                   for law, m in zip(laws, mass, strict=True))  # fmt: skip
    return curves, mass


def inside(curves, rates):
    """Whether every group's rates lie under its hull and above the diagonal."""
    return all(
        np.all(rates[..., z, 1] <= np.interp(rates[..., z, 0], *c.rates[c.hull].T) + 1e-9)
        and np.all(rates[..., z, 0] <= rates[..., z, 1] + 1e-9)
        for z, c in enumerate(curves)
    )


def region(curve, n):
    """A net of points of a group's region, its hull included."""
    s = np.unique(np.r_[np.linspace(0, 1, n), curve.rates[curve.hull, 0]])
    top = np.interp(s, *curve.rates[curve.hull].T)
    share = np.linspace(0, 1, n)
    return np.stack([np.repeat(s, n), (s[:, None] + (top - s)[:, None] * share).ravel()], 1)


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["independence", "parity_gap", "predictive_gap"])
@pytest.mark.parametrize("seed", range(3))
def test_no_decision_of_a_net_beats_the_bound(budget, seed):
    """All pairs of a net of both groups' regions: none within the budget is above `upper`."""
    curves, mass = random_law(seed)
    nets = [region(curve, 20) for curve in curves]
    pairs = np.stack(np.meshgrid(*(np.arange(len(net)) for net in nets), indexing="ij"), -1)
    i, j = pairs.reshape(-1, 2).T
    rates = np.stack([nets[0][i], nets[1][j]], 1)
    used = BUDGETS[budget].measure(rates, mass)
    levels = RocSolver(curves, mass, budget=budget).least + np.array([0.0, 0.003, 0.03, 0.2])
    for aim in AIMS if budget != "predictive_gap" or seed == 0 else AIMS[:3]:
        best = RocSolver(curves, mass, aim, budget).curve(levels)
        values = Value.from_objective(aim, mass, range(2))(rates)
        assert (BUDGETS[budget].measure(best.rates, mass) <= levels + 1e-9).all()
        assert inside(curves, best.rates)
        np.testing.assert_allclose(best.values, Value.from_objective(aim, mass, range(2))(best.rates))
        assert (best.upper - best.values).max() < (1e-2 if aim == "utility" else 2e-4)
        for level, upper in zip(levels, best.upper, strict=True):
            within = used <= level
            if within.any():
                assert values[within].max() <= upper + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_exact_sufficiency_is_the_search_over_two_predictive_values(seed):
    """r_z = (π_z − b)/(a − b), feasible iff (r_z, a r_z) is below the group's curve."""
    curves, mass = random_law(seed, atoms=5)
    solver = RocSolver(curves, mass, budget="predictive_gap", tolerance=1e-5)
    if solver.least > 0:
        pytest.skip("no decision of this law is exactly sufficient")
    best = solver.curve(np.zeros(1))
    weight, base = mass.sum(1), mass[:, 1] / mass.sum(1)
    a, b = np.meshgrid(np.linspace(base.max(), 1, 700), np.linspace(0, base.min(), 700))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = weight[:, None, None] * (base[:, None, None] - b) / (a - b)
        x = np.stack([share * (1 - a) / mass[:, :1, None], share * a / mass[:, 1:, None]])
        below = [x[1, z] <= np.interp(x[0, z], *c.rates[c.hull].T) for z, c in enumerate(curves)]
    right = (mass[:, 1, None, None] * x[1] + mass[:, 0, None, None] * (1 - x[0])).sum(0)
    right = np.where(np.all(below, axis=0) & np.isfinite(right), right, -np.inf)
    assert right.max() <= best.upper[0] + 1e-9
    assert best.values[0] >= right.max() - 1e-5
    assert best.values[0] <= right.max() + 5e-3  # the grid is coarse


@pytest.mark.parametrize("seed", range(4))
def test_independence_is_a_search_over_the_common_share(seed):
    """At level 0 every group accepts the same share: the best of a fine grid of shares."""
    curves, mass = random_law(seed, groups=3)
    best = RocSolver(curves, mass, budget="independence").curve(np.zeros(1))
    same = RocSolver(curves, mass, budget="parity_gap").curve(np.zeros(1))
    shares = np.linspace(0, 1, 20_001)
    right = np.zeros(len(shares))
    for curve, m in zip(curves, mass, strict=True):
        chain = curve.rates[curve.hull]
        at = chain @ m / m.sum()
        right += np.interp(shares, at, chain @ (m * [-1, 1])) + m[0]
    assert best.values[0] == pytest.approx(right.max(), abs=1e-4)
    assert best.values[0] >= right.max() - 1e-12
    assert same.values[0] == pytest.approx(best.values[0], abs=1e-8)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 6_000
    z = rng.choice(["a", "b"], n, p=[0.4, 0.6])
    y = (rng.random(n) < np.where(z == "a", 0.25, 0.5)).astype(int)
    return y, z, 1 / (1 + np.exp(-rng.normal(size=n) - 2 * y + 1))


@pytest.mark.parametrize(
    ("criterion", "budget"),
    [("independence", None), ("independence", "parity_gap"), ("sufficiency", None),
     ("equal_opportunity", None)],
)  # fmt: skip
def test_the_rule_shows_on_its_rows_what_the_limit_says(people, criterion, budget):
    y, z, s = people
    best = sx.limit(y, s, sensitive_features=z, maximize="accuracy", criterion=criterion,
                    budget=budget, levels=[0.02])  # fmt: skip
    a = sx.audit(y, best.rule(0.02).predict_proba(s, sensitive_features=z), sensitive_features=z)
    kind = CRITERIA[criterion]
    used = kind.information(a.table.counts) if best.budget == "independence" else None
    used = kind.gap(a.table.counts) if used is None else used
    assert used <= 0.02 + 1e-9
    assert a.accuracy == pytest.approx(best.values[0], abs=1e-9)
    assert "at most" in str(best)


def test_a_decision_that_is_the_group_is_sufficient():
    """Y ⟂ Z | U holds where U = Z: scores that say nothing, two groups of other base rates."""
    y = np.tile([0, 0, 0, 1, 0, 1, 1, 1], 50)
    z = np.tile(np.repeat(["a", "b"], 4), 50)
    best = sx.limit(y, np.zeros(400), sensitive_features=z, criterion="sufficiency",
                    maximize="accuracy", levels=[0.0])  # fmt: skip
    assert best.rates[0, ..., 1].T.tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert best.values[0] == pytest.approx(0.75)


@pytest.mark.slow
def test_where_scores_say_nothing_three_base_rates_cannot_be_sufficient():
    """Two decisions have two predictive values; the closest two groups share one."""
    y = np.tile([0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1], 50)
    z = np.tile(np.repeat(["a", "b", "c"], 4), 50)
    how = {"sensitive_features": z, "criterion": "sufficiency", "maximize": "accuracy"}
    with pytest.raises(InfeasibleError, match=r"smallest difference is 0\.25") as refused:
        sx.limit(y, np.zeros(600), **how, levels=[0.1])
    assert refused.value.smallest["predictive_gap"] == pytest.approx(0.25, abs=2e-4)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"criterion": "fair"}, "`criterion` must be one of"),
        ({"criterion": "independence", "budget": "eo_gap"}, "belongs to separation"),
        ({"criterion": "sufficiency", "budget": "parity_gap"}, "pass 'predictive_gap'"),
    ],
)
def test_a_budget_of_another_criterion_is_refused(people, given, what):
    y, z, s = people
    with pytest.raises(InputError, match=what):
        sx.limit(y, s, sensitive_features=z, **given)


def test_three_labels_know_separation_only():
    rng = np.random.default_rng(0)
    y, z, p = rng.integers(0, 3, 300), rng.integers(0, 2, 300), rng.dirichlet(np.ones(3), 300)
    with pytest.raises(InputError, match="needs two labels"):
        sx.limit(y, p, sensitive_features=z, criterion="independence", maximize="accuracy")


@pytest.mark.nightly
@pytest.mark.parametrize(("budget", "asked"), [("parity_gap", 0.05), ("predictive_gap", 0.06)])
def test_promised_budgets_are_kept_in_the_population_on_average(budget, asked):
    """Rules of 3,000 rows, measured on a population: its mean gap is at most what was asked."""
    rng = np.random.default_rng(3)

    def draw(n):
        z = (rng.random(n) < 0.4).astype(int)
        y = (rng.random(n) < np.where(z, 0.2, 0.5)).astype(int)
        return y, z, 1 / (1 + np.exp(-rng.normal(size=n) - (2 * y - 1)))

    y, z, s = draw(100_000)
    q, naive = np.stack([1 - s, s], 1), []
    found = []
    for _ in range(10):
        own = draw(3_000)
        best = Promises(np.stack([1 - own[2], own[2]], 1), own[0], own[1], np.ones(3_000), (0, 1),
                        budget=budget)  # fmt: skip
        for promised, kept in ((True, found), (False, naive)):
            rule = best.rule(asked, promised=promised).rule
            decided = rule.predict_proba(q, sensitive_features=z)
            counts = np.zeros((2, 2, 2))
            np.add.at(counts, (y, z), decided)
            kept.append(float(CRITERIA[BUDGETS[budget].criterion].gap(counts)))
    error = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) <= asked + 2 * error
    assert np.mean(found) < np.mean(naive)  # the margin does something


def test_blind_parity_is_kept_on_the_rows_and_below_the_aware_limit():
    rng = np.random.default_rng(4)
    n = 3_000
    z, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    q = np.exp(rng.normal(size=(n, 2, 2)))
    q[np.arange(n), y, z] *= 4
    q /= q.sum((1, 2), keepdims=True)
    for budget, level in (("parity_gap", 0.02), ("independence", 1e-3)):
        blind = BlindPromises(q, y, z, np.ones(n), (0, 1), budget=budget)
        point = blind.point(level)
        used = BUDGETS[budget].measure(point.rates[..., 1].T, blind._law.mass.T)
        assert used <= level + 1e-6
        law = BlindLaw(q, np.ones(n))
        best = ColumnSolver(law, (0, 1), "accuracy", budget).point(level)
        assert 0.0 <= best.upper - best.value < 1e-3
        assert blind.rule(0.05).expected <= 0.05


def test_curves_of_any_objective_rise_with_the_budget(people):
    y, z, s = people
    curves, mass = group_curves(s, y, (z == "b").astype(int), np.ones(len(y)), 2)
    for budget in ("independence", "parity_gap", "predictive_gap"):
        solver = RocSolver(curves, mass, "accuracy", budget)
        found = solver.curve(solver.least + np.array([0.0, 0.01, 0.1]))
        assert (np.diff(found.values) >= 0).all()
        assert (found.upper >= found.values).all()
