"""What every limit keeps, whatever solves it: one test over solver × objective × budget."""

from __future__ import annotations

import numpy as np
import pytest

import separatrix as sx
from separatrix.core.information import conditional_mutual_information, eo_gap, gaps_by_label, mutual_information
from separatrix.core.measures import BUDGETS
from separatrix.errors import InputError
from separatrix.optimum.objectives import Cost, Value, gains_of
from separatrix.optimum.population import blind_limit
from separatrix.optimum.rules import Rule

GAINS = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 0.5], [0.2, 0.0, 3.0]])
LINEAR = ["accuracy", "balanced_accuracy"]
TWO = [(aim, budget) for aim in ("utility", *LINEAR, Cost(1, 3)) for budget in BUDGETS]
MANY = [(aim, "violation") for aim in ("utility", *LINEAR, GAINS)]
MANY += [(aim, budget) for aim in (*LINEAR, GAINS) for budget in ("eo_gap", "eo_max")]
BLIND = [(aim, b) for aim in ("utility", "accuracy") for b in BUDGETS if b != "predictive_gap"]


def posteriors(seed, labels, rows=30):
    rng = np.random.default_rng(seed)
    z = np.arange(rows) % 2
    p = rng.dirichlet(np.full(labels, 0.5), rows)
    return p, np.arange(rows) % labels, z


def table_of(p, z, q):
    """P(y, z, u) of a rule on the law of the posteriors."""
    return np.einsum("ny,nz,nu->yzu", p, np.eye(2)[z], q) / len(p)


def check(best, value, used, law):
    """Values rise and are certified; the rule of a level has its value and keeps it."""
    assert (np.diff(best.values) >= 0).all()
    assert np.isnan(best.upper).all() or (best.upper >= best.values).all()
    between = (best.levels[:-1] + best.levels[1:]) / 2
    for level in (*best.levels, between[0]):
        found = best.solution(level)
        rule = found.rule()
        assert isinstance(rule, Rule)
        q = law(rule)
        np.testing.assert_allclose(q.sum(-1), 1.0, atol=1e-12)
        assert value(q) == pytest.approx(found.value, abs=1e-8)
        assert used(q) <= level + 1e-8
        again = type(rule).from_arrays(best.groups, rule.arrays())
        np.testing.assert_array_equal(law(again), q)
    assert best.values[0] - 1e-12 <= best.solution(between[0]).value <= found.upper + 1e-12 or (np.isnan(found.upper))


@pytest.mark.parametrize(("maximize", "budget"), TWO, ids=str)
def test_thresholds_of_a_score(maximize, budget):
    rng = np.random.default_rng(1)
    z, y = rng.integers(0, 2, 80), rng.integers(0, 2, 80)
    s = np.round(rng.normal(size=80) + y * (0.5 + z), 1)
    least = 0.15 if budget == "predictive_gap" else 0.0
    levels = least + np.array([0.0, 0.01, 0.1])
    best = sx.limit(y, s, sensitive_features=z, maximize=maximize, budget=budget, levels=levels)
    mass = np.array([[((y == label) & (z == g)).mean() for label in (0, 1)] for g in (0, 1)])

    def rates(q):
        return np.array([[q[(y == label) & (z == g), 1].mean() for label in (0, 1)] for g in (0, 1)])

    check(
        best,
        lambda q: float(Value.from_objective(maximize, mass, (0, 1))(rates(q))),
        lambda q: float(BUDGETS[budget].measure(rates(q), mass)),
        lambda rule: rule.law(s, z),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("maximize", "budget"), MANY, ids=str)
def test_rules_for_three_labels(maximize, budget):
    p, y, z = posteriors(0, 3)
    levels = [0.0315, 0.0429] if budget == "violation" else [0.0, 0.02, 0.1]
    best = sx.limit(y, p, sensitive_features=z, maximize=maximize, budget=budget, levels=levels)
    gains = gains_of(maximize, p.mean(0))

    def value(q):
        table = table_of(p, z, q)
        return float(mutual_information(table) if gains is None else (table.sum(1) * gains).sum())

    def used(q):
        table = table_of(p, z, q)
        if budget == "violation":
            return float(conditional_mutual_information(table))
        return float(eo_gap(table) if budget == "eo_gap" else gaps_by_label(table).max())

    check(best, value, used, lambda rule: rule.law(p, z))


