"""A worker that the system ends during a trace: one sentence, no temporary file, and the next run
goes on from what was finished.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import separatrix as sx
from separatrix.errors import SeparatrixError

pytestmark = pytest.mark.slow


def end_if_worker(flag):
    """End this process, as the system does for want of memory, unless the file names it."""
    if Path(flag).is_file() and os.getpid() != int(Path(flag).read_text()):
        os.kill(os.getpid(), signal.SIGKILL)


class Ending:
    """An estimator whose worker ends while it is fitted."""

    def __init__(self, flag=""):
        super().__init__()
        self.flag = flag

    def fit(self, X, y, sample_weight=None):
        end_if_worker(self.flag)
        return super().fit(X, y, sample_weight)


class Mortal(Ending, LogisticRegression):
    pass


class MortalRegressor(Ending, LinearRegression):
    pass


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    z, y = rng.integers(0, 2, (2, 300))
    return {"X": rng.normal(size=(300, 2)) + y[:, None], "y": y, "sensitive_features": z}


def left_over(folder):
    return [path for path in folder.rglob("*") if "unfinished" in path.name]


@pytest.mark.nightly
def test_a_trace_says_so_and_resumes(rows, tmp_path):
    flag, out = tmp_path / "full", tmp_path / "trace"
    flag.write_text(str(os.getpid()))
    how = {"estimator": Mortal(str(flag)), "method": [], "cv": 3, "out": out, "progress": False}
    with pytest.raises(SeparatrixError, match="run again to resume") as error:
        sx.trace(**rows, **how, n_jobs=2)
    assert len(str(error.value).splitlines()) == 1
    assert not left_over(tmp_path)
    flag.unlink()
    found = sx.trace(**rows, **how)
    plain = sx.trace(**rows, **how | {"out": tmp_path / "other"})
    np.testing.assert_array_equal(found.nested.honest, plain.nested.honest)


@pytest.mark.nightly
def test_a_trace_of_numbers_promises_no_more_than_it_keeps(rows, tmp_path):
    flag = tmp_path / "full"
    flag.write_text(str(os.getpid()))
    numbers = rows | {"y": rows["X"].sum(1)}
    with pytest.raises(SeparatrixError, match="Run again, with fewer processes"):
        sx.trace(
            **numbers, task="regression", estimator=MortalRegressor(str(flag)), cv=3, n_jobs=2,
            out=tmp_path / "trace", progress=False,
        )  # fmt: skip
    assert not left_over(tmp_path)
