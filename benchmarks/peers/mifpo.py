"""The best accuracy within a parity gap by MIFPO, and by `limit` on the same distribution.

    python -m benchmarks.peers mifpo --clone FOLDER [--bins 10 20 40] [--write]

MIFPO (NeurIPS 2025) searches all representations of two groups for the least error whose
distributions are within a gap in total variation, on a histogram of calibrated scores; a decision
is the best of them. FOLDER is a clone of github.com/bp6725/FairPareto, whose optimiser runs in an
environment of its own with its default of two points for each pair of bins. Both get the same
histograms: of LightGBM's out-of-fold scores. More than two groups it does not take.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.model_selection import cross_val_predict

import separatrix as sx
from benchmarks._measuring import publish
from benchmarks.peers.compare import ONE_CORE, python_of
from benchmarks.peers.rows import FOLDER

QUICK = None  # needs the clone
GAPS = (0.0, 0.02, 0.05, 0.1, 0.2)
SOLVE = """
import importlib.util, json, sys, time
import numpy as np
spec = importlib.util.spec_from_file_location("optimizer", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
np.random.seed(0)  # it starts anywhere
share, centres, masses, gaps = json.load(sys.stdin)
(pv, pu), (V, U) = (np.array(x)[:, :, None] for x in (centres, masses))
front, errors = module.EvelPertoFront(len(pu), len(pv), 2, share, pu, pv, U, V), []
start = time.process_time()
for gap in gaps:
    front.solve_for_gamma(gap)
    errors.append(float(front.results[gap]))
print(json.dumps([errors, time.process_time() - start]))
"""
Array = NDArray[np.float64]


def tables() -> Iterator[tuple[str, NDArray[np.intp], Array]]:
    """Name, groups and scores: Adult by sex, ACSIncome by sex and by race (nine groups)."""
    adult = sx.datasets.load("adult", features="full")
    acs = pd.read_parquet(Path(os.environ["SEPARATRIX_DATA"], "acs", "acs_income_2018_1yr_us.parquet"))
    acs = acs.sample(100_000, random_state=0)
    X, y = acs.drop(columns=["row", "split", "ST", "PINCP_gt_50000"]), acs["PINCP_gt_50000"].to_numpy(int)
    trees = LGBMClassifier(n_jobs=1, verbose=-1)
    of_adult, of_acs = (
        cross_val_predict(trees, features, outcome, method="predict_proba")[:, 1]
        for features, outcome in ((np.column_stack([adult.X, adult.z]), adult.y), (X, y))
    )
    yield "Adult by sex", adult.z, of_adult
    for title, column in (("ACSIncome by sex", "SEX"), ("ACSIncome by race", "RAC1P")):
        yield title, np.unique(acs[column], return_inverse=True)[1], of_acs


def main(clone: str = "", bins: Sequence[int] = (10, 20, 40), write: bool = False) -> None:
    """A line for each table, number of bins and gap."""
    python, lines = python_of("mifpo", FOLDER / "environments"), []
    for title, z, score in tables():
        groups = np.unique(z)
        for n in bins:
            counts, edges = zip(*(np.histogram(score[z == g], n) for g in groups), strict=True)
            mass, p = np.array(counts, float), np.array([(e[:-1] + e[1:]) / 2 for e in edges])
            # each bin as two weighted rows, one of each label
            y, weight = np.repeat([0, 1], p.size), np.concatenate([(mass * (1 - p)).ravel(), (mass * p).ravel()])
            some, of_row = weight > 0, np.tile(np.repeat(groups, n), 2)
            start, rows = time.process_time(), {"sensitive_features": of_row[some], "sample_weight": weight[some]}
            best = sx.limit(
                y[some], np.tile(p.ravel(), 2)[some], **rows, maximize="accuracy", budget="parity_gap", levels=GAPS
            )
            seconds, theirs = time.process_time() - start, (np.full(len(GAPS), np.nan), np.nan)
            if len(groups) == 2:
                shares = [mass[1].sum() / mass.sum(), p.tolist(), (mass / mass.sum(1, keepdims=True)).tolist(), GAPS]
                done = subprocess.run(
                    [python, "-c", SOLVE, str(Path(clone, "fairpareto", "optimizer.py").resolve())],
                    input=json.dumps(shares), capture_output=True, text=True, check=True, cwd=FOLDER,
                    env=os.environ | ONE_CORE,
                )  # fmt: skip
                errors, took = json.loads(done.stdout.splitlines()[-1])
                theirs = 1.0 - np.array(errors), took
            for row in zip(GAPS, theirs[0], best.values, best.upper - best.values, strict=True):
                formats = zip(row, ("g", ".5f", ".5f", ".0e"), strict=True)
                cells = [f"{x:{how}}" for x, how in formats]
                lines.append([title, str(n), *cells, f"{theirs[1]:.2f}", f"{seconds:.2f}"])
    head = ["Table", "Bins", "Parity gap", "MIFPO", "Ours", "Ours: certified gap"]
    lines = [[cell.replace("nan", "–") for cell in line] for line in lines]
    publish("mifpo", [*head, "MIFPO: CPU s, all gaps", "Ours: CPU s"], lines, write)
