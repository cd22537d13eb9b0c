"""Boosted trees with the penalty on UCI's own test file of Adult, on which nothing was chosen.

    python -m benchmarks.peers confirm [--write]

Models of all rows of Adult, measured on `adult/adult.test.gz` of SEPARATRIX_DATA. λ = 0.19 was
chosen on inner folds of the training rows after λ = 0.2 had been seen here; the others before.
v20 is I(S; Z | Y) of the score in 20 bins; its floor is what shuffled groups show.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np

import separatrix as sx
from benchmarks._measuring import publish
from separatrix import methods
from separatrix.datasets import adult
from separatrix.methods import Lane, Sample

PATHS = (("default", "xz", (0.0, 0.19, 0.2)), ("score", "x", (0.0, 0.45, 0.7)))
QUICK = ("--paths", "1")
HEAD = ["adult.test", "v", "u", "EO gap", "accuracy", "accuracy at ½", "EO gap at ½", "AUROC"]
HEAD += ["v20", "its floor", "largest gap"]


def test_file(data: Any) -> tuple[Any, Any, Any]:
    """Labels, groups and features of adult.test, prepared as the training rows."""
    path = Path(os.environ["SEPARATRIX_DATA"], "adult", "adult.test.gz")
    text = gzip.decompress(path.read_bytes()).decode().splitlines()
    lines = [line.rstrip(".") for line in text if line.strip() and not line.startswith("|")]
    wanted = (*data.preprocessing.columns, "sex", "income")
    how = {"header": adult._COLUMNS, "only": wanted, "missing": frozenset({"?"})}
    rows = adult.read_csv(lines, source=path.name, **how)
    income, sex = rows.pop("income"), rows.pop("sex")
    assert (income.levels, sex.levels) == (data.labels, data.groups)
    unseen = data.preprocessing.transform(rows)
    return income.codes.astype(np.intp), sex.codes.astype(np.intp), unseen


def shown(y: Any, z: Any, q: Any) -> list[float]:
    """The draw, the decision at ½ and the score of posteriors (n, 2)."""
    draw = sx.audit(y, q, sensitive_features=z)
    hard = sx.audit(y, (q[:, 1] > 0.5).astype(int), sensitive_features=z)
    score = sx.audit_score(y, q[:, 1], sensitive_features=z)
    return [
        *(draw.violation, draw.utility, draw.eo_gap, draw.accuracy, hard.accuracy, hard.eo_gap),
        *(score.auroc, score.violation, score.violation_floor, score.gap),
    ]


def main(paths: int = len(PATHS), write: bool = False) -> None:
    """The table of docs/evidence/penalty.md."""
    data = sx.datasets.load("adult", features="full")
    y, z, unseen = test_file(data)
    sample, lines = Sample(data.preprocessing.transform(data.columns), data.y, data.z, 2, 2), []
    for recipe, inputs, grid in PATHS[:paths]:
        how = {"recipe": recipe, "use_sensitive": inputs == "xz"}
        fitted = methods.fit("cmi_boosting", sample, [Lane(t) for t in grid], **how)
        for trade_off, q in zip(grid, fitted.posteriors(unseen, z), strict=True):
            cells = (f"{x:.1e}" if x < 0.005 else f"{x:.4f}" for x in shown(y, z, q))
            lines.append([f"{recipe}, {inputs}, λ = {trade_off}", *cells])
    publish("penalty", HEAD, lines, write)
