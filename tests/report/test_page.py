"""What is drawn, in a real browser: compared with the records, read again by other code."""

from __future__ import annotations

import re

import numpy as np
import pytest

from separatrix.core.envelope import concave_envelope, pareto
from separatrix.frontier.results import Results, means, select

pytestmark = pytest.mark.browser

SHORT = {
    "violation": "v",
    "utility": "u",
    "eo_gap": "EO gap",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auroc": "AUROC",
}


def test_it_opens_offline_without_an_error_and_loads_nothing(page):
    assert page.browser.get_log("browser") == []
    assert page.script("return performance.getEntriesByType('resource').length") == 0
    assert page.script("return document.querySelectorAll('[src], link, iframe, object, embed, img').length") == 0
    policy = page.find("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'")


@pytest.mark.parametrize("policy", ["randomized", "deterministic"])
@pytest.mark.parametrize(("x", "y"), [("violation", "utility"), ("eo_gap", "accuracy"), ("eo_gap", "auroc")])
def test_points_are_drawn_where_the_records_say(page, mean, policy, x, y):
    page.choose("policy", policy)
    page.choose("x", x)
    page.choose("y", y)
    part = select(mean, policy=policy)
    assert len(page.points()) == len(part["name"])
    places = page.places()
    where = np.array([places[name] for name in part["name"]])
    for pixel, metric in ((where[:, 0], x), (where[:, 1], y)):
        slope, start = np.polyfit(part[metric], pixel, 1)
        assert np.abs(slope * part[metric] + start - pixel).max() < 0.01
        assert (slope > 0) == (metric == x)  # up is less in pixels


def test_hovering_tells_the_point(page, part):
    i = int(np.argmax(part["violation"]))
    point = dict(page.points())[part["name"][i]]  # its bars end at the frame: not its middle
    page.actions().move_to_element(page.find("circle:last-child", point)).perform()
    lines = page.text("#tip").splitlines()
    assert lines[0] == part["name"][i]
    for line, (metric, name) in zip(lines[1 : len(SHORT) + 1], SHORT.items(), strict=True):
        shown, sd = re.fullmatch(rf"{name} (\S+) ± (\S+)", line).groups()
        assert float(shown) == pytest.approx(part[metric][i], abs=6e-5)
        assert float(sd) == pytest.approx(part[f"{metric}_sd"][i], abs=6e-5)
    page.actions().move_to_element(page.find("h1")).perform()
    assert not page.find("#tip").is_displayed()


def test_hiding_a_series_removes_its_points(page, part):
    total = len(page.all("#plot .point"))
    page.find("#legend input[value='0']").click()
    assert len(page.all("#plot .point")) == total - len(select(part, method="cmi")["method"])


def test_stretching_small_values_moves_points_along_the_root(page, part):
    page.find("#stretch").click()
    places = page.places()
    pixel = np.array([places[name][0] for name in part["name"]])
    root = np.sqrt(part["violation"])
    slope, start = np.polyfit(root, pixel, 1)
    assert np.abs(slope * root + start - pixel).max() < 0.01


@pytest.mark.parametrize(("x", "y"), [("violation", "utility"), ("eo_gap", "accuracy")])
def test_the_slider_shows_the_two_predictors_and_the_weight(page, part, x, y):
    page.choose("x", x)
    page.choose("y", y)
    hull = concave_envelope(part[x], part[y])
    assert int(page.find("#slider").get_attribute("max")) == len(hull.index) - 1
    for i in range(len(hull.index) - 1):
        page.slide(i + 0.37)
        at = hull.violation[i] + 0.37 * (hull.violation[i + 1] - hull.violation[i])
        mixture = hull.mixture(at)
        assert page.weight() == pytest.approx(mixture.weight, abs=1e-9)
        assert page.text("#mixture") == (
            f"A revealed mixture: with probability 63 % {part['name'][mixture.first]}, "
            f"with probability 37 % {part['name'][mixture.second]}."
        )
        assert page.number(x) == pytest.approx(at)
        assert page.number(y) == pytest.approx(float(hull.at(at)))
        for column, j in (("first", mixture.first), ("second", mixture.second)):
            for metric in SHORT:
                assert page.number(metric, column) == pytest.approx(part[metric][j])
                assert page.number(metric, column, "sd") == pytest.approx(part[f"{metric}_sd"][j])
        assert np.isnan(page.number("auroc"))  # two models have no common ranking
    page.slide(0)
    assert page.text("#mixture") == f"One predictor: {part['name'][hull.index[0]]}."


