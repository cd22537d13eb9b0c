"""A headless Chromium, and the report of the small sweep."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium through its own driver; nothing is downloaded."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium (a [dev] dependency) is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium and chromedriver here (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,1000",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield made
    made.quit()


@pytest.fixture(scope="session")
def report_path(results_folder, tmp_path_factory) -> Path:
    from separatrix import report

    return report.write(results_folder, tmp_path_factory.mktemp("report") / "report.html")
