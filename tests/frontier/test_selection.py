"""What is measured is what is shipped: solved budgets, promises, constants, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import separatrix as sx
from separatrix.core.information import accuracy, eo_gap
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier.operating_point import with_warnings
from separatrix.procedure.procedures import Decisions, Rows, Scoring

pytestmark = pytest.mark.slow


def _people(n, seed, strength=2.0, base=-0.5):
    """Two numbers and the group; women's outcomes are rarer and harder to see."""
    rng = np.random.default_rng(seed)
    z = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    X = rng.normal(size=(n, 2))
    logit = strength * X[:, 0] * np.where(z == "m", 1.0, 0.6) + base + 0.9 * (z == "m")
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-logit)), "yes", "no"), z


@pytest.fixture(scope="module")
def frontier(tmp_path_factory):
    X, y, z = _people(2000, 0)
    return sx.trace(
        X, y, sensitive_features=z, estimator="logistic", blind=True, method=[], cv=3,
        out=tmp_path_factory.mktemp("frontier"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def unseen():
    return _people(20_000, 1)


def _within(point, name, shown):
    value, error = point.promise[name][:2]
    return abs(value - shown) <= 3 * error + 0.01


_UTILITY = pytest.param("utility", marks=pytest.mark.nightly)


@pytest.mark.parametrize("aim", ["accuracy", "balanced_accuracy", _UTILITY, sx.Cost(1, 3)])
@pytest.mark.parametrize("blind", [False, True])
def test_unseen_rows_show_what_was_promised(frontier, unseen, aim, blind):
    X, y, z = unseen
    point = frontier.select(max_eo_gap=0.1, maximize=aim, blind=blind)
    groups = None if blind else z
    q = point.predictor.predict_proba(X, groups)
    table = sx.theory.soft_counts(y, q, sensitive_features=z)
    assert _within(point, "accuracy", float(accuracy(table)))
    assert float(eo_gap(table)) < 0.1 + 3 * point.promise["eo_gap"].error
    u = point.predictor.predict(X, groups, random_state=0)
    assert abs((u == y).mean() - float(accuracy(table))) < 0.02


def test_a_score_keeps_its_budget_at_every_threshold_and_its_auroc(frontier, unseen):
    X, y, z = unseen
    point = frontier.select(max_eo_gap=0.1, maximize="auroc")
    shown = point.predictor.predict_proba(X, z, random_state=0)
    assert shown.shape == (len(X), 2)
    audit = sx.audit_score(y, shown[:, 1], sensitive_features=z)
    assert _within(point, "auroc", audit.auroc)
    assert audit.gap < 0.1 + 2 * point.promise["eo_gap"].error
    strict = frontier.select(max_eo_gap=0.06, maximize="auroc")
    assert strict.promise["auroc"].value <= point.promise["auroc"].value + 1e-6


def test_a_point_saved_and_loaded_is_the_same(frontier, unseen, tmp_path):
    X, _, z = unseen
    for i, asked in enumerate(
        [{"maximize": "accuracy"}, {"maximize": "auroc"}, {"maximize": "accuracy", "blind": True}]
    ):
        point = frontier.select(max_eo_gap=0.1, **asked)
        point.predictor.save(tmp_path / str(i))
        again = sx.load(tmp_path / str(i))
        groups = None if asked.get("blind") else z[:500]
        a = point.predictor.predict(X[:500], groups, random_state=3)
        assert (again.predict(X[:500], groups, random_state=3) == a).all()
        card = (tmp_path / str(i)).rglob("MODEL_CARD.md")
        assert str(point.question) in next(card).read_text()


def test_a_blind_predictor_never_looks_at_the_group(frontier, unseen):
    X, _, z = unseen
    point = frontier.select(max_eo_gap=0.1, blind=True)
    assert not point.predictor.uses_groups
    alone = point.predictor.predict_proba(X)
    for groups in (z, np.roll(z, 1), np.full(len(z), "nobody")):
        assert (point.predictor.predict_proba(X, groups) == alone).all()


def test_what_ships_is_the_procedure_on_all_rows_and_folds_run_the_same(frontier):
    """The rule of the point is the rule that the procedure fits to the honest scores."""
    procedure = Decisions("accuracy", {"eo_gap": 0.1})
    found = frontier.measured("labels", procedure)
    table = frontier.table
    again = procedure.solver(frontier.nested.training(None)[1], table)({"eo_gap": 0.1}, None)
    for a, b in zip(again.rule.thresholds, found.rule.rule.thresholds, strict=True):
        np.testing.assert_array_equal(a, b)
    train, own = frontier.nested.training(2)
    rule = procedure.solver(own, table[train])({"eo_gap": 0.1}, again)
    test, scores = frontier.nested.tested(2)
    law = procedure.law(rule, scores, frontier.rows["z"][test])
    table = sx.theory.soft_counts(frontier.rows["y"][test], law, sensitive_features=frontier.rows["z"][test])
    np.testing.assert_allclose(found.tables[2], table)


@pytest.mark.parametrize("aim", ["accuracy", "auroc", _UTILITY])
def test_the_smallest_budget_that_a_refusal_names_succeeds(frontier, aim):
    budget = "max_violation" if aim == "utility" else "max_eo_gap"
    with pytest.raises(InfeasibleError) as refused:
        frontier.select(**{budget: 0.0}, maximize=aim)
    (smallest,) = refused.value.smallest.values()
    assert smallest > 0
    point = frontier.select(**{budget: smallest}, maximize=aim)
    assert point.promise


def test_what_hardly_decides_says_so(frontier):
    """The check is of what ships itself, not of the folds' mean."""
    point = frontier.select(max_eo_gap=0.2)
    assert not any("hardly decides" in note for note in point.notes)
    nearly = np.array([[[[900.0, 4.0], [95.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]])
    vars(point)["decided"] = nearly  # instead of what the rule decides
    noted = with_warnings(point)
    assert any("hardly decides: 99.5% of all get 'no'" in note for note in noted.notes)


def test_a_certified_choice_ships_what_did_not_see_the_rows_that_certify_it(frontier):
    point = frontier.select(max_eo_gap=0.3, confidence=0.9)
    assert len(point.predictor.branches) == 1  # M(0), which did not see fold 0
    assert any("EO gap at most" in note for note in point.notes)
    loose = frontier.select(max_eo_gap=0.3, confidence=0.9, guarantee="large-sample")
    assert len(loose.predictor.branches) == 1  # M(), of all rows
    assert any("as separated as on its folds" in note for note in loose.notes)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "Pass a budget"),
        ({"max_eo_gap": -1.0}, "at least 0, got -1.0"),
        ({"max_eo_gap": 0.1, "maximize": "f1"}, "must be one of .*'accuracy'.* got 'f1'"),
        ({"max_eo_gap": 0.1, "maximize": "auroc", "confidence": 0.9}, "is for decisions"),
        ({"max_eo_gap": 0.1, "guarantee": "perhaps"}, "guarantee"),
        ({"max_eo_gap": 0.1, "method": "cmi"}, "no trained point of cmi"),
    ],
)
def test_bad_questions_are_one_sentence(frontier, asked, message):
    with pytest.raises(InputError, match=message):
        frontier.select(**asked)


@pytest.mark.nightly
def test_both_budgets_are_kept(frontier):
    wide = frontier.select(max_eo_gap=0.2, maximize="utility")
    both = frontier.select(max_eo_gap=0.2, max_violation=0.004, maximize="utility")
    assert both.promise["violation"].value <= 0.004 + 2 * both.promise["violation"].error
    assert both.promise["utility"].value <= wide.promise["utility"].value + 0.01


def test_a_killed_trace_goes_on_where_it_was(tmp_path, monkeypatch):
    from separatrix.frontier import base_models as bases

    X, y, z = _people(300, 4)
    fitted = []
    whole = bases._piece

    def counted(rows, fit, model):
        if len(fitted) == 3:
            raise KeyboardInterrupt
        fitted.append((rows.kind, fit))
        return whole(rows, fit, model)

    options = {"sensitive_features": z, "estimator": "logistic", "method": [], "cv": 3}
    monkeypatch.setattr(bases, "_piece", counted)
    with pytest.raises(KeyboardInterrupt):
        sx.trace(X, y, out=tmp_path / "f", **options)
    done = list(fitted)
    monkeypatch.setattr(bases, "_piece", lambda *a: (fitted.append((a[0].kind, a[1])), whole(*a))[1])
    first = sx.trace(X, y, out=tmp_path / "f", **options)
    assert not set(fitted[len(done) :]) & set(done)
    assert len(fitted) == 2 * 7  # with and without the group: 3 folds, 3 pairs, what ships
    again = sx.trace(X, y, **options)
    np.testing.assert_array_equal(first.nested.inner, again.nested.inner)


@pytest.mark.nightly
def test_any_classifier_object_sees_the_rows_as_they_are():
    from sklearn.naive_bayes import GaussianNB

    X, y, z = _people(400, 5)
    y = (y == "yes").astype(int)
    f = sx.trace(X, y, sensitive_features=z, estimator=GaussianNB(), method=[], cv=3)
    point = f.select(max_eo_gap=0.3)
    assert type(point.predictor.branches[0].base.model).__name__ == "GaussianNB"
    assert point.predictor.predict_proba(X[:7], sensitive_features=z[:7]).shape == (7, 2)
    assert set(point.predictor.predict(X, z, random_state=0)) == {0, 1}


def test_scores_are_for_two_labels():
    rng = np.random.default_rng(0)
    rows = Rows(*rng.integers(0, 2, (2, 30)), (0, 1, 2), (0, 1))
    with pytest.raises(InputError, match="for two labels"):
        Scoring().solver(rng.dirichlet(np.ones(3), 30), rows)


def test_a_looser_budget_of_the_same_kind_is_never_below(frontier):
    values = []
    for level in (0.08, 0.15, 0.3):
        rule = Decisions("accuracy", {"eo_gap": level}, margin=0.0)
        found = frontier.measured("labels", rule)
        values.append(found.promise["accuracy"].value)
    assert values[0] <= values[2] + 0.01
    assert replace(Decisions(), budgets={"eo_gap": 0.1}).budgets == {"eo_gap": 0.1}
