"""Numbers that a redesign of the inside must not change, read through public names.

The tables are drawn from seeds. Each digit was read off before the redesign; where a closed form
exists, the test states it beside the digits.
"""

from __future__ import annotations

import numpy as np
import pytest

import separatrix as sx

DIGITS = 1e-9


@pytest.fixture(scope="module")
def rows():
    """Labels, scores and groups of 2,000 applicants: the score favours one group."""
    rng = np.random.default_rng(11)
    z = rng.choice(["f", "m"], 2_000, p=[0.4, 0.6])
    y = (rng.random(2_000) < np.where(z == "m", 0.5, 0.35)).astype(int)
    logit = 1.4 * y - 0.7 + 0.6 * (z == "m") + rng.normal(size=2_000)
    return y, 1.0 / (1.0 + np.exp(-logit)), z


def test_audit_of_decisions(rows):
    y, s, z = rows
    u = (s > 0.55).astype(int)
    a = sx.audit(y, u, sensitive_features=z)
    rate = {(k, g): u[(y == k) & (z == g)].mean() for k in (0, 1) for g in "fm"}
    gaps = [abs(rate[k, "m"] - rate[k, "f"]) for k in (0, 1)]
    assert a.eo_gap == pytest.approx(np.mean(gaps), abs=1e-12)
    assert a.violation == pytest.approx(0.022826027340946763, rel=DIGITS)
    assert a.utility == pytest.approx(0.13811975615528455, rel=DIGITS)
    assert a.violation_corrected == pytest.approx(0.022324687846350874, rel=DIGITS)
    assert a.eo_gap == pytest.approx(0.18912295421702674, rel=DIGITS)
    assert a.independence == pytest.approx(0.035848044092726516, rel=DIGITS)
    assert a.sufficiency == pytest.approx(0.0008756428893700041, rel=DIGITS)
    assert a.base_dependence == pytest.approx(0.013897659641149668, rel=DIGITS)
    assert a.accuracy == pytest.approx((u == y).mean(), abs=1e-12)
    low, high = a.violation_interval
    assert low < a.violation_corrected < high < a.violation_upper
    # I(U;Z) + I(Y;Z|U) = I(Y;Z) + I(U;Z|Y): the chain rule, both ways
    left, right = a.independence + a.sufficiency, a.base_dependence + a.violation
    assert left == pytest.approx(right, abs=1e-12)


def test_audit_of_posteriors_is_that_of_drawn_labels(rows):
    y, s, z = rows
    a = sx.audit(y, np.stack([1.0 - s, s], 1), sensitive_features=z)
    assert a.violation == pytest.approx(0.008188768818947492, rel=DIGITS)
    assert a.utility == pytest.approx(0.04370595446910275, rel=DIGITS)
    assert a.eo_gap == pytest.approx(0.1260431393811553, rel=DIGITS)
    assert a.accuracy == pytest.approx(np.where(y == 1, s, 1.0 - s).mean(), abs=1e-12)


def test_audit_of_weighted_rows(rows):
    y, s, z = rows
    a = sx.audit(y, s > 0.55, sensitive_features=z, sample_weight=np.where(z == "f", 2.0, 1.0))
    assert a.violation == pytest.approx(0.022822982169444575, rel=DIGITS)
    assert a.utility == pytest.approx(0.134808547319248, rel=DIGITS)
    assert a.accuracy == pytest.approx(0.7531824611032532, rel=DIGITS)


def test_audit_of_a_score(rows):
    y, s, z = rows
    a = sx.audit_score(y, s, sensitive_features=z, bins=20)
    above = s[y == 1][:, None] > s[y == 0]
    assert a.auroc == pytest.approx(above.mean(), abs=1e-12)
    assert a.violation == pytest.approx(0.059589758410571465, rel=DIGITS)
    assert a.gap == pytest.approx(0.22354351087990654, rel=DIGITS)
    assert a.auroc_by_group["f"] == pytest.approx(0.822556047966632, rel=DIGITS)
    assert a.auroc_by_group["m"] == pytest.approx(0.8488554287045667, rel=DIGITS)
    assert 0 < a.violation_floor < a.violation
    assert a.gap < a.gap_upper < 1