def test_the_standard_deviation_of_a_mixture_is_that_of_its_folds(page, part, hull, results_folder):
    page.slide(0.25)
    runs = []
    for j in hull.index[:2]:
        own = select(Results.read(results_folder).columns, dataset="two", policy="randomized", method=part["method"][j])
        own = select(own, inputs=part["inputs"][j], trade_off=part["trade_off"][j])
        runs.append(own["utility"][np.argsort(own["fold"])])
    assert page.number("utility", of="sd") == pytest.approx(np.std(0.75 * runs[0] + 0.25 * runs[1], ddof=1))


def test_a_ranking_is_not_mixed(page, part):
    page.choose("y", "auroc")
    front = pareto(part["violation"], part["auroc"])
    assert page.find("#slider").get_attribute("step") == "1"
    for i, j in enumerate(front):
        page.slide(i)
        assert page.text("#mixture") == f"One predictor: {part['name'][j]}."


def test_an_envelope_of_one_method(page, part):
    page.option("scope", "Raw CMI")
    own = select(part, method="raw_cmi")
    hull = concave_envelope(own["violation"], own["utility"])
    page.slide(len(hull.index) - 1)
    assert page.number("utility") == pytest.approx(own["utility"].max())
    assert page.text("#mixture") == f"One predictor: {own['name'][hull.index[-1]]}."


def test_both_policies_at_once(page, mean):
    page.choose("policy", "both")
    hull = concave_envelope(mean["violation"], mean["utility"])
    page.slide(len(hull.index) - 1)
    i = hull.index[-1]
    policy = {"randomized": "randomised", "deterministic": "deterministic"}[mean["policy"][i]]
    assert page.text("#mixture") == f"One predictor: {mean['name'][i]}, {policy}."
    assert len(page.all("#plot .point")) == len(mean["method"])
    assert policy in page.text("#audit-title")  # ERM beside it, under the same policy
    page.type("#budget-violation", "0.002")
    assert page.number("utility") == pytest.approx(float(hull.at(0.002)), rel=1e-6)


def test_dragging_in_the_chart_moves_along_the_envelope(page, hull):
    svg = page.find("#plot")  # its drawing is made anew at every move
    start = (-svg.size["width"] // 2 + 75, -svg.size["height"] // 2 + 30)
    page.slide(len(hull.index) - 1)
    drag = page.actions().move_to_element_with_offset(svg, *start).click_and_hold()
    drag.move_by_offset(5, 0).perform()
    before = page.number("violation")
    page.actions().move_by_offset(20, 0).perform()
    after = page.number("violation")
    page.actions().release().perform()
    assert hull.violation[0] <= before < after <= hull.violation[-1]
    assert page.number("utility") == pytest.approx(float(hull.at(after)), rel=1e-6)
    page.actions().move_by_offset(40, 0).perform()
    assert page.number("violation") == after  # released


def test_another_dataset(page, results_folder):
    page.option("dataset", "three")
    assert page.text("#title") == "three"
    assert len(page.all("#rates tr[data-label]")) == 9
    part = select(means(Results.read(results_folder).columns), dataset="three", policy="randomized")
    hull = concave_envelope(part["violation"], part["utility"])
    page.slide(len(hull.index) - 1)
    assert page.number("utility") == pytest.approx(part["utility"].max())
    assert [card.is_displayed() for card in page.all(".card")] == [True, False]  # `three` comes first
    assert "macro average" in page.text("#notes")
