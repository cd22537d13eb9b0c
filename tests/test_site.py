"""The built site (`make docs`): no dead link, no error in the browser, readable on a phone."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import separatrix as sx

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}

pytestmark = [pytest.mark.site, pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built: run `make docs`")]


class _Reader(HTMLParser):
    """Links, pictures and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.foreign: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        target = given.get("href") or given.get("src")
        if target is None or target.startswith(("mailto:", "data:")):
            return
        if not target.startswith(("http://", "https://")):
            self.links.append(target)
        elif tag != "a" and given.get("rel") != "canonical":
            self.foreign.append(target)


@cache
def _read(page: Path) -> _Reader:
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


def pages() -> list[Path]:
    return sorted(p for p in SITE.rglob("*.html") if "_static" not in p.parts)


def test_no_link_is_dead_and_nothing_is_loaded_from_elsewhere():
    dead, foreign = [], []
    for page in pages():
        reader = _read(page)
        foreign += [f"{page.name}: {target}" for target in reader.foreign]
        for link in reader.links:
            path, anchor = urldefrag(link)
            target = page if not path else (page.parent / unquote(path.split("?")[0])).resolve()
            named = not anchor or target.suffix != ".html" or unquote(anchor) in _anchors(target)
            if not (target.is_file() and named):
                dead.append(f"{page.relative_to(SITE)} → {link}")
    assert (dead, foreign) == ([], [])


def _anchors(page: Path) -> set[str]:
    return _read(page).anchors | {""}


def test_every_public_name_has_its_place():
    described = set().union(*(_read(p).anchors for p in (SITE / "reference/api").glob("*.html")))
    rooms = {"datasets", "integrations", "methods", "metrics", "nn", "theory"}
    names = {name.rsplit(".", 1)[-1] for name in described}
    public = {*sx.__all__, *sx.theory.__all__, *sx.metrics.__all__} - {"population"}
    assert public - rooms - names == set()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_readable_on_a_phone_without_an_error(browser, scheme):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    browser.get_log("browser")
    wide, errors = [], []
    shown = pages() if scheme == "light" else pages()[::6]
    try:
        for page in shown:
            browser.get(page.as_uri())
            too_wide = browser.execute_script("return document.documentElement.scrollWidth > window.innerWidth")
            wide += [str(page.relative_to(SITE))] if too_wide else []
            errors += [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE"]
        assert browser.execute_script("return document.documentElement.dataset.theme") == scheme
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert (wide, errors) == ([], [])