# levels 0, 0.02 and 0.05
LIMITS = {
    ("accuracy", "eo_gap"): [0.7516846715328468, 0.7635246715328468, 0.7724285259277661],
    ("balanced_accuracy", "eo_gap"): [0.7496871741397289, 0.76164399487874, 0.7640212014877052],
    ("accuracy", "violation"): [0.7516846715328468, 0.774, 0.774],
    ("utility", "violation"): [0.12861357624719472, 0.1510554700221694, 0.1510554700221694],
}


@pytest.mark.parametrize(("maximize", "budget"), LIMITS)
def test_limit(rows, maximize, budget):
    y, s, z = rows
    best = sx.limit(y, s, sensitive_features=z, maximize=maximize, budget=budget, levels=[0.0, 0.02, 0.05])
    near = 5e-5 if maximize == "utility" else 1e-6  # the tolerances that `limit` promises
    np.testing.assert_allclose(best.values, LIMITS[maximize, budget], atol=near)
    assert (best.upper >= best.values).all()
    assert (best.upper <= best.values + near).all()


def test_limit_of_a_cost(rows):
    y, s, z = rows
    cost = sx.Cost(false_positive=1, false_negative=5)
    best = sx.limit(y, s, sensitive_features=z, maximize=cost, budget="eo_gap", levels=[0.0, 0.05])
    np.testing.assert_allclose(best.values, [-0.44966423357664254, -0.4255], atol=1e-6)


def test_exactly_separated_score(rows):
    y, s, z = rows
    exact = sx.theory.separate(y, s, sensitive_features=z)
    assert exact.auroc == pytest.approx(0.829924843398829, rel=DIGITS)
    assert exact.violation == pytest.approx(0.0, abs=1e-12)


def test_penalised_score_lies_between_the_exact_and_the_raw_one(rows):
    y, s, z = rows
    score = sx.theory.separate(y, s, sensitive_features=z, penalty=1.0)
    assert score.auroc == pytest.approx(0.8474840633123011, abs=1e-4)
    assert score.violation == pytest.approx(0.0021950229078536963, abs=1e-4)


def test_soft_cmi_is_the_audits_violation(rows):
    torch = pytest.importorskip("torch")
    y, s, z = rows
    logits = torch.tensor(np.log(np.stack([1.0 - s, s], 1)))
    v = sx.nn.soft_cmi(logits, torch.tensor(y), torch.tensor((z == "m").astype(int)))
    assert float(v) == pytest.approx(0.008188768818947492, rel=1e-7)


def test_shannon_quantities_of_a_table_of_counts():
    copies = np.zeros((1, 2, 2))
    copies[0, 0, 0] = copies[0, 1, 1] = 5.0  # the prediction copies the group
    assert float(sx.theory.conditional_mutual_information(copies)) == pytest.approx(np.log(2.0), rel=1e-12)
    table = np.random.default_rng(5).poisson(20.0, (2, 3, 2)).astype(float)
    v = float(sx.theory.conditional_mutual_information(table))
    u = float(sx.theory.mutual_information(table))
    assert (v, u) == (pytest.approx(0.007270937793707202, rel=DIGITS), pytest.approx(0.0005386186435685225, rel=DIGITS))


def test_exact_frontier_of_a_known_distribution():
    p = np.random.default_rng(3).dirichlet(np.ones(12)).reshape(3, 2, 2)
    frontier = sx.theory.population.exact_frontier(p)
    u = frontier.at([0.0, 0.005, 0.02])
    np.testing.assert_allclose(u, [0.0, 0.1031586, 0.1031586], atol=1e-7)
