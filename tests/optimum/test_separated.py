"""The universal separated score: exact, nested, and better than every separated prediction."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.errors import InputError
from separatrix.optimum.limit import limit
from separatrix.optimum.objectives import Cost
from separatrix.optimum.roc.regions import lower_curve, roc_curve
from separatrix.optimum.scores.garbling import arc_kernel, rising_kernel
from separatrix.optimum.scores.separated import SeparatedScore, best_cuts, separate


def small_law(seed, groups=2, atoms=4):
    """The atoms (score, y, z) of a random small law with their weights, as rows.

    The score is the posterior of the atom in its group, so that no rule needs a lower one more.
    """
    rng = np.random.default_rng(seed)
    w = rng.exponential(size=(atoms, 2, groups)) * (rng.random((atoms, 2, groups)) < 0.85) + 1e-3
    w[0, 0], w[-1, 1] = w[0, 0] + 0.1, w[-1, 1] + 0.1  # every group has both labels
    posterior = np.round(w[:, 1] / w.sum(1), 3)[:, None].repeat(2, axis=1)
    _, y, z = (axis.ravel() for axis in np.indices(w.shape))
    return posterior.ravel(), y, z, w.ravel()


def rows(seed, n=3000, groups=3, digits=1):
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, groups, n), (rng.random(n) < 0.35).astype(int)
    s = rng.normal(size=n) + y * (0.6 + 0.5 * z) + 0.3 * z
    return np.round(s, digits), y, z


def table_of(q, y, z, w=None):
    table = np.zeros((2, z.max() + 1, q.shape[1]))
    np.add.at(table, (y, z), q if w is None else q * w[:, None])
    return table


def area(table):
    """AUROC of the last axis in its order, by counting pairs."""
    negative, positive = table.sum(1)
    pairs = np.triu(np.ones((len(negative),) * 2), 1) + 0.5 * np.eye(len(negative))
    return negative @ pairs @ positive / (negative.sum() * positive.sum())


@pytest.mark.parametrize("groups", [1, 2, 3, 6, 10])
def test_level_probabilities_are_exactly_separated(groups):
    for seed in range(4):
        s, y, z = rows(seed, 1500, groups, digits=seed)  # few atoms with many ties, up to none
        w = np.random.default_rng(seed).exponential(size=len(y)) if seed % 2 else None
        score = separate(y, s, sensitive_features=z, sample_weight=w)
        q = score.level_proba(s, sensitive_features=z)
        np.testing.assert_allclose(q.sum(1), 1.0, atol=1e-12)
        assert q.min() >= 0.0
        table = table_of(q, y, z, w)
        assert conditional_mutual_information(table) <= 1e-12
        rates = table / table.sum(-1, keepdims=True)
        assert np.ptp(rates, axis=1).max() < 1e-12
        np.testing.assert_allclose(table.sum(1)[1] / table.sum((0, 1)), score.levels, rtol=1e-9)
        assert (np.diff(score.levels) > 0).all()
        assert score.auroc == pytest.approx(area(table), abs=1e-12)
        assert score.utility == pytest.approx(float(mutual_information(table)), abs=1e-12)


@pytest.mark.slow
def test_kernels_have_the_asked_margins_and_rise_on_random_chains():
    rng = np.random.default_rng(0)
    for _ in range(120):
        chains = []
        for _ in range(rng.integers(1, 6)):
            k = rng.integers(2, 12)
            positive, negative = rng.integers(0, 4, (2, k)).astype(float)
            positive[-1] += 1.0
            negative[0] += 1.0
            curve = roc_curve(np.arange(k) * 1.0, positive, negative)
            chains.append(curve.rates[curve.hull])
        lower = lower_curve(chains)
        edges = np.diff(lower, axis=0)
        assert (np.diff(edges[:, 1] / edges.sum(1)) < 0).all()
        x = np.linspace(0.01, 1.0, 200)
        heights = [np.interp(x, *chain[chain[:, 0].searchsorted(0, "right") - 1 :].T) for chain in chains]
        here = np.interp(x, *lower[lower[:, 0].searchsorted(0, "right") - 1 :].T)
        np.testing.assert_allclose(here, np.min(heights, axis=0), atol=1e-13)
        for chain in chains:
            step = np.diff(chain, axis=0)
            for kernel in (arc_kernel(step, edges), rising_kernel(step, edges)):
                np.testing.assert_allclose(kernel.T @ step, edges, atol=1e-14)
                np.testing.assert_allclose(kernel.sum(1), 1.0, atol=1e-14)
                assert kernel.min() >= 0.0
            chance = np.cumsum(kernel, axis=1)  # of one of the highest levels, by bin
            assert np.diff(chance, axis=0).max(initial=0.0) < 1e-5


def best_separated(s, y, z, w, gain, values):
    """Brute force: the best separated prediction with `values` values for a linear gain[y, value].

    A linear programme over all kernels P(u | score, z), with equal rates in all groups.
    """
    cells = sorted(set(zip(s.tolist(), z.tolist(), strict=True)))
    place = {cell: i for i, cell in enumerate(cells)}
    mass = np.zeros((len(cells), 2))
    np.add.at(mass, ([place[c] for c in zip(s.tolist(), z.tolist(), strict=True)], y), w)
    total = np.zeros((z.max() + 1, 2))
    np.add.at(total, (z, y), w)
    n = len(cells) * values
    cost = -(mass @ gain).ravel()
    equal, right = [], []
    for i in range(len(cells)):
        row = np.zeros((len(cells), values))
        row[i] = 1.0
        equal.append(row.ravel())
        right.append(1.0)
    for label, group, value in product(range(2), range(1, z.max() + 1), range(values)):
        row = np.zeros((len(cells), values))
        for (_, own), i in place.items():
            if own in (0, group):
                sign = 1.0 if own == group else -1.0
                row[i, value] = sign * mass[i, label] / total[own, label]
        equal.append(row.ravel())
        right.append(0.0)
    found = linprog(cost, A_eq=np.array(equal), b_eq=right, bounds=[(0, 1)] * n)
    return -found.fun / w.sum()


@pytest.mark.parametrize("seed", range(8))
def test_no_separated_decision_is_cheaper_than_a_threshold_of_the_score(seed):
    """Blackwell, for any costs: against a linear programme over all separated decisions."""
    s, y, z, w = small_law(seed, groups=2 + seed % 3)
    score = separate(y, s, sensitive_features=z, sample_weight=w)
    for fp, fn in ((1, 1), (1, 5), (5, 1), (1, 0.3), (0.0, 1)):
        rule = score.threshold(Cost(false_positive=fp, false_negative=fn))
        q = rule.predict_proba(s, sensitive_features=z)[:, 1]
        own = -(w * np.where(y == 1, fn * (1 - q), fp * q)).sum() / w.sum()
        gain = np.array([[0.0, -fp], [-fn, 0.0]])
        assert own == pytest.approx(best_separated(s, y, z, w, gain, 2), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_no_separated_prediction_has_a_larger_auroc_or_utility(seed):
    """Random linear gains sweep the extreme separated predictions with three values."""
    s, y, z, w = small_law(100 + seed)
    score = separate(y, s, sensitive_features=z, sample_weight=w)
    rng = np.random.default_rng(seed)
    for _ in range(30):
        gain = rng.normal(size=(2, 3))
        own = np.maximum.reduce(  # the best garbling of S for this gain: a value for every level
            [(score.table.sum(1).T @ gain)[:, u] for u in range(3)]
        ).sum()
        assert own >= best_separated(s, y, z, w, gain, 3) - 1e-9


def test_auroc_is_the_area_under_the_smallest_of_the_groups_curves():
    s, y, z = rows(3, 2000, 3)
    score = separate(y, s, sensitive_features=z)
    x = np.linspace(0, 1, 20_001)
    heights = []
    for g in range(3):
        curve = roc_curve(s[z == g], (y[z == g] == 1) * 1.0, (y[z == g] == 0) * 1.0)
        chain = curve.rates[curve.hull]
        heights.append(np.interp(x, *chain[int(chain[1, 0] == 0) :].T))
    assert score.auroc == pytest.approx(float(np.trapezoid(np.min(heights, 0), x)), abs=1e-6)


def test_a_higher_score_never_has_a_worse_chance():
    """P(S ≥ level | score, group) rises with the score: for every level, in every group."""
    for digits in (1, 3):
        s, y, z = rows(7, 4000, 4, digits)
        score = separate(y, s, sensitive_features=z)
        for g in range(4):
            grid = np.linspace(-4, 8, 300)
            q = score.level_proba(grid, sensitive_features=np.full(300, g))
            assert np.diff(np.cumsum(q, axis=1), axis=0).max() < 1e-5


def test_thresholds_of_one_score_are_nested_decisions():
    s, y, z = rows(0)
    score = separate(y, s, sensitive_features=z)
    q = [score.threshold(Cost(1.0, c)).predict_proba(s, sensitive_features=z)[:, 1] for c in (0.2, 1.0, 3.0, 10.0)]
    assert all((a <= b + 1e-15).all() for a, b in pairwise(q))


def test_two_levels_have_the_utility_of_the_certified_limit_at_zero_violation():
    for seed in range(3):
        s, y, z = rows(seed, groups=2 + seed)
        two = separate(y, s, sensitive_features=z, levels=2)
        best = limit(y, s, sensitive_features=z, points=5).solution(0.0)
        assert two.utility == pytest.approx(best.value, abs=6e-5)
        assert two.violation < 1e-12
        assert len(two.levels) == 2


def test_the_best_k_levels_agree_with_trying_all_cuts():
    rng = np.random.default_rng(0)
    for _ in range(10):
        step = rng.dirichlet(np.ones(7), 2).T
        step = step[np.argsort(-step[:, 1] / step.sum(1))]
        vertices = np.concatenate([np.zeros((1, 2)), np.cumsum(step, axis=0)])
        prior = rng.dirichlet([2, 2])

        def utility(cuts, vertices=vertices, prior=prior):
            return float(mutual_information((np.diff(vertices[list(cuts)], axis=0) * prior).T[:, None]))

        for k in (1, 2, 3, 5):
            best = max(utility((0, *inner, 7)) for inner in combinations(range(1, 7), k - 1))
            assert utility(best_cuts(vertices, prior, k)) == pytest.approx(best, abs=1e-12)


def test_drawn_levels_follow_the_level_probabilities():
    s, y, z = rows(1, 300)
    score = separate(y, s, sensitive_features=z)
    q = score.level_proba(s, sensitive_features=z)
    seen = np.zeros_like(q)
    for seed in range(400):
        drawn = score.transform(s, sensitive_features=z, random_state=seed)
        seen[np.arange(len(s)), np.searchsorted(score.levels, drawn)] += 1 / 400
    assert seen[q == 0].max() == 0.0
    assert np.abs(seen - q).max() < 5.5 * 0.5 / 20


def test_one_row_requests_do_not_share_one_coin():
    """One coin for all of them would always draw the same level."""
    s, y, z = rows(1, 300)
    score = separate(y, s, sensitive_features=z)
    row = int(score.level_proba(s, sensitive_features=z).max(1).argmin())
    person = {"scores": s[[row]], "sensitive_features": z[[row]]}
    assert len({float(score.transform(**person)[0]) for _ in range(200)}) > 1


def test_a_persons_draw_depends_on_the_identity_alone():
    s, y, z = rows(1, 400)
    score = separate(y, s, sensitive_features=z)
    salt, ids = "a secret of the operator", np.arange(400)
    drawn = score.transform(s, sensitive_features=z, ids=ids, salt=salt)
    back = score.transform(s[::-1], sensitive_features=z[::-1], ids=ids[::-1], salt=salt)
    np.testing.assert_array_equal(drawn, back[::-1])


def test_arrays_restore_the_score():
    s, y, z = rows(2)
    score = separate(y, s, sensitive_features=z)
    arrays = score.arrays()
    assert all(a.dtype == np.float64 for a in arrays.values())
    again = SeparatedScore.from_arrays(score.groups, arrays)
    np.testing.assert_array_equal(
        again.level_proba(s, sensitive_features=z), score.level_proba(s, sensitive_features=z)
    )
    assert again.auroc == score.auroc


def test_a_group_without_a_label_is_left_out_and_still_separated():
    s, y, z = rows(4)
    y[z == 2] = 0
    score = separate(y, s, sensitive_features=z)
    without = separate(y[z < 2], s[z < 2], sensitive_features=z[z < 2])
    assert score.auroc == pytest.approx(without.auroc, abs=1e-12)
    assert score.violation < 1e-12
    q = score.level_proba(s[z == 2], sensitive_features=z[z == 2])
    assert np.ptp(q, axis=0).max() == 0.0  # whatever the score


def test_where_no_group_has_both_labels_nothing_is_left_to_separate():
    score = separate([0, 1, 1], [0.2, 0.7, 0.1], sensitive_features=["a", "b", "b"])
    assert score.auroc == 1.0
    assert score.violation == 0.0


def test_useless_scores_give_one_level():
    _, y, z = rows(5)
    score = separate(y, np.zeros(len(y)), sensitive_features=z)
    assert len(score.levels) == 1
    assert score.auroc == 0.5
    assert score.levels[0] == pytest.approx(y.mean())


@pytest.mark.slow
def test_relaxed_scores_rise_from_exact_separation_to_the_likelihood_ratio():
    s, y, z = rows(6, 1000, groups=2)
    path = [separate(y, s, sensitive_features=z, penalty=b) for b in (None, 100.0, 5, 1, 0.0)]
    v, a = (np.array([getattr(S, name) for S in path]) for name in ("violation", "auroc"))
    assert v[0] < 1e-12
    assert (np.diff(v) > 0).all()
    assert (np.diff(a) > -1e-9).all()
    assert a[0] == pytest.approx(separate(y, s, sensitive_features=z).auroc)
    posterior = np.empty(len(y))  # of the group's hull: the best that (score, group) can rank
    for g in range(2):
        one = separate(y[z == g], s[z == g], sensitive_features=z[z == g])
        posterior[z == g] = one.level_proba(s[z == g], sensitive_features=z[z == g]) @ one.levels
    levels = np.unique(posterior, return_inverse=True)[1]
    assert a[-1] == pytest.approx(area(table_of(np.eye(levels.max() + 1)[levels], y, z)), abs=1e-9)


@pytest.mark.nightly
def test_relaxed_scores_are_as_good_as_a_search_from_random_starts():
    """Independent oracle: BFGS on softmax kernels with three levels, from six random starts."""
    s, y, z, w = small_law(11, groups=2, atoms=3)
    cells = np.unique(z + s / 2, return_inverse=True)[1]
    mass = np.zeros((2, 2, cells.max() + 1))
    np.add.at(mass, (y, z, cells), w / w.sum())
    rng = np.random.default_rng(0)
    for penalty in (0.3, 10.0):
        found = separate(y, s, sensitive_features=z, sample_weight=w, penalty=penalty)

        def loss(theta, penalty=penalty):
            k = np.exp(theta.reshape(-1, 3) - theta.max())
            table = mass @ (k / k.sum(1, keepdims=True))
            expected = table.sum(2, keepdims=True) * table.sum(1, keepdims=True)
            v = (table * np.log(table * table.sum((1, 2), keepdims=True) / expected)).sum()
            return penalty * v - area(table)

        starts = rng.normal(size=(5, 3 * (cells.max() + 1)))
        best = -min(minimize(loss, start, options={"maxiter": 60}).fun for start in starts)
        assert found.auroc - penalty * found.violation >= best - 1e-5


def test_borrowing_helps_small_groups_that_are_alike():
    """Population violation of scores fitted on six groups of 120 to 1,200 rows, by simulation."""
    share = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])

    def law(n, seed):
        rng = np.random.default_rng(seed)
        z = rng.choice(6, n, p=share)
        base = np.linspace(0.15, 0.4, 6)[z]
        y = (rng.random(n) < base).astype(int)
        odds = rng.normal(size=n) * np.sqrt(2) + 2 * y - 1 + np.log(base / (1 - base))
        return 1 / (1 + np.exp(-odds)), y, z

    s, y, z = law(60_000, 99)
    found = np.zeros(2)
    for seed in range(3):
        own, label, group = law(3000, seed)
        for i, borrow in enumerate((False, True)):
            score = separate(label, own, sensitive_features=group, levels=15, borrow=borrow)
            q = score.level_proba(s, sensitive_features=z)
            found[i] += float(conditional_mutual_information(table_of(q, y, z)))
    assert found[1] < 0.8 * found[0]


def test_bad_input_is_refused_with_advice():
    s, y, z = rows(0, 50)
    with pytest.raises(InputError, match="two labels"):
        separate(np.arange(50) % 3, s, sensitive_features=z)
    with pytest.raises(InputError, match="penalty"):
        separate(y, s, sensitive_features=z, penalty=-1)
    with pytest.raises(InputError, match="levels"):
        separate(y, s, sensitive_features=z, levels=0)
    with pytest.raises(InputError, match="probabilities"):
        separate(y, s, sensitive_features=z, borrow=True)
    with pytest.raises(InputError, match="not one of"):
        separate(y, s, sensitive_features=z).transform([0.1], sensitive_features=[7])
