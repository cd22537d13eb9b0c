"""The tables of the yardsticks: areas, floors and what they say of a budget."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.peers.yardsticks import (
    PLANES,
    area,
    expected_cost,
    floor_of_gaps,
    majority_rate,
    nested,
    plane_table,
    reached,
)

from separatrix.columns.counting import count_labels
from separatrix.core import information
from separatrix.core.information import eo_gap
from separatrix.core.measures import METRICS
from separatrix.frontier.results import Results, means, select, series


@pytest.fixture(scope="module")
def columns(results_folder):
    return Results.read(results_folder).columns


@pytest.mark.slow
@pytest.mark.parametrize("plane", PLANES)
def test_a_table_has_a_row_for_every_method_the_largest_area_first(columns, plane):
    table = plane_table(columns, "two", plane)
    assert len(table.rows) == len(series(select(columns, dataset="two")))
    areas = [row[-1] for row in table.rows]
    assert areas == sorted(areas, reverse=True)
    assert all(len(row) == len(table.head) for row in table.rows)
    assert "Area" in table.markdown()


def test_the_area_is_the_mean_over_budgets_of_what_is_reached_above_the_majority(columns):
    here = select(columns, dataset="two")
    for own in series(here):
        part = select(here, **own._asdict())
        mean, plane = means(part), PLANES["decisions"]
        least = np.mean([majority_rate(table) for table in part["counts"]])
        heights = []
        for budget in np.linspace(0, plane.most, 4_001)[1:]:
            fits = mean["eo_gap"] <= budget
            heights.append(max(mean["accuracy"][fits].max() - least, 0.0) if fits.any() else 0.0)
        assert area(part, "decisions") == pytest.approx(np.mean(heights), abs=1e-4)


def test_what_is_reached_is_the_mean_of_the_chosen_folds(columns):
    here = select(columns, dataset="two")
    own = next(s for s in series(here) if s.method == "cmi")
    part = select(here, **own._asdict())
    found = reached(part, "decisions", 0.5)
    rows = nested(part, "eo_gap", 0.5, "accuracy")
    assert found.target == pytest.approx(part["accuracy"][rows].mean())
    assert found.used == pytest.approx(part["eo_gap"][rows].mean())
    assert 0.0 <= found.corrected <= found.used


def test_the_floor_of_a_soft_policy_is_that_of_shuffled_groups():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 3_000))
    q = rng.beta(2 + y, 2, 3_000)
    posteriors = np.stack([1 - q, q], -1)
    counts, squares = np.zeros((2, 2, 2, 2))
    np.add.at(counts, (y, z), posteriors)
    np.add.at(squares, (y, z), posteriors**2)
    gaps = []
    for _ in range(300):
        shuffled = z.copy()
        for label in (0, 1):
            shuffled[y == label] = rng.permutation(z[y == label])
        table = np.zeros((2, 2, 2))
        np.add.at(table, (y, shuffled), posteriors)
        gaps.append(float(eo_gap(table)))
    made = {"counts": _objects(counts), "squares": _objects(squares)}
    assert floor_of_gaps(made, np.array([0])) == pytest.approx(np.mean(gaps), rel=0.15)
    hard = count_labels(y, q > 0.5, sensitive_features=z).counts
    made = {"counts": _objects(hard), "squares": _objects(hard)}
    assert floor_of_gaps(made, np.array([0])) > 1.3 * np.mean(gaps)  # a draw is noisier


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


def _objects(table):
    out = np.empty(1, dtype=object)
    out[0] = table
    return out
