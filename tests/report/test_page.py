"""The page in a real browser: what it shows is compared with the records, read again by other code."""

from __future__ import annotations

import base64
import re
import shutil

import numpy as np
import pytest
from scipy.stats import binomtest

from separatrix import report
from separatrix.auditing import Audit
from separatrix.counts import CountTable
from separatrix.envelope import concave_envelope, pareto
from separatrix.figures import Results
from separatrix.sweep import Store, means, read, select

pytest.importorskip("selenium")

from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By

SHORT = {"violation": "v", "utility": "u", "eo_gap": "EO gap", "accuracy": "accuracy", "auroc": "AUROC"}


class Page:
    """The open report, by what a reader sees."""

    def __init__(self, browser, path) -> None:
        self.browser = browser
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        browser.get(path.as_uri())

    def find(self, css: str):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def text(self, css: str) -> str:
        return self.find(css).text

    def choose(self, name: str, value: str) -> None:
        self.find(f"input[name={name}][value={value}]").click()

    def option(self, box: str, text: str) -> None:
        next(o for o in self.all(f"#{box} option") if o.text == text).click()

    def type(self, css: str, text: str) -> None:
        field = self.find(css)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE)
        field.send_keys(text)

    def slide(self, t: float) -> None:
        self.browser.execute_script(
            "const s = document.getElementById('slider'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input', {bubbles: true}))",
            t,
        )

    def number(self, metric: str, column: str = "chosen", of: str = "value") -> float:
        shown = self.find(f"#chosen tr[data-metric={metric}] td[data-column={column}]").get_attribute(f"data-{of}")
        return float(shown) if shown else float("nan")

    def script(self, code: str, *arguments):
        return self.browser.execute_script(code, *arguments)


@pytest.fixture
def page(browser, report_path) -> Page:
    made = Page(browser, report_path)
    made.option("dataset", "two")
    return made


@pytest.fixture(scope="module")
def mean(results_folder):
    """Fold means of dataset `two`, read from the records."""
    return select(means(read(results_folder)), dataset="two")


def label(part, i) -> str:
    name = {"cmi": "CMI", "raw_cmi": "Raw CMI", "erm": "ERM ([Z|X])"}[part["method"][i]]
    name = "ERM (X)" if part["inputs"][i] == "x" else name
    return f"{name}, λ = {part['trade_off'][i]:g}"


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
    drawn = page.all("#plot .point")
    assert len(drawn) == len(part["method"])
    places = {}
    for point in drawn:
        name = point.get_attribute("aria-label").split(";")[0]
        places[name] = [float(v) for v in re.findall(r"-?[\d.]+", point.get_attribute("transform"))]
    where = np.array([places[label(part, i)] for i in range(len(part["method"]))])
    for pixel, metric in ((where[:, 0], x), (where[:, 1], y)):
        slope, start = np.polyfit(part[metric], pixel, 1)
        assert np.abs(slope * part[metric] + start - pixel).max() < 0.01
        assert (slope > 0) == (metric == x)  # up is less in pixels


def test_hovering_tells_the_point(page, mean):
    part = select(mean, policy="randomized")
    i = int(np.argmax(part["violation"]))
    target = next(p for p in page.all("#plot .point") if p.get_attribute("aria-label").startswith(label(part, i)))
    ActionChains(page.browser).move_to_element(target).perform()
    lines = page.text("#tip").splitlines()
    assert lines[0] == label(part, i)
    for line, (metric, name) in zip(lines[1:], SHORT.items(), strict=False):
        shown, sd = re.fullmatch(rf"{name} (\S+) ± (\S+)", line).groups()
        assert float(shown) == pytest.approx(part[metric][i], abs=6e-5)
        assert float(sd) == pytest.approx(part[f"{metric}_sd"][i], abs=6e-5)
    ActionChains(page.browser).move_to_element(page.find("h1")).perform()
    assert not page.find("#tip").is_displayed()