@pytest.mark.slow
@pytest.mark.parametrize(("maximize", "budget"), BLIND, ids=str)
def test_decisions_without_the_group(maximize, budget):
    p = np.random.default_rng(3).dirichlet(np.full(24, 0.5)).reshape(6, 2, 2)
    best, of_x = blind_limit(p, maximize, budget, levels=[0.0, 0.01, 0.05]), p.sum((1, 2))
    q, mass = p / of_x[:, None, None], p.sum(0)

    def rates(decided):
        return np.einsum("xyz,x->zy", p, decided[:, 1]) / mass.T

    check(
        best,
        lambda decided: float(Value.from_objective(maximize, mass.T, (0, 1))(rates(decided))),
        lambda decided: float(BUDGETS[budget].measure(rates(decided), mass.T)),
        lambda rule: rule.law(q),
    )


@pytest.mark.slow
def test_the_utility_of_three_labels_does_not_fall_where_the_budget_loosens():
    """A search that started where another level's had ended found .2505 nats, then .2484."""
    p, y, z = posteriors(0, 3)
    best = sx.limit(y, p, sensitive_features=z, levels=[0.0315, 0.0429])
    assert best.values[1] >= best.values[0] > 0.25
    first = best.rule(0.0429).law(p, z)
    best.rule(0.01)  # a question in between changes no answer
    np.testing.assert_array_equal(best.rule(0.0429).law(p, z), first)


@pytest.mark.slow
def test_blind_decisions_among_four_labels_for_three_groups_are_certified():
    """A hundred columns left a gap of .011 here."""
    p = np.random.default_rng(0).dirichlet(np.full(12, 0.4), 30).reshape(30, 4, 3)
    assert blind_limit(p, "accuracy", "eo_gap", levels=[0.0]).gap < 3e-6


def test_the_violation_of_a_slack_budget_is_that_of_the_rule():
    y, s, z = [0, 1, 0, 1] * 5, np.arange(20) / 20, [0, 0, 1, 1] * 5
    best = sx.limit(y, s, sensitive_features=z, levels=[5])
    q = best.rule(5).law(s, z)
    assert best.violation[0] == pytest.approx(sx.audit(y, q, sensitive_features=z).violation)
    assert best.violation[0] < np.log(2)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("levels", "a"),
        ("levels", [[0.1], [0.2, 0.3]]),
        ("points", 2.5),
        ("points", "x"),
        ("tolerance", "x"),
        ("tolerance", -1.0),
        ("sensitive_features", [[0], [1, 2]] * 10),
        ("sensitive_features", [{"a": 1}] * 20),
    ],
)
def test_bad_arguments_are_named(argument, value):
    given = {"sensitive_features": [0, 0, 1, 1] * 5, argument: value}
    with pytest.raises(InputError, match=argument):
        sx.limit([0, 1] * 10, np.arange(20) / 20, **given)


@pytest.mark.parametrize("kind", ["frame", "mapping", "csv"])
def test_a_table_or_a_file_has_the_limit_of_its_columns(kind, tmp_path):
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(4)
    y, z, w = rng.integers(0, 2, 90), rng.integers(0, 2, 90), rng.integers(1, 4, 90)
    columns = {"y": y, "z": z, "s": np.round(rng.random(90) + 0.3 * y, 2), "w": w}
    data = {"frame": pl.DataFrame(columns), "mapping": columns, "csv": tmp_path / "t.csv"}[kind]
    pl.DataFrame(columns).write_csv(tmp_path / "t.csv")
    how = {"maximize": "accuracy", "budget": "eo_gap", "levels": [0.0, 0.05]}
    names = {"target": "y", "score": "s", "sensitive_features": ["z"], "sample_weight": "w"}
    found = sx.limit(data, **names, **how)
    expected = sx.limit(y, columns["s"], sensitive_features=z, sample_weight=w, **how)
    np.testing.assert_array_equal(found.values, expected.values)


def test_arrays_and_names_of_columns_do_not_mix():
    with pytest.raises(InputError, match="`target=` and `score=`"):
        sx.limit([0, 1], [0.1, 0.2], sensitive_features=[0, 1], target="y")
    with pytest.raises(InputError, match="`scores` is missing"):
        sx.limit([0, 1], sensitive_features=[0, 1])
