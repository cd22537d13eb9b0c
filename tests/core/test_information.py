"""The theorems of sections 2 and 3, stated on random laws, and agreement with dit and
scikit-learn.
"""

from __future__ import annotations

import dit
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from separatrix.core import information as info
from separatrix.errors import InputError
from strategies import channels, count_tables

seeds = st.integers(0, 2**32 - 1)


def law(table: np.ndarray) -> np.ndarray:
    return table / table.sum()


@given(count_tables())
def test_violation_and_utility_are_not_negative_and_within_their_bounds(table):
    u, v = info.mutual_information(table), info.conditional_mutual_information(table)
    assert 0 <= u <= info.entropy(table.sum((1, 2))) + 1e-12
    assert 0 <= v <= info.violation_ceiling(table) + 1e-12


@given(count_tables())
def test_budget_identity(table):
    """Lemma "budget identity": u + v = I(U; (Y, Z)); the chain rule of mutual information."""
    total = info.mutual_information(table.reshape(-1, 1, table.shape[-1]))  # (y, z) as one label
    parts = info.mutual_information(table) + info.conditional_mutual_information(table)
    assert parts == pytest.approx(total, abs=1e-12)


@given(count_tables())
def test_violation_is_the_difference_of_entropies(table):
    p = law(table)
    by_entropies = (
        info.entropy(p.sum(1), 2) + info.entropy(p.sum(2), 2) - info.entropy(p, 3) - info.entropy(p.sum((1, 2)), 1)
    )
    assert info.conditional_mutual_information(table) == pytest.approx(float(by_entropies), abs=1e-12)


@given(count_tables(), st.data())
def test_data_processing(table, data):
    """Randomising the prediction further can only lose information, about Y and about Z given Y."""
    processed = table @ data.draw(channels(table.shape[2]))
    assert info.conditional_mutual_information(processed) <= info.conditional_mutual_information(table) + 1e-12
    assert info.mutual_information(processed) <= info.mutual_information(table) + 1e-12


@pytest.mark.slow
@given(count_tables(), seeds)
def test_violation_vanishes_exactly_under_separation(table, seed):
    """Proposition "CMI characterizes separation"."""
    rng = np.random.default_rng(seed)
    p_yz = law(table).sum(2)
    rates = rng.dirichlet(np.ones(table.shape[2]), size=table.shape[0])
    separated = p_yz[:, :, None] * rates[:, None, :]
    assert info.conditional_mutual_information(separated) < 1e-14
    # the other way, with an amount (Pinsker): rates that differ by a gap force v >= p_min gap² / 2
    v, gap, rarest = (info.conditional_mutual_information(table), info.eo_gap(table), p_yz[p_yz > 0].min())
    assert v >= 0.5 * rarest * gap**2 - 1e-12


@given(count_tables(), seeds)
def test_relabelling_changes_nothing(table, seed):
    rng = np.random.default_rng(seed)
    shuffled = table[np.ix_(*(rng.permutation(k) for k in table.shape))]
    for quantity in (
        info.conditional_mutual_information,
        info.mutual_information,
        info.eo_gap,
        info.conditional_entropy,
    ):
        assert quantity(shuffled) == pytest.approx(float(quantity(table)), abs=1e-12)


@pytest.mark.slow
@given(count_tables(), seeds, st.integers(1, 3))
@settings(max_examples=300)
def test_cmi_bounds_every_centred_auditor(table, seed, dimension):
    """Theorem "CMI controls average conditional dependence": no bounded pair (h, g) sees more than
    sqrt(2 v).
    """
    rng = np.random.default_rng(seed)
    p = law(table)
    h = rng.normal(size=(p.shape[0], p.shape[2], dimension))  # h may look at y too: centring given y makes it so anyway
    g = rng.normal(size=(p.shape[0], p.shape[1], dimension))
    p_y = p.sum((1, 2))
    live = p_y > 0
    p_u, p_z = p.sum(1)[live] / p_y[live, None], p.sum(2)[live] / p_y[live, None]
    h, g = h[live], g[live]
    h -= (p_u[:, :, None] * h).sum(1, keepdims=True)
    g -= (p_z[:, :, None] * g).sum(1, keepdims=True)
    sup_h = np.linalg.norm(h, axis=2)[p_u > 0].max()
    sup_g = np.linalg.norm(g, axis=2)[p_z > 0].max()
    seen = np.abs(np.einsum("yzu,yud,yzd->y", p[live], h, g)).sum()
    assert seen <= sup_h * sup_g * info.auditor_bound(info.conditional_mutual_information(p)) + 1e-12


@pytest.mark.slow
@given(count_tables(), seeds)
@settings(max_examples=300)
def test_mutual_information_bounds_every_covariance(table, seed):
    """Lemma "Mutual information controls dependence", for one label: |Cov(f(U), g(Z))| <= |f| |g|
    sqrt(2 I).
    """
    rng = np.random.default_rng(seed)
    p = law(table).sum(0)
    f, g = rng.uniform(-1, 1, p.shape[1]), rng.uniform(-1, 1, p.shape[0])
    covariance = g @ p @ f - (p.sum(1) @ g) * (p.sum(0) @ f)
    bound = info.auditor_bound(info.conditional_mutual_information(p[None]))
    assert abs(covariance) <= np.abs(f).max() * np.abs(g).max() * bound + 1e-12