@pytest.mark.parametrize(("x", "y"), [("violation", "utility"), ("eo_gap", "accuracy")])
def test_the_slider_shows_the_two_predictors_and_the_weight(page, mean, x, y):
    page.choose("x", x)
    page.choose("y", y)
    part = select(mean, policy="randomized")
    hull = concave_envelope(part[x], part[y])
    assert int(page.find("#slider").get_attribute("max")) == len(hull.index) - 1
    for i in range(len(hull.index) - 1):
        page.slide(i + 0.37)
        at = hull.violation[i] + 0.37 * (hull.violation[i + 1] - hull.violation[i])
        mixture = hull.mixture(at)
        assert float(page.find("#mixture").get_attribute("data-weight")) == pytest.approx(mixture.weight, abs=1e-9)
        assert page.text("#mixture") == (
            f"A revealed mixture: with probability 63 % {label(part, mixture.first)}, "
            f"with probability 37 % {label(part, mixture.second)}."
        )
        assert page.number(x) == pytest.approx(at)
        assert page.number(y) == pytest.approx(float(hull.at(at)))
        for column, j in (("first", mixture.first), ("second", mixture.second)):
            for metric in SHORT:
                assert page.number(metric, column) == pytest.approx(part[metric][j])
                assert page.number(metric, column, "sd") == pytest.approx(part[f"{metric}_sd"][j])
        assert np.isnan(page.number("auroc"))  # two models have no common ranking
    page.slide(0)
    assert page.text("#mixture") == f"One predictor: {label(part, hull.index[0])}."


def test_the_standard_deviation_of_a_mixture_is_that_of_its_folds(page, mean, results_folder):
    part = select(mean, policy="randomized")
    hull = concave_envelope(part["violation"], part["utility"])
    page.slide(0.25)
    runs = []
    for j in hull.index[:2]:
        own = select(read(results_folder), dataset="two", policy="randomized", method=part["method"][j])
        own = select(own, inputs=part["inputs"][j], trade_off=part["trade_off"][j])
        runs.append(own["utility"][np.argsort(own["fold"])])
    assert page.number("utility", of="sd") == pytest.approx(np.std(0.75 * runs[0] + 0.25 * runs[1], ddof=1))


def test_a_ranking_is_not_mixed(page, mean):
    page.choose("y", "auroc")
    part = select(mean, policy="randomized")
    front = pareto(part["violation"], part["auroc"])
    assert page.find("#slider").get_attribute("step") == "1"
    for i, j in enumerate(front):
        page.slide(i)
        assert page.text("#mixture") == f"One predictor: {label(part, j)}."


def test_an_envelope_of_one_method(page, mean):
    page.option("scope", "Raw CMI")
    part = select(mean, policy="randomized", method="raw_cmi")
    hull = concave_envelope(part["violation"], part["utility"])
    page.slide(len(hull.index) - 1)
    assert page.number("utility") == pytest.approx(part["utility"].max())
    assert page.text("#mixture") == f"One predictor: {label(part, hull.index[-1])}."


def test_a_budget_on_v_chooses_the_envelope_there_and_gives_the_commands(page, mean, results_folder):
    part = select(mean, policy="randomized")
    hull = concave_envelope(part["violation"], part["utility"])
    most = float(f"{(hull.violation[0] + hull.violation[1]) / 2:.3g}")
    page.type("#budget-violation", str(most))
    assert page.number("violation") == pytest.approx(most, rel=1e-6)
    assert page.number("utility") == pytest.approx(float(hull.at(most)), rel=1e-6)
    assert "keeps v ≤" in page.text("#budget-status")
    assert page.all("#plot .feasible")
    assert page.all("#plot rect.budget")
    for point in page.all("#plot .point"):
        name = point.get_attribute("aria-label").split(";")[0]
        i = next(i for i in range(len(part["method"])) if label(part, i) == name)
        assert (point.get_attribute("opacity") == "1") == (part["violation"][i] <= most)
    number = page.script("return String(arguments[0])", most)
    assert page.text("#command") == (
        f"separatrix select {results_folder} --max-violation {number} --maximize utility --offer mixture --out model"
    )
    lines = page.text("#python").splitlines()
    assert len(lines) == 3
    assert lines[1] == (
        f'point = sx.load_frontier("{results_folder}")'
        f'.select(max_violation={number}, maximize="utility", offer="mixture")'
    )
    compile("\n".join(lines), "page", "exec")
    page.type("#folder", "it's here")
    assert page.text("#command").startswith(r"separatrix select 'it'\''s here' --max-violation")


