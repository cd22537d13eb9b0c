"""Settings of the suite, and the folder of real data."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import hypothesis
import numpy as np
import pytest

pytest_plugins = ["models"]

# the suite repeats itself; `make fuzz` draws fresh examples, and more of them
hypothesis.settings.register_profile("separatrix", deadline=None, derandomize=True)
hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=1_000)
hypothesis.settings.load_profile(os.environ.get("SEPARATRIX_PROFILE", "separatrix"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-cap", action="store_true", help="a second of CPU per test: cpu_cap.py")


def pytest_configure(config: pytest.Config) -> None:
    # the controller of several workers runs no test
    if config.getoption("--cpu-cap") and not config.getoption("numprocesses", None):
        from cpu_cap import CpuCap

        config.pluginmanager.register(CpuCap())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs by night is slow as well."""
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, where there is one."""
    folder = os.environ.get("SEPARATRIX_DATA", "")
    if not os.path.isdir(folder):
        pytest.skip("SEPARATRIX_DATA is not set to a folder of data sets")
    return Path(folder)


def _once(tmp_path_factory, name: str, make: Callable[[Path], object]) -> Path:
    """A copy of the folder that `make` fills: one worker fills it, the others wait for it."""
    import fcntl  # not on Windows, where the core's tests run without this

    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / name).exists():
            make(shared / f"{name} in work")
            (shared / f"{name} in work").rename(shared / name)
    return Path(shutil.copytree(shared / name, tmp_path_factory.mktemp("own") / name))


@pytest.fixture(scope="session")
def results_folder(tmp_path_factory) -> Path:
    """Records of a small real sweep: two known laws (2 × 2 and 3 labels × 3 groups), three methods,
    three folds.

    For the rooms that read records. Its "limit" is a made-up concave curve.
    """
    pytest.importorskip("torch")
    return _once(tmp_path_factory, "results", _sweep)


def _sweep(folder: Path) -> None:
    from separatrix import datasets
    from separatrix.frontier.store import ReferenceCurve, Store
    from separatrix.frontier.sweep import Job, Source, grid, run

    quick = (("epochs", 2), ("min_steps", 60), ("batch", 256))
    jobs = [Job("cmi", (0.0, 0.3, 0.6, 1.0), changes=quick, keep=True), Job("raw_cmi", (0.0, 0.5, 1.0), changes=quick)]
    jobs += [Job("erm", changes=quick, keep=True), Job("erm", inputs="x", changes=quick)]
    sources = [
        Source(name, data=datasets.load("synthetic", law="bayes", n=1_500, labels=k, groups=k, random_state=k))
        for name, k in (("two", 2), ("three", 3))
    ]
    run(grid(sources, jobs, folds=3), folder)
    v = np.linspace(0.0, 0.05, 6)
    store = Store(folder)
    for source in sources:
        store.add_curve(ReferenceCurve(source.name, "limit", v, 0.1 + np.sqrt(v)))  # any concave curve does for drawing


@pytest.fixture(scope="session")
def traced(tmp_path_factory):
    """A small frontier in a folder: around logistic regression, and along the paper's penalty."""
    pytest.importorskip("torch")
    import separatrix as sx
    from people import applicants

    def make(folder: Path) -> None:
        frame = applicants()
        sx.trace(
            frame[["age", "job"]], frame["hired"], sensitive_features=frame["sex"],
            estimator="logistic", method="cmi", trade_offs=(0.0, 0.5, 1.0), cv=3,
            out=folder, progress=False,
        )  # fmt: skip

    return sx.Frontier.load(_once(tmp_path_factory, "a frontier", make))


@pytest.fixture(scope="session")
def traced_pay(tmp_path_factory):
    """A small frontier of a numeric target, around linear regression."""
    import separatrix as sx
    from people import paid

    def make(folder: Path) -> None:
        d = paid(0, 900)
        sx.trace(
            d[["test", "sex"]], d["pay"], sensitive_features=d["sex"], task="regression",
            estimator="linear", cv=3, out=folder, progress=False,
        )  # fmt: skip

    return sx.Frontier.load(_once(tmp_path_factory, "a frontier of pay", make))


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
