"""The peers on a table set aside: the same rows, scikit-learn's boosted trees as they come.

Post-processors get trees on 70 % of the rows and thresholds on the others, as their guides advise.
error-parity and oxonfair run in environments of their own and are given these scores in a file.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fairlearn.reductions import EqualizedOdds
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.peers.compare import ROOT, python_of
from benchmarks.peers.fairlearn_peers import decided, mixture_of, rule_of
from benchmarks.peers.public_tables import Table

Array = NDArray[np.float64]
ASKED, ASIDE, PATIENCE = 0.05, 0.3, 300
MEMORY = 8 * 2**30


class UnableError(Exception):
    """A peer cannot do this table, and why."""


class Split:
    """Rows to fit and rows set aside, with codes of labels and groups."""

    def __init__(self, table: Table, seed: int) -> None:
        rng = np.random.default_rng(seed)
        aside = rng.random(len(table.y)) < ASIDE
        self.seed, self.labels, self.groups = seed, sorted(set(table.y)), sorted(set(table.z))
        self.X, self.y, self.z = (part[~aside] for part in (table.X, table.y, table.z))
        self.fresh = Table(table.X[aside], table.y[aside], table.z[aside])
        text = [c for c in table.X if not pd.api.types.is_numeric_dtype(table.X[c])]
        numbers = pd.get_dummies(table.X, columns=text, dtype=float)
        group = pd.get_dummies(table.z, dtype=float)
        matrix = np.column_stack([numbers.to_numpy(float), group.to_numpy()])
        self.matrix, self.fresh_matrix = matrix[~aside], matrix[aside]

    def codes(self, y: Any, z: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Codes of labels and groups."""
        return (
            np.searchsorted(self.labels, y.to_numpy(str)),
            np.searchsorted(self.groups, z.to_numpy(str)),
        )

    @cached_property
    def held_out(self) -> tuple[NDArray[np.bool_], Array, Array, float]:
        """Rows for the thresholds, the trees' scores of them and of the fresh rows, CPU seconds."""
        start = time.process_time()
        held = np.random.default_rng(self.seed).random(len(self.y)) < 0.3
        trees = HistGradientBoostingClassifier(random_state=self.seed)
        trees.fit(self.matrix[~held], self.codes(self.y, self.z)[0][~held])
        own, fresh = (trees.predict_proba(m)[:, 1] for m in (self.matrix[held], self.fresh_matrix))
        return held, own, fresh, time.process_time() - start


Decided = tuple[Array, float]  # P(U | row) of the fresh rows, CPU seconds


def plain(split: Split, folder: Path) -> Decided:
    """The trees as they are: their posteriors, to be decided by the most likely label."""
    start = time.process_time()
    model = HistGradientBoostingClassifier(random_state=split.seed)
    model.fit(split.matrix, split.y)
    cpu = time.process_time() - start
    return np.asarray(model.predict_proba(split.fresh_matrix)), cpu


def threshold_optimizer(split: Split, folder: Path) -> Decided:
    """fairlearn's, which knows an EO gap of 0 only."""
    held, own, fresh, cpu = split.held_out
    start = time.process_time()
    rule = rule_of(own, *split.codes(split.y[held], split.z[held]))
    cpu += time.process_time() - start
    q = decided(rule, split.codes(split.fresh.y, split.fresh.z)[1], fresh)
    return np.column_stack([1.0 - q, q]), cpu


def exponentiated_gradient(split: Split, folder: Path) -> Decided:
    """fairlearn's reductions around the same trees, difference bound 0.05."""
    trees = HistGradientBoostingClassifier(random_state=split.seed)
    constraint = EqualizedOdds(difference_bound=ASKED)
    start = time.process_time()
    try:
        decide = mixture_of(trees, constraint, split.matrix, *split.codes(split.y, split.z), 20)
    except ValueError as error:
        raise UnableError(str(error).splitlines()[0]) from error
    cpu = time.process_time() - start
    q = decide(split.fresh_matrix)
    return np.column_stack([1.0 - q, q]), cpu


def _limit_memory() -> None:
    """A grid over the thresholds of many groups asks for more than there is."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def elsewhere(module: str, environment: str, split: Split, folder: Path) -> Decided:
    """A post-processor of benchmarks.peers in its own environment, at one budget."""
    held, own, fresh, cpu = split.held_out
    y, z = split.codes(split.y[held], split.z[held])
    y_new, z_new = split.codes(split.fresh.y, split.fresh.z)
    rows = {"y": np.r_[y, y_new], "z": np.r_[z, z_new], "blind": np.arange(0)}
    rows |= {"X": np.zeros((len(rows["y"]), 0)), "fold": np.repeat([1, 0], [len(y), len(y_new)])}
    rows |= {"held out 0 rows": np.arange(len(y)), "held out 0 scores": own}
    rows |= {"held out 0 test": fresh[None], "held out 0 cpu": np.array(cpu)}
    quiet = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    python = str(python_of(environment, folder / "environments").absolute())
    with tempfile.TemporaryDirectory() as place:
        there, out = Path(place, "rows.npz"), Path(place, "out.npz")
        np.savez(there, **rows)  # type: ignore[arg-type]  # arrays by name
        command = [python, "-W", "ignore", "-m", f"benchmarks.peers.{module}", str(there), str(out)]
        try:
            done = subprocess.run(
                [*command, "one budget", "--folds", "1"],
                cwd=ROOT, env=quiet, timeout=PATIENCE, capture_output=True, text=True,
                preexec_fn=_limit_memory,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise UnableError(f"did not end within {PATIENCE} s") from error
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
            raise UnableError(said[-1])
        with np.load(out) as found:
            q, about = found["q"][0, len(y) :].astype(float), json.loads(str(found["about"]))
    return np.column_stack([1.0 - q, q]), float(about["cpu"][0])


PEERS: dict[str, Callable[[Split, Path], Decided]] = {
    "trees as they are": plain,
    "error-parity": partial(elsewhere, "error_parity", "error-parity"),
    "oxonfair": partial(elsewhere, "oxonfair", "oxonfair"),
    "ThresholdOptimizer": threshold_optimizer,
    "ExponentiatedGradient": exponentiated_gradient,
}
