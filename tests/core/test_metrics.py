"""A metric is one entry of one list that tables, `select`, report, figures and commands read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from separatrix.core import information
from separatrix.core.metrics import (
    METRICS,
    PLANES,
    Metric,
    budgets,
    expected_cost,
    majority_rate,
    measure,
    objectives,
)


def balanced_accuracy(tables: np.ndarray) -> np.ndarray:
    right = np.diagonal(tables.sum(-2), axis1=-2, axis2=-1)
    return (right / tables.sum((-2, -1))).mean(-1)


@pytest.fixture
def balanced(monkeypatch):
    entry = Metric("balanced", "balanced accuracy", balanced_accuracy)
    monkeypatch.setitem(METRICS, "balanced_accuracy", entry)
    return entry


def test_measure_gives_every_metric_of_a_stack_of_tables():
    tables = np.random.default_rng(0).integers(1, 50, (3, 2, 2, 2)).astype(float)
    found = measure(tables)
    assert set(found) == {name for name, metric in METRICS.items() if metric.of is not None}
    np.testing.assert_allclose(
        found["violation"], information.conditional_mutual_information(tables)
    )
    np.testing.assert_allclose(found["eo_gap"], information.eo_gap(tables))


def test_a_metric_is_either_a_budget_or_an_objective():
    leading = {name for name, metric in METRICS.items() if metric.leads}
    assert set(budgets()) | set(objectives()) == leading
    assert all(METRICS[name].lower_is_better for name in set(METRICS) - leading)
    assert not set(budgets()) & set(objectives())


@pytest.mark.slow
def test_a_new_metric_is_found_in_tables_selection_report_and_figures(
    balanced, results_folder, tmp_path
):
    from separatrix.frontier import page_content as report
    from separatrix.frontier import paper_figures as figures
    from separatrix.frontier import path_tables as tables
    from separatrix.frontier.results import Results
    from separatrix.frontier.trained_choice import select
    from separatrix.frontier.trained_points import Candidate

    columns = Results.read(results_folder).columns
    assert np.isfinite(columns["balanced_accuracy"][columns["status"] == "ok"]).all()
    assert "Balanced" in tables.paths(columns, "two").head
    rng = np.random.default_rng(1)
    path = [
        Candidate("demo", float(i), "randomized", rng.integers(20, 60, (2, 2, 2, 2)).astype(float))
        for i in range(3)
    ]
    chosen = select(path, max_violation=1.0, maximize="balanced_accuracy", option="single").chosen
    assert chosen.value == max(c.means["balanced_accuracy"] for c in path)
    page = report.write(results_folder, tmp_path / "report.html").read_text()
    assert 'value="balanced_accuracy"' in page
    ax = figures.six_panels(Results.read(results_folder), "two").axes[0]
    figures.finish(ax, "", "violation", "balanced_accuracy")
    assert ax.get_ylabel() == "balanced accuracy"


@pytest.mark.slow
def test_a_new_metric_is_an_objective_of_the_command_line():
    code = (
        "from separatrix.core.metrics import METRICS, Metric;"
        "METRICS['balanced_accuracy'] = Metric('balanced', 'balanced accuracy', lambda t: t);"
        "import sys; sys.argv = ['separatrix', 'select', '--help'];"
        "from separatrix.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "balanced_accuracy" in done.stdout, done.stderr


def test_planes_are_of_a_budget_and_an_objective():
    for plane in PLANES.values():
        assert METRICS[plane.budget].lower_is_better
        assert not METRICS[plane.objective].lower_is_better
        assert plane.most > 0


def test_always_the_most_frequent_label_has_the_majority_rate_and_costs_the_other():
    tables = np.random.default_rng(1).integers(1, 50, (4, 2, 3, 2)).astype(float)
    tables[..., 0] += 80.0 * (np.arange(2) == 0)[:, None]
    always = np.zeros_like(tables)
    always[..., 0] = tables.sum(-1)
    np.testing.assert_allclose(majority_rate(tables), information.accuracy(always))
    share = tables.sum((-2, -1)) / tables.sum((-3, -2, -1))[:, None]
    np.testing.assert_allclose(expected_cost(always, 1, 5), 5 * share[:, 1])
