"""The report of the small sweep in a browser, and the records that it shows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from separatrix.core.envelope import concave_envelope
from separatrix.frontier import page as report
from separatrix.frontier.results import Results, select


@pytest.fixture(scope="session")
def report_path(results_folder, tmp_path_factory) -> Path:
    return report.write(results_folder, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def open_page(browser):
    """Opens a report in the browser: `open_page(path)`."""
    from page import Page

    return partial(Page, browser)


@pytest.fixture
def page(open_page, report_path):
    """The report of the small sweep, at dataset `two`."""
    made = open_page(report_path)
    made.option("dataset", "two")
    return made


@pytest.fixture(scope="session")
def mean(results_folder):
    """Fold means of dataset `two`, read from the records; `name` is what the page calls the
    point.
    """
    made = select(Results.read(results_folder).mean, dataset="two")
    methods = {
        ("cmi", "xz"): "CMI",
        ("raw_cmi", "xz"): "Raw CMI",
        ("erm", "xz"): "ERM ([Z|X])",
        ("erm", "x"): "ERM (X)",
    }
    points = zip(made["method"], made["inputs"], made["trade_off"], strict=True)
    return made | {"name": np.array([f"{methods[method, inputs]}, λ = {value:g}" for method, inputs, value in points])}


@pytest.fixture(scope="session")
def part(mean):
    """Those of the randomised policy, which the page shows first."""
    return select(mean, policy="randomized")


@pytest.fixture(scope="session")
def hull(part):
    """Their envelope in the plane of v and u."""
    return concave_envelope(part["violation"], part["utility"])
