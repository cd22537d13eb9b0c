"""What an audit promises is said in every output, and strange numbers do not break it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import separatrix as sx
from separatrix.core.counts import CountTable
from separatrix.errors import InputError
from separatrix.statistics import inference
from separatrix.statistics.inference import Noise


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, 1_000), rng.choice(["f", "m"], 1_000)
    return y, z, np.where(rng.random(1_000) < 0.2, z == "m", y).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["finite-sample", "large-sample"])
@pytest.mark.parametrize("people", ["observed", "population"])
def test_guarantee_and_composition_are_in_every_output(rows, guarantee, people):
    y, z, u = rows
    how = {"guarantee": guarantee, "composition": people}
    a = sx.audit(y, u, sensitive_features=z, **how)
    s = sx.audit_score(y, u + 0.1 * y, sensitive_features=z, **how)
    for one in (a, s):
        read = json.loads(one.to_json())
        assert (read["guarantee"], read["composition"]) == (guarantee, people)
        for text in (read["promise"], str(one), one.to_html()):
            words = " ".join(text.split())
            assert ("any number of rows" in words) == (guarantee == "finite-sample")
            assert ("large samples" in words) == (guarantee == "large-sample")
            assert ("observed shares" in words) == (people == "observed")
        assert ("it failed in" in " ".join(str(one).split())) == (guarantee == "large-sample")


def test_new_numbers_agree_with_each_other(rows):
    y, z, u = rows
    a = sx.audit(y, u, sensitive_features=z)
    assert a.eo_gap_interval[0] <= a.eo_gap <= a.eo_gap_interval[1]
    assert a.eo_gap <= a.eo_gap_upper
    assert 0 < a.eo_gap_floor < a.eo_gap
    assert a.accuracy_interval[0] < a.accuracy < a.accuracy_interval[1]
    left, right = a.independence + a.sufficiency, a.violation + a.base_dependence
    assert left == pytest.approx(right, abs=1e-14)
    s = sx.audit_score(y, u + 0.1 * y, sensitive_features=z)
    assert s.auroc_interval[0] <= s.auroc <= s.auroc_interval[1]


def test_constant_posteriors_are_not_significant():
    """The p-value was rounding noise: below 0.05 in 55 % of such tables."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(50, 3_000))
        y, z = rng.integers(0, 3, (2, n))
        a = sx.audit(y, np.full((n, 3), 1 / 3), sensitive_features=z)
        assert a.p_value == 1.0
        assert a.violation < 1e-12


def test_constant_posteriors_that_differ_by_group_are():
    y, z = np.tile([0, 1], 200), np.repeat([0, 1], 200)
    p = np.where(z == 1, 0.3, 0.4)
    assert sx.audit(y, np.column_stack([1 - p, p]), sensitive_features=z).p_value < 1e-9


@pytest.mark.parametrize("weight", [1e-300, 1e300])
def test_extreme_weights_change_nothing(rows, weight):
    y, z, u = rows
    a = sx.audit(y, u, sensitive_features=z, sample_weight=np.full(len(y), weight))
    b = sx.audit(y, u, sensitive_features=z, sample_weight=np.ones(len(y)))
    assert a.p_value == pytest.approx(b.p_value)
    assert a.violation_interval == pytest.approx(b.violation_interval)


def test_a_cell_whose_weight_is_no_number_beside_the_rest_is_empty(rows):
    y, z, u = rows
    tiny = np.where((z == "f") & (y == 1), 1e-300, 1.0)
    a = sx.audit(y, u, sensitive_features=z, sample_weight=tiny)
    keep = tiny == 1.0
    b = sx.audit(y[keep], u[keep], sensitive_features=z[keep], sample_weight=np.ones(keep.sum()))
    assert a.violation == pytest.approx(b.violation)
    assert np.isfinite([a.p_value, a.violation_upper, *a.violation_interval]).all()
    with pytest.raises(InputError, match="only one group"):
        sx.audit(y, u, sensitive_features=z, sample_weight=np.where(z == "f", 1e-300, 1.0))


@pytest.mark.parametrize("spread", [0.0, 1e-6, 20.0])
def test_an_interval_always_has_two_ends(spread):
    """Roots were searched where the function had one sign."""
    for freedom, least in ((0.01, 1e-12), (1.0, 1e-6), (50.0, 1e-3)):
        error = Noise(1e-12, np.log(2), 0.0, least, least, freedom, spread, 80.0, 10.0)
        low, high = error.interval()
        assert 0.0 <= low <= high <= np.log(2)


def test_one_rare_prediction_makes_a_table_not_estimable():
    """Every fitted count matters, not their mean: here 12 rows a cell, but 1 for a prediction."""
    counts = np.array([[[60.0, 58, 2], [30, 29, 0]], [[50, 50, 3], [30, 30, 1]]])
    table = CountTable(counts, (0, 1), (0, 1), (0, 1, 2), int(counts.sum()))
    assert counts.mean() > 12
    assert inference.noise(table).fitted < 1
    assert not inference.noise(table).estimable


@pytest.mark.slow
def test_the_interval_is_not_capped_by_the_composition_of_the_sample():
    """U = Z with a group of 5 %: half of the samples have a smaller H(Z | Y) than the people."""
    rng, covered = np.random.default_rng(0), 0
    truth = float(-0.05 * np.log(0.05) - 0.95 * np.log(0.95))
    for _ in range(40):
        z = (rng.random(2_000) < 0.05).astype(int)
        a = sx.audit(rng.integers(0, 2, 2_000), z, sensitive_features=z)
        covered += a.violation_interval[0] <= truth <= a.violation_interval[1]
    assert covered >= 35


@pytest.mark.slow
def test_many_labels_take_no_table_of_pairs_of_predictions(monkeypatch):
    """The second moments of 999 labels would be 16 GB."""
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 120, 3_000), rng.integers(0, 2, 3_000)
    u = np.where(rng.random(3_000) < 0.7, y, rng.integers(0, 120, 3_000))

    def refuse(table):
        raise AssertionError("made the second moments of hard labels")

    monkeypatch.setattr(CountTable, "second_moments", property(refuse))
    a = sx.audit(y, u, sensitive_features=z)
    assert len(a.cell_columns()["label"]) < 0.5 * a.table.counts.size
    assert json.loads(a.to_json())["rows"] == 3_000


def test_all_criteria_are_in_every_output(rows):
    y, z, u = rows
    a, s = (sx.audit(y, u, sensitive_features=z), sx.audit_score(y, u + 0.1 * y, sensitive_features=z))
    ppv = [y[(z == g) & (u == 1)].mean() for g in ("f", "m")]
    assert a.criteria["sufficiency"].gaps["ppv_gap"].value == pytest.approx(abs(ppv[0] - ppv[1]))
    parity = [u[z == g].mean() for g in ("f", "m")]
    gap = a.criteria["independence"].gaps["parity_gap"]
    assert gap.interval[0] <= gap.value == pytest.approx(abs(parity[0] - parity[1]))
    assert s.criteria["independence"].gaps["parity_gap"].value >= gap.value - 1e-12
    for one in (a, s):
        read = json.loads(one.to_json())
        assert read["criteria"]["independence"]["value"] == one.criteria["independence"].value
        for text in (str(one), one.to_html(), read["identity"]):
            assert "no prediction has all three at 0" in " ".join(text.split()) or (
                "can be 0 at once" in " ".join(text.split())
            )
    assert str(a).index("violation v") < str(a).index("independence I(U;Z)")
