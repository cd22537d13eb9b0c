"""Tables: the operating points are those of a plain search, and four ways of writing say the
same.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

from separatrix.core.envelope import concave_envelope, utility_fraction
from separatrix.frontier.results import Results, Series, legend_names, means, select, series
from separatrix.frontier.store import ReferenceCurve
from separatrix.report.table import Table


@pytest.fixture(scope="module")
def results(results_folder) -> Results:
    return Results.read(results_folder)


@pytest.fixture(scope="module")
def columns(results):
    return results.columns


def test_operating_points_are_the_best_within_the_budget(results):
    table = results.operating_points("two", (0.01, 0.05, 0.2))
    assert table.rows
    mean = select(results.mean, dataset="two")
    found = series(mean)
    named = dict(zip(found, legend_names(found), strict=True))
    for name, policy, trade_off, constraint, budget, (value, _), metric, (target, _), folds in table.rows:
        assert (constraint, folds) == ("EO gap", 3)
        assert value <= budget
        column = {"Accuracy": "accuracy", "AUROC": "auroc"}[metric]
        own = [
            i
            for i in range(len(mean["method"]))
            if named[Series(*(str(mean[field][i]) for field in Series._fields))] == name
            and mean["policy"][i] == policy
            and mean["eo_gap"][i] <= budget
        ]
        assert target == max(mean[column][i] for i in own)
        assert trade_off is None or trade_off in mean["trade_off"][own]


def test_a_method_without_a_point_in_the_budget_is_not_listed(results):
    table = results.operating_points("two", (-1.0,))
    assert table.rows == ()
    assert "Method" in table.markdown()
    assert "Method" in table.text()


def test_more_labels_have_the_violation_as_constraint(results):
    table = results.operating_points("three", (10.0,))
    assert {row[3] for row in table.rows} == {"v"}
    assert {row[1] for row in table.rows} == {"randomized"}


def test_paths_list_every_trade_off_with_its_fold_mean(results, columns):
    table = results.paths("two")
    assert len(table.rows) == 4 + 3 + 1 + 1
    first = select(columns, dataset="two", method="cmi", trade_off=0.0, policy="randomized")
    row = next(r for r in table.rows if r[0].startswith("CMI") and r[1] == 0.0)
    assert row[2] == (pytest.approx(first["violation"].mean()), pytest.approx(first["violation"].std(ddof=1)))
    assert "EO gap" not in results.paths("three").head


def test_envelopes_are_those_of_the_fold_means(columns, results):
    limit = ReferenceCurve("two", "limit", np.array([0.0, 0.1]), np.array([0.2, 0.3]))
    table = replace(results, curves=(limit,)).envelopes("two", (0.001, 0.05))
    assert table.rows[0] == ("limit of ERM's decisions", pytest.approx(0.201), pytest.approx(0.25), 1.0)
    mean = select(means(columns), dataset="two", method="cmi", policy="randomized")
    hull = concave_envelope(mean["violation"], mean["utility"])
    row = next(r for r in table.rows if r[0].startswith("CMI"))
    assert row[2] == pytest.approx(float(hull.at(0.05)))
    assert row[3] == pytest.approx(
        utility_fraction(hull.violation, hull.utility, concave_envelope([0.0, 0.1], [0.2, 0.3]))
    )
    assert 0.0 < row[3] < 1.0


def test_csv_has_full_precision_and_two_columns_for_a_mean(results):
    table = results.paths("two")
    head, *rows = csv.reader(io.StringIO(table.csv()))
    assert head[:4] == ["Method", "λ", "v", "v sd"]
    assert float(rows[0][2]) == table.rows[0][2][0]
    assert len(rows) == len(table.rows)


def test_users_strings_are_escaped():
    table = Table("a_b & <c>", ("x|y", "50%"), (("<script>|`", 1.0), ("$\\x{}_#~^", None)))
    markdown = table.markdown()
    assert not re.search(r"(?<!\\)<", markdown)
    assert not re.search(r"(?<!\\)\|`", markdown)
    latex = table.latex()
    assert r"a\_b \& <c>" in latex
    assert r"\$\textbackslash{}x\{\}\_\#\textasciitilde{}\textasciicircum{}" in latex
    assert "[red]" in Table("t", ("a",), (("[red]",),)).text()


def test_latex_is_a_whole_booktabs_table(results):
    latex = results.operating_points("two", (0.2,)).latex()
    lines = latex.splitlines()
    rows = [line for line in lines if line.endswith(r"\\")]
    assert {line.count("&") for line in (re.sub(r"\\&", "", row) for row in rows)} == {8}
    assert lines.count(r"\toprule") == lines.count(r"\bottomrule") == 1
    assert "±" not in latex


def test_lost_folds_are_counted_and_disqualify_a_point(results, columns):
    damaged = {name: column.copy() for name, column in columns.items()}
    rows = (damaged["method"] == "cmi") & (damaged["dataset"] == "two") & (damaged["fold"] == 0)
    damaged["status"] = np.where(rows, "diverged", damaged["status"])
    table = replace(results, columns=damaged).paths("two")
    assert [r[-1] for r in table.rows if r[0].startswith("CMI")] == [1] * 4
    points = replace(results, columns=damaged).operating_points("two", (10.0,))
    assert not any(r[0].startswith("CMI") for r in points.rows)


def test_a_method_that_this_version_does_not_know_keeps_its_name():
    assert Series("a_later_method", "xz", "default").name == "a_later_method"
    assert Series("erm", "xz", "default").name == "ERM ([Z|X])"
    both = [Series("cmi", "xz", "default, epochs=4"), Series("cmi", "xz", "paper, epochs=4")]
    assert legend_names(both) == ["CMI", "CMI, paper"]
