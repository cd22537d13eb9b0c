"""A metric is one entry of one list that tables, `select`, report, figures and commands read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from separatrix.columns.counting import count_labels
from separatrix.core import information
from separatrix.core.measures import (
    BUDGETS,
    CRITERIA,
    METRICS,
    OBJECTIVES,
    Metric,
    leading_budgets,
    leading_objectives,
    measure,
)  # fmt: skip
from separatrix.errors import InputError


def balanced_accuracy(tables: np.ndarray) -> np.ndarray:
    right = np.diagonal(tables.sum(-2), axis1=-2, axis2=-1)
    return (right / tables.sum((-2, -1))).mean(-1)


@pytest.fixture
def balanced(monkeypatch):
    entry = Metric("balanced_accuracy", "balanced", "balanced accuracy", balanced_accuracy, leads=True)
    monkeypatch.setitem(METRICS, "balanced_accuracy", entry)
    return entry


def test_measure_gives_every_metric_of_a_stack_of_tables():
    tables = np.random.default_rng(0).integers(1, 50, (3, 2, 2, 2)).astype(float)
    found = measure(tables)
    assert set(found) == {name for name, metric in METRICS.items() if metric.of is not None}
    np.testing.assert_allclose(found["violation"], information.conditional_mutual_information(tables))
    np.testing.assert_allclose(found["eo_gap"], information.eo_gap(tables))


def test_a_metric_is_either_a_budget_or_an_objective():
    leading = {name for name, metric in METRICS.items() if metric.leads}
    assert set(leading_budgets()) | set(leading_objectives()) == leading
    assert not set(leading_budgets()) & set(leading_objectives())
    assert not set(BUDGETS) & set(OBJECTIVES)
    assert all(name == metric.name for name, metric in METRICS.items())


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_uses_as_much_of_a_table_as_of_its_rates(name):
    """The function of tables and the one of rates that solvers use are one metric."""
    rng = np.random.default_rng(2)
    mass, rates = rng.dirichlet(np.ones(6), 5).reshape(5, 3, 2), rng.random((5, 3, 2))
    tables = np.stack([mass * (1.0 - rates), mass * rates], -1).swapaxes(1, 2)
    np.testing.assert_allclose(METRICS[name].measure(rates, mass), METRICS[name](tables))


def test_every_criterion_has_its_gap_and_its_budgets_in_the_list():
    for kind in CRITERIA.values():
        assert METRICS[kind.gap_name].label == kind.gap_label
        assert METRICS[kind.gap_name].criterion == kind.name
        assert {BUDGETS[name].criterion for name in kind.budgets} == {kind.name}


def test_the_impact_ratio_is_the_smallest_selection_rate_by_the_largest():
    rng = np.random.default_rng(3)
    y, u, z = rng.integers(0, 2, (3, 400))
    table = count_labels(y, u, sensitive_features=z).counts
    share = [u[z == g].mean() for g in range(2)]
    assert METRICS["impact_ratio"](table) == pytest.approx(min(share) / max(share))
    nobody = np.zeros((2, 2, 2))
    nobody[..., 0] = 5.0
    assert METRICS["impact_ratio"](nobody) == 1.0


def test_a_metric_of_scores_is_not_read_off_a_table():
    with pytest.raises(InputError, match=r"AUROC needs scores"):
        METRICS["auroc"](np.ones((2, 2, 2)))


@pytest.mark.slow
def test_a_new_metric_is_found_in_tables_selection_report_and_figures(balanced, results_folder, tmp_path):
    from separatrix.frontier import figures
    from separatrix.frontier import page as report
    from separatrix.frontier.results import Results
    from separatrix.frontier.store import PointKey
    from separatrix.frontier.trained import TrainedPoint, best_mixture
    from separatrix.procedure.request import Request
    from separatrix.report.figures import finish

    results = Results.read(results_folder)
    columns = results.columns
    assert np.isfinite(columns["balanced_accuracy"][columns["status"] == "ok"]).all()
    assert "Balanced" in results.paths("two").head
    tables = np.random.default_rng(1).integers(20, 60, (3, 2, 2, 2, 2)).astype(float)
    keys = [PointKey("cmi", "xz", "default", float(i), "randomized") for i in range(3)]
    path = [TrainedPoint(*one) for one in zip(keys, tables, strict=True)]
    request = Request("balanced_accuracy", {"violation": 1.0})
    (best,) = best_mixture(path, request, (0, 1)).points
    measure = METRICS["balanced_accuracy"].of
    assert best.mean(measure) == max(one.mean(measure) for one in path)
    page = report.write(results_folder, tmp_path / "report.html").read_text()
    assert 'value="balanced_accuracy"' in page
    ax = figures.six_panels(Results.read(results_folder), "two").axes[0]
    finish(ax, "", "violation", "balanced_accuracy")
    assert ax.get_ylabel() == "balanced accuracy"


@pytest.mark.slow
def test_a_new_metric_is_an_objective_of_the_command_line():
    code = (
        "from separatrix.core.measures import METRICS, Metric;"
        "METRICS['lift'] = Metric('lift', 'lift', 'lift', lambda t: t, leads=True);"
        "import sys; sys.argv = ['separatrix', 'select', '--help'];"
        "from separatrix.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "lift" in done.stdout, done.stderr
