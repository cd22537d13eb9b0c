"""Sampling error of every criterion: levels and coverage on simulated laws."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.core.measures import BASE_DEPENDENCE, CRITERIA
from separatrix.statistics import inference
from separatrix.statistics.dependence import dependence, dependences

SAMPLES, ROWS = 70, 600


def calibrated(rng, n=ROWS):
    """Rows of a law with Y ⟂ Z | U: groups have other scores, a score means the same."""
    z = rng.integers(0, 2, n)
    q = rng.beta(2 + z, 3 - z, n)
    return (rng.random(n) < q).astype(int), z, q


def test_hard_labels_are_tested_as_the_permuted_table():
    rng = np.random.default_rng(0)
    y, z, u = rng.integers(0, 3, (3, 500))
    table = count_labels(y, u, sensitive_features=z)
    for name, rows in {
        "independence": (np.zeros(500, int), u),
        "sufficiency": (u, y),
        "base_dependence": (np.zeros(500, int), y),
    }.items():
        found = dependences(table)[name]
        same = count_labels(
            np.r_[rows[0], 9], np.r_[rows[1], 0], sensitive_features=np.r_[z, 0]
        )  # a further label with one row keeps the table legal and adds nothing
        noise = inference.noise(same)
        scale = 501 / 500  # its row is one more in the mean
        assert found.value == pytest.approx(noise.violation * scale, abs=1e-12)
        assert found.value - found.corrected == pytest.approx(noise.bias * scale, rel=1e-6)
        assert 0.0 < found.p_value <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["independence", "sufficiency", "base_dependence"])
def test_tests_of_hard_decisions_keep_their_level(name):
    """Each null hypothesis is true: 5 % tests reject about 5 %."""
    rng, rejected, bias = np.random.default_rng(1), 0, []
    kind = {**CRITERIA, "base_dependence": BASE_DEPENDENCE}[name]
    for _ in range(SAMPLES):
        z, y = rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS)
        u = np.where(rng.random(ROWS) < 0.8, y, 1 - y)
        found = dependence(count_labels(y, u, sensitive_features=z), kind)
        rejected += found.p_value < 0.05
        bias.append(found.corrected)
    assert rejected <= 0.05 * SAMPLES + 3 * np.sqrt(0.05 * 0.95 * SAMPLES)
    assert abs(np.mean(bias)) < 4 * np.std(bias) / np.sqrt(SAMPLES)


def test_sufficiency_of_posteriors_keeps_its_level_and_is_unbiased():
    """Cells of several predictions share rows: the test must not take them for independent.

    U is drawn from q, so Y ⟂ Z | U does not follow from calibration; groups alike make it true.
    """
    rng, small, corrected = np.random.default_rng(2), 0, []
    for _ in range(SAMPLES):
        z = rng.integers(0, 2, ROWS)
        q = rng.beta(2, 3, ROWS)
        y = (rng.random(ROWS) < q).astype(int)
        table = count_posteriors(y, np.stack([1 - q, q], 1), sensitive_features=z)
        found = dependence(table, CRITERIA["sufficiency"])
        small += found.p_value < 0.05
        corrected.append(found.corrected)
    assert small <= 0.05 * SAMPLES + 3 * np.sqrt(0.05 * 0.95 * SAMPLES)
    assert abs(np.mean(corrected)) < 4 * np.std(corrected) / np.sqrt(SAMPLES)


@pytest.mark.slow
def test_intervals_cover_the_population():
    """I(Y;Z|U) and the PPV gap of a law that breaks sufficiency, and I(U;Z) of the same rows."""
    law = np.random.default_rng(5).dirichlet(np.full(8, 4.0)).reshape(2, 2, 2)
    names = "independence", "sufficiency"
    truth = {name: float(CRITERIA[name].information(law)) for name in names}
    ppv = law[1, :, 1] / law[:, :, 1].sum(0)
    rng, hits = np.random.default_rng(6), dict.fromkeys([*names, "ppv_gap"], 0)
    for _ in range(SAMPLES):
        drawn = rng.choice(8, ROWS, p=law.ravel())
        y, z, u = np.unravel_index(drawn, (2, 2, 2))
        table = count_labels(y, u, sensitive_features=z)
        for name in names:
            found = dependence(table, CRITERIA[name])
            assert found.interval is not None
            hits[name] += found.interval[0] <= truth[name] <= found.interval[1]
        low, high = found.gaps["ppv_gap"].interval or (1.0, 0.0)
        hits["ppv_gap"] += low <= np.ptp(ppv) <= high
    assert min(hits.values()) >= 0.95 * SAMPLES - 3 * np.sqrt(0.05 * 0.95 * SAMPLES)


def test_a_calibrated_score_decided_hard_breaks_predictive_parity_visibly():
    y, z, q = calibrated(np.random.default_rng(7), 20_000)
    found = dependence(count_labels(y, (q > 0.5).astype(int), sensitive_features=z),
                       CRITERIA["sufficiency"])  # fmt: skip
    assert found.p_value < 0.01
    assert found.gaps["ppv_gap"].value > found.gaps["ppv_gap"].floor


def test_a_prediction_that_nobody_gets_has_no_gap():
    y, z = np.tile([0, 1], 200), np.repeat([0, 1], 200)
    table = count_labels(y, np.zeros(400, int), sensitive_features=z)
    found = dependence(table, CRITERIA["sufficiency"])
    assert found.gaps["ppv_gap"].value is None
    assert found.gaps["ppv_gap"].interval == (0.0, 1.0)
    assert found.value == pytest.approx(0.0, abs=1e-12)