def test_two_budgets_hold_at_once(page, mean):
    part = select(mean, policy="randomized")
    hull = concave_envelope(part["violation"], part["utility"])
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


def test_a_budget_that_nothing_keeps_says_the_smallest(page, mean):
    page.option("scope", "ERM (X)")
    page.type("#budget-violation", "1e-9")
    smallest = select(mean, policy="randomized", method="erm", inputs="x")["violation"].min()
    found = re.search(r"The smallest: v (\S+)\.$", page.text("#budget-status"))
    assert float(found[1]) == pytest.approx(smallest, abs=6e-5)
    assert not page.all("#plot .feasible")
    page.type("#budget-violation", "")
    assert page.text("#budget-status").startswith("Fill in a box")


def counts_of(results_folder, method, inputs, trade_off, policy):
    own = select(read(results_folder), dataset="two", policy=policy, method=method, inputs=inputs, trade_off=trade_off)
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
        chosen, beside = (row.find_element(By.CSS_SELECTOR, f"td[data-column={c}]") for c in ("chosen", "ERM"))
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
    audit = Audit.of(CountTable(counts, (0, 1), (0, 1), (0, 1), int(counts.sum())))
    shown = [row.text for row in page.all("#audit tr")]
    assert any(f"{audit.violation:.4f}" in line and "interval" in line for line in shown)
    assert any(line.startswith("certified") and f"{audit.violation_upper:.4f}" in line for line in shown)
    assert any(line.startswith("test of v = 0") for line in shown)
    page.choose("policy", "randomized")
    soft = counts_of(results_folder, "erm", "xz", 0.0, "randomized")
    shown = [row.text for row in page.all("#audit tr")]
    assert not any(line.startswith("test of") for line in shown)  # the records do not hold what a test needs
    assert any(f"{float(np.trace(soft.sum(1)) / soft.sum()):.4f}" in line for line in shown)


def test_the_limit_and_the_share_of_it(page, results_folder, mean):
    part = select(mean, policy="randomized")
    hull = concave_envelope(part["violation"], part["utility"])
    page.slide(1)
    curve = Results.read(results_folder).limit("two")
    best = np.interp(hull.violation[1], curve.violation, curve.utility)
    assert page.number("share") == pytest.approx(hull.utility[1] / best)
    assert len(page.all("#plot .limit")) == 1
    page.find("#legend input[value=limit]").click()
    assert not page.all("#plot .limit")
    page.choose("y", "accuracy")  # the limit is of u
    assert not page.all("#plot .limit")


def test_both_policies_at_once(page, mean):
    page.choose("policy", "both")
    hull = concave_envelope(mean["violation"], mean["utility"])
    page.slide(len(hull.index) - 1)
    i = hull.index[-1]
    policy = {"randomized": "randomised", "deterministic": "deterministic"}[mean["policy"][i]]
    assert page.text("#mixture") == f"One predictor: {label(mean, i)}, {policy}."
    assert len(page.all("#plot .point")) == len(mean["method"])
    assert policy in page.text("#audit-title")  # ERM beside it, under the same policy
    page.type("#budget-violation", "0.002")
    assert page.number("utility") == pytest.approx(float(hull.at(0.002)), rel=1e-6)


def test_stretching_small_values_moves_points_along_the_root(page, mean):
    part = select(mean, policy="randomized")
    page.find("#stretch").click()
    places = {
        point.get_attribute("aria-label").split(";")[0]: float(
            re.search(r"[\d.]+", point.get_attribute("transform"))[0]
        )
        for point in page.all("#plot .point")
    }
    pixel = np.array([places[label(part, i)] for i in range(len(part["method"]))])
    root = np.sqrt(part["violation"])
    slope, start = np.polyfit(root, pixel, 1)
    assert np.abs(slope * root + start - pixel).max() < 0.01


