"""Who reads the page, and where: by keyboard, on a phone, in the dark, on paper; names are never
markup.
"""

from __future__ import annotations

import base64
import re
import shutil

import numpy as np
import pytest

from separatrix.frontier import page as report
from separatrix.frontier.store import Store

pytestmark = pytest.mark.browser


@pytest.fixture
def open_renamed(open_page, results_folder, tmp_path):
    """Opens the report with other names in dataset `two`:
    `open_renamed({"title": …}, groups=…)`.
    """

    def open_it(card, file="report.html", **about):
        folder = tmp_path / "results"
        shutil.copytree(results_folder, folder)
        store = Store(folder)
        old = store.datasets()["two"]
        store.describe("two", old | about | {"card": old["card"] | card})
        page = open_page(report.write(folder, tmp_path / file))
        page.option("dataset", "two")
        return page

    return open_it


def test_everything_is_reached_by_keyboard(page, part):
    reached = set()
    page.script("document.activeElement.blur()")
    for _ in range(40):
        page.press("TAB")
        reached.add(page.script("const a = document.activeElement; return a.id || a.name || a.getAttribute('class')"))
    wanted = {"dataset", "policy", "x", "y", "scope", "point", "slider", "budget-violation", "budget-eo_gap", "folder"}
    assert wanted | {"command", "python"} <= reached
    page.slide(0)
    page.press(*["ARROW_RIGHT"] * 3, at="#slider")
    assert page.weight() == pytest.approx(0.03)
    order = np.argsort(part["violation"], kind="stable")
    page.script("document.querySelector('#plot .point').focus()")
    page.press("END")
    assert page.text("#tip").splitlines()[0] == part["name"][order[-1]]
    page.press("ARROW_LEFT", "ENTER")
    assert page.text("#mixture") == f"One predictor: {part['name'][order[-2]]}."
    assert page.script("return document.activeElement.getAttribute('class')") == "point"


def test_it_fits_a_phone(open_renamed):
    """With names that have no place to break."""
    long = "A" * 120
    card = {"title": long, "source": long, "notes": [long]}
    about = {"groups": [long, "b"], "labels": ["no", long], "features": [long], "sensitive": [long]}
    page = open_renamed(card, file=f"{long}.html", **about)
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
            "return Math.min(...[...document.querySelectorAll('#plot text')].map(t => "
            "t.getBoundingClientRect().height))"
        )
        assert small >= 10


def luminance(colour: str) -> float:
    channel = np.array([int(v) for v in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.where(channel <= 0.03928, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_has_contrast_in_both_modes(page, mode):
    """At least 4.5, as WCAG asks."""
    page.emulate(scheme=mode)
    paper = luminance(page.script("return getComputedStyle(document.body).backgroundColor"))
    assert (paper > 0.5) == (mode == "light")
    for css in ("h1", "#subtitle", "#chosen td", "pre", "#plot text"):
        name = "fill" if css == "#plot text" else "color"
        ink = luminance(page.script(f"return getComputedStyle(document.querySelector('{css}')).{name}"))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5


def test_it_prints_light_and_without_the_slider(page):
    page.emulate(media="print", scheme="dark")
    assert luminance(page.script("return getComputedStyle(document.body).backgroundColor")) > 0.9
    assert not page.find(".slider").is_displayed()
    assert page.find("#chosen").is_displayed()
    page.emulate()
    printed = base64.b64decode(page.browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6


NASTY = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">'


def test_markup_in_a_name_stays_text(open_renamed):
    about = {"groups": [NASTY, "</script><b>b"], "labels": ["{{ 7 * 7 }}", "'\"&amp;"]}
    about |= {"target": NASTY, "sensitive": [NASTY], "features": [NASTY]}
    page = open_renamed({"title": NASTY, "notes": [NASTY]}, **about)
    page.choose("policy", "deterministic")
    page.slide(0)
    assert page.script("return window.hacked") is None
    assert page.script("return document.querySelectorAll('script').length") == 2
    assert page.script("return document.querySelectorAll('img, b').length") == 0
    rows = page.all("#rates tr[data-label]")
    assert [rows[0].text.startswith(f"Y = {{{{ 7 * 7 }}}} {NASTY}"), "</script><b>b" in rows[1].text] == [True, True]
    assert rows[3].text.startswith(f"Y = '\"&amp; {NASTY}=</script><b>b")
    assert NASTY in page.text("#subtitle")
    assert NASTY in page.all(".card")[1].text
    assert page.browser.get_log("browser") == []
