"""A test's call may take one second of CPU, its child processes included: `pytest --cpu-cap`.

What is dearer is marked `nightly`, or stands in `EXCEPTIONS` with a cap of its own. CPU time, not
the clock, so that a busy machine fails nothing; and seconds of the machine that the caps were set
on, so that a slow one does not either: a workload of known cost is timed beside every call that is
over its cap. SEPARATRIX_CPU_FACTOR=3 allows three times as much.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Generator
from importlib.util import find_spec

import numpy as np
import pytest

CAP = 1.0
NOISE = 1.25  # two runs of one test differ by so much
# One kill each of save, sweep and trace; one Dask cluster; the start page; the command line's main
# path. At most 15.
EXCEPTIONS = {
    "tests/predictor/test_saving.py::test_a_kill_at_any_moment_leaves_a_whole_model": 4.0,
    "tests/frontier/sweep/test_runner.py::test_kill_9_and_the_rerun_finds_the_same_numbers": 4.0,
    "tests/frontier/test_selection.py::test_a_killed_trace_goes_on_where_it_was": 6.0,
    "tests/auditing/test_frames.py::test_a_real_dask_cluster_of_two_workers": 6.0,
    "tests/test_docs.py::test_the_code_of_the_page_runs[docs/start.md]": 15.0,
    "tests/test_docs.py::test_the_code_of_the_page_runs[README.md]": 15.0,
    "tests/test_cli.py::test_the_same_trace_again_changes_nothing": 4.0,
    "tests/integrations/test_mlflow.py::test_the_report_and_the_table_of_a_frontier_are_artifacts": 2.0,
    "tests/frontier/test_shipping.py::test_select_and_predict_on_the_command_line": 5.0,
    "tests/predictor/test_saving.py::test_loading_needs_no_torch": 3.0,
    "tests/frontier/test_tracing.py::test_plot_and_report_are_whole_files": 3.0,
    "tests/frontier/test_numeric.py::test_a_file_from_trace_to_predictions": 3.0,
    "tests/optimum/test_decisions.py::test_more_budget_is_never_worse_and_all_of_it_is_the_free_"
    "optimum[utility-predictive_gap]": 3.0,
}
# The first test that needs one of these would pay for it: every process imports them before.
LIBRARIES = (
    "torch", "lightgbm", "sklearn.ensemble", "scipy.stats", "scipy.optimize", "matplotlib.pyplot",
    "pandas", "polars", "duckdb", "pyarrow.parquet", "separatrix.cli",
)  # fmt: skip
_REFERENCE = 0.032  # seconds of `_workload` where the caps were set


class CpuCap:
    """The plugin: fails a call that passed but took more than its cap."""

    def __init__(self) -> None:
        assert len(EXCEPTIONS) <= 15, "make a test cheaper, or nightly, before adding another"
        self.factor = NOISE * float(os.environ.get("SEPARATRIX_CPU_FACTOR", "1"))
        for name in LIBRARIES:
            if find_spec(name.partition(".")[0]):
                importlib.import_module(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        before = _cpu()
        result = yield
        spent = _cpu() - before
        cap = EXCEPTIONS.get(item.nodeid, EXCEPTIONS.get(item.nodeid.partition("[")[0], CAP))
        allowed = cap * self.factor
        if item.get_closest_marker("nightly") is not None or spent <= allowed:
            return result
        allowed *= max(1.0, _workload() / _REFERENCE)
        if spent > allowed:
            pytest.fail(
                f"{spent:.2f} s of CPU, and {allowed:.2f} are allowed here and now. Make it "
                "cheaper or mark it `nightly`; SEPARATRIX_CPU_FACTOR allows more everywhere.",
                pytrace=False,
            )
        return result


def _cpu() -> float:
    """Seconds of this process and of the children it has waited for."""
    return sum(os.times()[:4])


def _workload() -> float:
    """CPU seconds of a little Python and a little numpy: how fast is this machine?"""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        sum(i * i for i in range(1_000_000))
        np.sort(np.random.default_rng(0).random(600_000))
        seconds.append(time.process_time() - start)
    return min(seconds)
