"""The first part of a trace's page, in a real browser: decisions, the chosen answer, scores."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from separatrix.frontier.folder import write_checksums
from separatrix.frontier.store import Store

pytestmark = pytest.mark.browser

NASTY = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">'


@pytest.fixture(scope="module")
def traced_report(traced, tmp_path_factory):
    return traced.report(tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture
def opened(open_page, traced_report):
    return open_page(traced_report)


def answers_of(page):
    return json.loads(page.script("return document.getElementById('data').textContent"))["datasets"][0]["ship"]


def test_it_opens_on_decisions_that_one_would_ship(opened, traced):
    assert opened.browser.get_log("browser") == []
    assert opened.script("return performance.getEntriesByType('resource').length") == 0
    assert opened.text("#sentence") == traced.shippable.sentence()
    best = traced.shippable.usual()
    assert opened.text("#answer-name") == best.name
    cell = opened.find("#answer tr[data-metric=accuracy] td[data-column=this]")
    assert float(cell.get_attribute("data-value")) == best.value("accuracy")
    assert f"{best.value('accuracy'):.4f}" in cell.text
    assert "always 'no'" in opened.text("#answer tr[data-metric=accuracy] th")
    assert opened.text("#answer-command").startswith("separatrix select '")
    assert not opened.find("#budget-status").is_displayed()  # budgets are solved, not looked up


def test_answers_are_drawn_where_they_lie(opened):
    ship = answers_of(opened)
    drawn = {int(p.get_attribute("data-answer")): p.get_attribute("transform") for p in opened.all("#decisions .point")}
    assert ship["start"] in drawn
    place = {i: [float(v) for v in t[10:-1].split()] for i, t in drawn.items()}
    kept = [i for i in place if ship["answers"][i]["kind"] in ("plain", "decisions", "chosen")]
    gap = np.array([ship["answers"][i]["promise"]["eo_gap"][0] for i in kept])
    accuracy = np.array([ship["answers"][i]["promise"]["accuracy"][0] for i in kept])
    across, down = np.array([place[i] for i in kept]).T
    slope, start = np.polyfit(accuracy, down, 1)
    assert slope < 0
    assert np.abs(slope * accuracy + start - down).max() < 0.01
    order = np.argsort(gap)
    assert (np.diff(across[order])[np.diff(gap[order]) > 1e-9] > 0).all()


def test_a_row_a_point_and_a_key_choose_an_answer(opened):
    ship = answers_of(opened)
    plain = next(i for i, a in enumerate(ship["answers"]) if a["kind"] == "plain")
    opened.find(f"#offers tr[data-answer='{plain}'] button").click()
    assert opened.text("#answer-name") == "plain model"
    assert not opened.find("#answer-command").is_displayed()
    opened.script("document.querySelector('#decisions .point[tabindex=\"0\"]').focus()")
    opened.press("HOME", "ENTER")
    assert opened.text("#answer-name") != "plain model"
    rates = opened.all("#answer-rates tr[data-label]")
    assert len(rates) == 4
    score = next(i for i, a in enumerate(ship["answers"]) if a["kind"] == "score")
    opened.find(f"#offers tr[data-answer='{score}'] button").click()
    assert "at every threshold" in opened.text("#answer") or "all thresholds" in opened.text("#answer")
    assert "--maximize auroc" in opened.text("#answer-command")


def test_the_scores_have_a_curve_per_group(opened):
    opened.find("#scores-section summary").click()
    figures = opened.all("#scores figure")
    assert [f.text.splitlines()[0] for f in figures] == [
        "plain score", "separated score", "plain score, without the group",
    ]  # fmt: skip
    assert len(opened.all("#scores polyline")) == 6
    assert opened.all("#scores-legend li")[0].text in ("sex=f", "sex=m")


def test_it_is_short_until_it_is_unfolded(opened):
    screen = {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    opened.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    assert opened.script("return document.documentElement.scrollHeight") <= 2_000
    folded = opened.all("details.fold > summary")
    assert [part.text.split(",")[0] for part in folded] == [
        "Scores: the ROC curve of each group", "The criteria side by side", "Every point in nats",
        "The data",
    ]  # fmt: skip
    assert not opened.find("#plot").is_displayed()
    folded[2].click()
    width = "return document.querySelector('#plot svg').viewBox.baseVal.width"
    assert opened.script(f"await new Promise(requestAnimationFrame); {width}") > 500


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 360, 768])
def test_nothing_is_wider_than_the_screen(open_page, traced_report, width, scheme):
    page = open_page(traced_report)
    page.emulate(scheme=scheme)
    screen = {"width": width, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    assert page.script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert page.script("return window.innerWidth") == width
    wide = page.script(
        "return [...document.querySelectorAll('table')].filter((t) => "
        "!t.closest('details:not([open])') && "
        "t.getBoundingClientRect().right > window.innerWidth + 1).map((t) => t.id)"
    )
    assert wide == []
    assert "±" in page.text("#offers")  # a phone keeps the errors


def test_names_of_a_trace_are_never_markup(traced, open_page, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(traced.folder, folder)
    store = Store(folder)
    old = store.datasets()[traced.name]
    store.describe(traced.name, old | {"groups": [NASTY, "b"], "labels": ["a", NASTY]})
    write_checksums(folder)
    page = open_page(type(traced)(folder).report(tmp_path / "report.html"))
    assert page.script("return window.hacked") is None
    assert page.script("return document.querySelectorAll('img').length") == 0
    assert NASTY in page.text("#sentence")
    assert page.browser.get_log("browser") == []