def test_hiding_a_series_removes_its_points(page, mean):
    total = len(page.all("#plot .point"))
    page.find("#legend input[value='0']").click()
    assert len(page.all("#plot .point")) == total - len(select(mean, policy="randomized", method="cmi")["method"])


def test_dragging_in_the_chart_moves_along_the_envelope(page, mean):
    part = select(mean, policy="randomized")
    hull = concave_envelope(part["violation"], part["utility"])
    svg = page.find("#plot")  # its drawing is made anew at every move
    start = (-svg.size["width"] // 2 + 75, -svg.size["height"] // 2 + 30)
    page.slide(len(hull.index) - 1)
    drag = ActionChains(page.browser).move_to_element_with_offset(svg, *start).click_and_hold()
    drag.move_by_offset(5, 0).perform()
    before = page.number("violation")
    ActionChains(page.browser).move_by_offset(20, 0).perform()
    after = page.number("violation")
    ActionChains(page.browser).release().perform()
    assert hull.violation[0] <= before < after <= hull.violation[-1]
    assert page.number("utility") == pytest.approx(float(hull.at(after)), rel=1e-6)
    ActionChains(page.browser).move_by_offset(40, 0).perform()
    assert page.number("violation") == after  # released


def test_everything_is_reached_by_keyboard(page, mean):
    reached = set()
    page.script("document.activeElement.blur()")
    for _ in range(40):
        ActionChains(page.browser).send_keys(Keys.TAB).perform()
        reached.add(page.script("const a = document.activeElement; return a.id || a.name || a.getAttribute('class')"))
    wanted = {"dataset", "policy", "x", "y", "scope", "point", "slider", "budget-violation", "budget-eo_gap", "folder"}
    assert wanted | {"command", "python"} <= reached
    page.slide(0)
    page.find("#slider").send_keys(Keys.ARROW_RIGHT * 3)
    assert float(page.find("#mixture").get_attribute("data-weight")) == pytest.approx(0.03)
    part = select(mean, policy="randomized")
    order = np.argsort(part["violation"], kind="stable")
    page.script("document.querySelector('#plot .point').focus()")
    ActionChains(page.browser).send_keys(Keys.END).perform()
    assert page.text("#tip").splitlines()[0] == label(part, order[-1])
    ActionChains(page.browser).send_keys(Keys.ARROW_LEFT, Keys.ENTER).perform()
    assert page.text("#mixture") == f"One predictor: {label(part, order[-2])}."
    assert page.script("return document.activeElement.getAttribute('class')") == "point"


def test_another_dataset(page, results_folder):
    page.option("dataset", "three")
    assert page.text("#title") == "three"
    assert len(page.all("#rates tr[data-label]")) == 9
    part = select(means(read(results_folder)), dataset="three", policy="randomized")
    hull = concave_envelope(part["violation"], part["utility"])
    page.slide(len(hull.index) - 1)
    assert page.number("utility") == pytest.approx(part["utility"].max())
    assert [card.is_displayed() for card in page.all(".card")] == [True, False]  # `three` comes first
    assert "macro average" in page.text("#notes")


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A small frontier with its models."""
    from separatrix import datasets
    from separatrix.tracing import trace

    data = datasets.load("synthetic", law="bayes", n=900, labels=2, groups=2, random_state=2)
    folder = tmp_path_factory.mktemp("traced") / "a frontier"
    trace(
        data.X,
        data.y,
        sensitive_features=data.z,
        trade_offs=(0.0, 0.4, 1.0),
        cv=2,
        out=folder,
        progress=False,
        references=False,
    )
    return folder


@pytest.mark.parametrize(
    ("policy", "y", "t"),
    [
        ("both", "utility", 0.6),
        ("both", "utility", 1.0),
        ("deterministic", "accuracy", 1.0),
        ("randomized", "auroc", 1.0),
    ],
)
def test_the_three_lines_ship_the_point_that_is_shown(browser, traced, tmp_path, monkeypatch, policy, y, t):
    from separatrix.tracing import load_frontier

    monkeypatch.chdir(tmp_path)
    page = Page(browser, load_frontier(traced).report(tmp_path / "report.html"))
    page.choose("policy", policy)
    page.choose("y", y)
    page.slide(t)
    if t != int(t):  # a budget that lies between two points, as a reader would type it
        page.type("#budget-violation", f"{page.number('violation'):.6f}")
    names: dict = {}
    exec(page.text("#python"), names)
    chosen = names["point"].selection.chosen
    assert chosen.value == pytest.approx(page.number(y), rel=1e-6)
    assert chosen.means["violation"] == pytest.approx(page.number("violation"), rel=1e-6)
    assert len(chosen.parts) == (2 if page.text("#mixture").startswith("A revealed mixture") else 1)
    assert (tmp_path / "model" / "MODEL_CARD.md").is_file()


NASTY = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">'


def test_markup_in_a_name_stays_text(browser, results_folder, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(results_folder, folder)
    with Store(folder) as store:
        about = store.datasets()["two"]
        about |= {"groups": [NASTY, "</script><b>b"], "labels": ["{{ 7 * 7 }}", "'\"&amp;"], "target": NASTY}
        about |= {"sensitive": [NASTY], "features": [NASTY], "card": about["card"] | {"title": NASTY, "notes": [NASTY]}}
        store.describe("two", about)
    page = Page(browser, report.write(folder, tmp_path / "report.html"))
    page.option("dataset", "two")
    page.choose("policy", "deterministic")
    page.slide(0)
    assert page.script("return window.hacked") is None
    assert page.script("return document.querySelectorAll('script').length") == 2
    assert page.script("return document.querySelectorAll('img, b').length") == 0
    rows = page.all("#rates tr[data-label]")
    assert [rows[0].text.startswith(f"Y = {{{{ 7 * 7 }}}} {NASTY}"), "</script><b>b" in rows[1].text] == [True, True]
    assert rows[3].text.startswith("Y = '\"&amp; </script><b>b")
    assert NASTY in page.text("#subtitle")
    assert NASTY in page.all(".card")[1].text
    assert page.browser.get_log("browser") == []


def test_it_fits_a_phone(browser, results_folder, tmp_path):
    """With names that have no place to break."""
    folder = tmp_path / "results"
    shutil.copytree(results_folder, folder)
    long = "A" * 120
    with Store(folder) as store:
        about = store.datasets()["two"]
        about |= {"groups": [long, "b"], "labels": ["no", long], "features": [long], "sensitive": [long]}
        about["card"] |= {"title": long, "source": long, "notes": [long]}
        store.describe("two", about)
    page = Page(browser, report.write(folder, tmp_path / f"{long}.html"))
    page.option("dataset", "two")
    page.type("#folder", long)
    for width in (320, 390):
        page.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 800, "deviceScaleFactor": 2, "mobile": True},
        )
        page.slide(0.5)
        assert page.script("return document.documentElement.scrollWidth") <= width
        assert page.find("#plot svg").rect["width"] > 0.85 * width
        small = page.script(
            "return Math.min(...[...document.querySelectorAll('#plot text')].map(t => t.getBoundingClientRect().height))"
        )
        assert small >= 10


def luminance(colour: str) -> float:
    channel = np.array([int(v) for v in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.where(channel <= 0.03928, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_has_contrast_in_both_modes(page, mode):
    """At least 4.5, as WCAG asks."""
    scheme = [{"name": "prefers-color-scheme", "value": mode}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    paper = luminance(page.script("return getComputedStyle(document.body).backgroundColor"))
    assert (paper > 0.5) == (mode == "light")
    for css in ("h1", "#subtitle", "#chosen td", "pre", "#plot text"):
        name = "fill" if css == "#plot text" else "color"
        ink = luminance(page.script(f"return getComputedStyle(document.querySelector('{css}')).{name}"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5


def test_it_prints_light_and_without_the_slider(page):
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": scheme})
    assert luminance(page.script("return getComputedStyle(document.body).backgroundColor")) > 0.9
    assert not page.find(".slider").is_displayed()
    assert page.find("#chosen").is_displayed()
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    printed = base64.b64decode(page.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6
