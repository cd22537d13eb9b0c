"""Choosing a point on the page and shipping it: budgets, what the choice does to each group, the
commands.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import binomtest

from separatrix.auditing.result import Audit
from separatrix.core.counts import CountTable
from separatrix.core.envelope import concave_envelope
from separatrix.frontier.results import Results, select

pytestmark = pytest.mark.browser


def test_a_budget_on_v_chooses_the_envelope_there_and_gives_the_commands(page, part, hull, results_folder):
    most = float(f"{(hull.violation[0] + hull.violation[1]) / 2:.3g}")
    page.type("#budget-violation", str(most))
    assert page.number("violation") == pytest.approx(most, rel=1e-6)
    assert page.number("utility") == pytest.approx(float(hull.at(most)), rel=1e-6)
    assert "keeps v ≤" in page.text("#budget-status")
    assert page.all("#plot .feasible")
    assert page.all("#plot rect.budget")
    violation = dict(zip(part["name"], part["violation"], strict=True))
    for name, point in page.points():
        assert (point.get_attribute("opacity") == "1") == (violation[name] <= most)
    number = page.script("return String(arguments[0])", most)
    assert page.text("#command") == (
        f"separatrix select {results_folder} --max-violation {number} --maximize utility --out model"
    )
    lines = page.text("#python").splitlines()
    assert len(lines) == 3
    assert lines[1] == (
        f'point = sx.Frontier.load("{results_folder}").select(max_violation={number}, maximize="utility")'
    )
    compile("\n".join(lines), "page", "exec")
    page.type("#folder", "it's here")
    assert page.text("#command").startswith(r"separatrix select 'it'\''s here' --max-violation")


def test_two_budgets_hold_at_once(page, part, hull):
    v, e = (0.5 * part[m][hull.index[-1]] for m in ("violation", "eo_gap"))
    page.type("#budget-violation", f"{v:.6f}")
    page.type("#budget-eo_gap", f"{e:.6f}")
    # the same by trying every mixture of two on a fine grid
    w = np.linspace(0, 1, 20_001)
    best = 0.0
    for a in range(len(part["method"])):
        for b in range(a):
            gap, violation, utility = (
                (1 - w) * part[m][a] + w * part[m][b] for m in ("eo_gap", "violation", "utility")
            )
            best = max(best, utility[(gap <= e) & (violation <= v)].max(initial=0.0))
    assert page.number("violation") <= v + 1e-6
    assert page.number("eo_gap") <= e + 1e-6
    assert page.number("utility") == pytest.approx(best, rel=1e-3)
    assert "--max-violation" in page.text("#command")
    assert "--max-eo-gap" in page.text("#command")


def test_a_budget_that_nothing_keeps_says_the_smallest(page, part):
    page.option("scope", "ERM (X)")
    page.type("#budget-violation", "1e-9")
    smallest = select(part, method="erm", inputs="x")["violation"].min()
    found = re.search(r"The smallest: v (\S+)\.$", page.text("#budget-status"))
    assert float(found[1]) == pytest.approx(smallest, abs=6e-5)
    assert not page.all("#plot .feasible")
    page.type("#budget-violation", "")
    assert page.text("#budget-status").startswith("Fill in a box")


def counts_of(results_folder, method, inputs, trade_off, policy):
    own = select(
        Results.read(results_folder).columns,
        dataset="two",
        policy=policy,
        method=method,
        inputs=inputs,
        trade_off=trade_off,
    )
    return sum(own["counts"])


@pytest.mark.parametrize("policy", ["randomized", "deterministic"])
def test_rates_of_each_group_are_those_of_the_tables_with_wilson_intervals(page, mean, results_folder, policy):
    page.choose("policy", policy)
    part = select(mean, policy=policy)
    hull = concave_envelope(part["violation"], part["utility"])
    page.slide(0.4 if len(hull.index) > 1 else 0)
    pair = [hull.index[0], hull.index[min(1, len(hull.index) - 1)]]
    tables = [
        counts_of(results_folder, part["method"][j], part["inputs"][j], part["trade_off"][j], policy) for j in pair
    ]
    erm = counts_of(results_folder, "erm", "xz", 0.0, policy)
    rows = page.all("#rates tr[data-label]")
    assert len(rows) == 4
    for row in rows:
        y, z = (int(row.get_attribute(f"data-{name}")) for name in ("label", "group"))
        rate = [t[y, z, 1] / t[y, z].sum() for t in tables]
        chosen, beside = (page.find(f"td[data-column={c}]", within=row) for c in ("chosen", "ERM"))
        assert float(chosen.get_attribute("data-value")) == pytest.approx(0.6 * rate[0] + 0.4 * rate[1])
        assert float(beside.get_attribute("data-value")) == pytest.approx(erm[y, z, 1] / erm[y, z].sum())
        if policy == "deterministic":
            known = binomtest(int(erm[y, z, 1]), int(erm[y, z].sum())).proportion_ci(0.95, method="wilson")
            assert float(beside.get_attribute("data-low")) == pytest.approx(known.low)
            assert float(beside.get_attribute("data-high")) == pytest.approx(known.high)
            assert f"[{known.low:.3f}, {known.high:.3f}]" in beside.text


def test_the_audit_of_erm_stands_beside_it(page, results_folder):
    page.choose("policy", "deterministic")
    counts = counts_of(results_folder, "erm", "xz", 0.0, "deterministic")
    audit = Audit.from_table(CountTable(counts, (0, 1), (0, 1), (0, 1), int(counts.sum())))
    shown = [row.text for row in page.all("#audit tr")]
    assert any(f"{audit.violation:.4f}" in line and "interval" in line for line in shown)
    assert any(line.startswith("certified") and f"{audit.violation_upper:.4f}" in line for line in shown)
    assert any(line.startswith("test of v = 0") for line in shown)
    page.choose("policy", "randomized")
    soft = counts_of(results_folder, "erm", "xz", 0.0, "randomized")
    shown = [row.text for row in page.all("#audit tr")]
    assert any(line.startswith("test of v = 0") for line in shown)  # the records hold the squares that it needs
    assert any(f"{float(np.trace(soft.sum(1)) / soft.sum()):.4f}" in line for line in shown)


def test_the_limit_and_the_share_of_it(page, results_folder, hull):
    page.slide(1)
    curve = Results.read(results_folder).limit("two")
    best = np.interp(hull.violation[1], curve.violation, curve.utility)
    assert page.number("share") == pytest.approx(hull.utility[1] / best)
    assert len(page.all("#plot .limit")) == 1
    page.find("#legend input[value=limit]").click()
    assert not page.all("#plot .limit")
    page.choose("y", "accuracy")  # the limit is of u
    assert not page.all("#plot .limit")