@given(count_tables())
@settings(max_examples=50)
def test_numbers_agree_with_dit(table):
    p = law(table)
    outcomes = [tuple(index) for index in np.argwhere(p > 0).tolist()]
    d = dit.Distribution(outcomes, [p[index] for index in outcomes])
    to_nats = np.log(2)
    v = dit.shannon.conditional_entropy(d, [2], [0]) - dit.shannon.conditional_entropy(d, [2], [0, 1])
    assert info.conditional_mutual_information(table) == pytest.approx(v * to_nats, abs=1e-12)
    assert info.mutual_information(table) == pytest.approx(
        dit.shannon.mutual_information(d, [2], [0]) * to_nats, abs=1e-12
    )
    z_given_y = dit.shannon.conditional_entropy(d, [1], [0]) * to_nats
    assert info.conditional_entropy(table) == pytest.approx(z_given_y, abs=1e-12)


def test_utility_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    y, u = rng.integers(0, 4, (2, 3_000))
    u = np.where(rng.random(3_000) < 0.3, y, u)
    table = np.zeros((4, 1, 4))
    np.add.at(table, (y, 0, u), 1)
    assert info.mutual_information(table) == pytest.approx(mutual_info_score(y, u), abs=1e-12)


@pytest.mark.slow
@given(count_tables(), st.integers(1, 3), st.integers(1, 2))
def test_a_stack_of_tables_is_one_call(table, a, b):
    rng = np.random.default_rng(0)
    stack = table * rng.uniform(0.5, 2.0, (a, b, *table.shape))
    for name in ("conditional_mutual_information", "mutual_information", "eo_gap", "miller_madow"):
        together = getattr(info, name)(stack)
        alone = [[float(getattr(info, name)(stack[i, j])) for j in range(b)] for i in range(a)]
        np.testing.assert_allclose(together, alone, atol=1e-12)


@given(count_tables())
def test_parts_of_the_violation_sum_to_it(table):
    parts = info.violation_by_cell(table)
    assert (parts >= 0).all()
    assert parts.sum() == pytest.approx(float(info.conditional_mutual_information(table)), abs=1e-14)


@given(count_tables())
def test_gradient_is_the_derivative_and_its_mean_is_v(table):
    v = float(info.conditional_mutual_information(table))
    g = info.violation_gradient(table)
    assert (law(table) * g).sum() == pytest.approx(v, abs=1e-12)
    seen = tuple(np.argwhere(table == table.max())[0])
    step = 1e-6 * table[seen]
    up, down = table.copy(), table.copy()
    up[seen], down[seen] = table[seen] + step, table[seen] - step
    slope = (
        up.sum() * info.conditional_mutual_information(up) - down.sum() * info.conditional_mutual_information(down)
    ) / (2 * step)
    assert g[seen] == pytest.approx(float(slope), abs=1e-4)


def test_eo_gap_is_the_papers_for_two_labels():
    rng = np.random.default_rng(1)
    table = rng.integers(1, 50, (2, 4, 2)).astype(float)
    fpr, fnr = table[0, :, 1] / table[0].sum(1), table[1, :, 0] / table[1].sum(1)
    assert info.eo_gap(table) == pytest.approx(0.5 * (np.ptp(fpr) + np.ptp(fnr)))


def test_eo_gap_leaves_out_empty_cells():
    table = np.array([[[8.0, 2.0], [6.0, 4.0], [0.0, 0.0]], [[3.0, 7.0], [1.0, 9.0], [0.0, 0.0]]])
    assert info.eo_gap(table) == pytest.approx(float(info.eo_gap(table[:, :2])))


def test_miller_madow_counts_the_cells_that_occur():
    table = np.ones((2, 3, 4)) * 7
    full = 2 * (4 - 1) * (3 - 1) / (2 * table.sum())
    assert info.miller_madow(table) == pytest.approx(full)
    table[0, 0, 0] = 0
    assert info.miller_madow(table) < full


@pytest.mark.slow
def test_miller_madow_is_the_leading_bias():
    """Proposition "Bias and concentration of hard-count plug-in CMI", part 1."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(2 * 3 * 2, 5.0)).reshape(2, 3, 2)
    n = 2_000
    tables = rng.multinomial(n, p.ravel(), size=20_000).reshape(-1, 2, 3, 2)
    bias = info.conditional_mutual_information(tables).mean() - info.conditional_mutual_information(p)
    assert bias == pytest.approx(2 * (2 - 1) * (3 - 1) / (2 * n), rel=0.15)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.ones((2, 2)), "axes"),
        (np.zeros((2, 2, 2)), "no rows"),
        (np.full((1, 2, 2), np.nan), "nan"),
        (np.full((1, 2, 2), -1.0), "-1"),
        ([[["a"]]], "numbers"),
    ],
)
def test_bad_counts_are_named(counts, message):
    with pytest.raises(InputError, match=message):
        info.conditional_mutual_information(counts)


def test_weights_many_orders_apart_stay_finite():
    table = np.full((1, 2, 2), 1e-200)
    table[0, 0, 0] = 1.0
    assert np.isfinite(info.conditional_mutual_information(table))


@pytest.mark.parametrize("epsilon", [0.1, 1e-2, 1e-4])
def test_correlation_is_not_controlled_by_information(epsilon: float) -> None:
    """Example "Why not correlation?": with Z = U the indicators of U = 0 and of Z = 0 have
    correlation 1, though √(2 I(U;Z)) falls to 0 with P(U = 0) = ε. The sup-norm bound holds.
    """
    table = np.array([[[epsilon, 0.0], [0.0, 1.0 - epsilon]]])  # one label, Z = U
    information = info.conditional_mutual_information(table)
    covariance = epsilon * (1.0 - epsilon)
    correlation = covariance / (np.sqrt(epsilon * (1 - epsilon)) ** 2)
    bound = info.auditor_bound(information)
    assert correlation == pytest.approx(1.0)
    assert covariance <= (1.0 - epsilon) ** 2 * bound
    if epsilon < 0.1:
        assert bound < correlation
