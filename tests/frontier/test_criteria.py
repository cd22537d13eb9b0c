"""One criterion from the question to the shipped decision, and the criteria side by side."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import separatrix as sx
from separatrix.core.measures import CRITERIA
from separatrix.errors import InputError

pytestmark = pytest.mark.slow  # a trace or a cross-fit each


def people(n, seed):
    rng = np.random.default_rng(seed)
    z = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    y = np.where(rng.random(n) < np.where(z == "m", 0.45, 0.3), "yes", "no")
    return rng.normal(size=(n, 1)) + 1.5 * (y == "yes")[:, None] + 0.4 * (z == "m")[:, None], y, z


@pytest.fixture(scope="module")
def frontier():
    X, y, z = people(3_000, 0)
    return sx.trace(X, y, sensitive_features=z, estimator="logistic", method=[], cv=3,
                    criterion="independence")  # fmt: skip


@pytest.mark.parametrize("criterion", ["independence", "sufficiency", "equal_opportunity"])
def test_what_is_promised_for_a_criterion_is_what_ships(frontier, criterion, tmp_path):
    kind = CRITERIA[criterion]
    point = frontier.select(criterion=criterion, max_gap=0.09)
    assert kind.gap_label in str(point)
    promised = point.promise[kind.gap_name]
    assert promised.value <= 0.09 + 2 * promised.error
    others = {other.gap_name for other in CRITERIA.values()} - {kind.gap_name, "eo_gap"}
    assert not others & set(point.promise)  # nobody asked
    point.predictor.save(tmp_path / "model")
    X, y, z = people(60_000, 1)
    law = sx.load(tmp_path / "model").predict_proba(X, sensitive_features=z)
    counts = sx.theory.soft_counts(y, law, sensitive_features=z)
    shown = float(kind.gap(counts))
    assert abs(shown - promised.value) < 4 * promised.error
    accuracy = point.promise["accuracy"]
    assert float(np.trace(counts.sum(1)) / counts.sum()) == pytest.approx(accuracy.value, abs=4 * accuracy.error)


def test_the_trace_leads_with_its_criterion(frontier):
    shown = frontier.shippable
    assert shown.gap == "parity_gap"
    assert "With a parity gap ≤" in shown.sentence()
    assert "parity gap" in shown.table().head
    command = shown.command("folder")
    assert "--criterion independence --max-gap " in command
    assert "criterion='independence', max_gap=" in shown.python("folder", shown.usual())


@pytest.mark.slow
def test_the_report_compares_the_criteria_within_the_same_gap(frontier, tmp_path):
    text = frontier.report(tmp_path / "report.html").read_text()
    table = frontier.shippable.criteria()
    assert [row[0].split(":")[0] for row in table.rows] == [
        "plain model", "separation", "independence", "sufficiency", "equal opportunity",
    ]  # fmt: skip
    own = {a.name.split(":")[0]: a for a in frontier.answers if a.kind == "criterion"}
    for name, kind in CRITERIA.items():
        answer = own[name.replace("_", " ")]
        assert kind.gap_name in answer.budgets
        value, error = answer.promise[kind.gap_name]
        assert value <= answer.budgets[kind.gap_name] + 3 * error
    assert "The criteria side by side" in text
    assert "Independence + sufficiency = separation + base dependence" in text
    assert text.count('id="criteria"') == 1


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"criterion": "independence", "max_eo_gap": 0.1}, "`max_eo_gap` belongs to separation"),
        ({"criterion": "sufficiency", "max_violation": 0.1}, "no budget in nats"),
        ({"max_gap": 0.1, "max_eo_gap": 0.1}, "are the same for separation"),
        ({"criterion": "parity", "max_gap": 0.1}, "`criterion` must be one of"),
        ({"criterion": "independence"}, "Pass a budget"),
        ({"criterion": "independence", "max_gap": 0.1, "confidence": 0.9}, "leave `confidence`"),
        ({"criterion": "independence", "max_gap": 0.1, "maximize": "auroc"}, "is for decisions"),
        ({"criterion": "independence", "max_gap": 0.1, "method": "cmi"}, "for separation, not for indep"),
    ],
)
def test_questions_that_cannot_be_meant_are_refused(frontier, given, what):
    with pytest.raises(InputError, match=what):
        frontier.select(**given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("criterion", "asked"), [("independence", 0.05), ("sufficiency", 0.08), ("equal_opportunity", 0.05)]
)
def test_the_classifier_keeps_the_gap_of_its_criterion(criterion, asked):
    X, y, z = people(3_000, 2)
    new, label, group = people(20_000, 3)
    gap = CRITERIA[criterion].gap

    def shown(law):
        return gap(sx.theory.soft_counts(label, law, sensitive_features=group))

    budget = {CRITERIA[criterion].gap_name: asked}
    model = sx.FrontierClassifier(LogisticRegression(), budgets=budget, cv=3, random_state=0)
    model.fit(X, y, sensitive_features=z)
    assert shown(model.predict_proba(new, sensitive_features=group)) < asked + 0.03
    if criterion == "independence":  # where the budget did something
        assert shown(LogisticRegression().fit(X, y).predict_proba(new).round()) > 0.1


def test_traces_of_more_labels_or_blind_sufficiency_are_refused():
    X, y, z = people(300, 5)
    three = np.where(X[:, 0] > 1, "maybe", y)
    with pytest.raises(InputError, match="needs two labels"):
        sx.trace(X, three, sensitive_features=z, criterion="independence", method=[])
    with pytest.raises(InputError, match="needs the group at decision time"):
        sx.trace(X, y, sensitive_features=z, criterion="sufficiency", blind=True, method=[])
