"""Draw-level against score-level `cmi`: AUROC beside the violation of the score, five test folds.

    python -m benchmarks.score_level [adult_full | adult | compas | bank ...] [--write]

Both levels train with the recipe "score" of `cmi`, the draw-level one with `level="draw"`, so that
only the penalty differs. Columns are means over the test folds: AUROC; v20 = I(S; Z | Y) of the
score in 20 bins; the v20 that this score would show with groups shuffled within labels (the floor
of the measurement); the largest EO gap over all thresholds; v and u of the draw. The first row is
scikit-learn's boosted trees as they come. Nothing is chosen on test rows. With --write the tables
go into docs/training.md.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

import separatrix as sx
from benchmarks._measuring import DOCS, markdown, write_between_markers
from benchmarks.recipes import load
from separatrix import methods
from separatrix.core import information
from separatrix.methods import Lane, Sample
from separatrix.nn.evaluation import tables

Array = NDArray[np.float64]
GRID = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
HEADER = ["", "λ", "AUROC", "v20", "floor", "largest gap", "v of the draw", "u of the draw"]


def judge(q: Array, y: NDArray[np.int64], z: NDArray[np.int64]) -> list[float]:
    """The columns of one test fold from its posteriors (n, 2)."""
    tiny = np.finfo(np.float32).tiny
    score = np.log(np.maximum(q[:, 1], tiny)) - np.log(np.maximum(q[:, 0], tiny))
    audit = sx.audit_score(y, score, sensitive_features=z)
    table = tables(q[None], y, z, 2, int(z.max()) + 1)[0]
    draw = information.conditional_mutual_information(table), information.mutual_information(table)
    return [audit.auroc, audit.violation, audit.violation_floor, audit.gap, *map(float, draw)]


def rows_of(name: str, use_sensitive: bool) -> list[list[str]]:
    X, y, z = load(name)
    fold = sx.datasets.folds(y, z, 5)
    inputs = np.column_stack([z, X]) if use_sensitive else X
    seen = []
    for k in range(5):
        trees = HistGradientBoostingClassifier(random_state=0)
        trees.fit(inputs[fold != k], y[fold != k])
        seen.append(judge(trees.predict_proba(inputs[fold == k]), y[fold == k], z[fold == k]))
    found = [("boosted trees", "", np.mean(seen, 0))]
    lanes = [Lane(t, np.flatnonzero(fold != k)) for k in range(5) for t in GRID]
    for level in ("draw", "score"):
        start = time.process_time()
        recipe = replace(methods.get("cmi").recipes["score"], level=level)
        fitted = methods.fit(
            "cmi", Sample(X, y, z), lanes, recipe=recipe, use_sensitive=use_sensitive
        )
        seconds = time.process_time() - start
        q = fitted.posteriors(X, z).reshape(5, len(GRID), len(y), -1)
        for i, trade_off in enumerate(GRID):
            values = [judge(q[k, i][fold == k], y[fold == k], z[fold == k]) for k in range(5)]
            if trade_off or level == "draw":  # λ = 0 is the same network
                found.append(
                    (level if trade_off else "network", f"{trade_off}", np.mean(values, 0))
                )
        print(f"{name} {level}: {seconds / 5:.1f} s of CPU a fold for {len(GRID)} λ", flush=True)
    return [
        [name, trade_off, *(f"{v:.{d}f}" for v, d in zip(values, (4, 4, 4, 3, 5, 4), strict=True))]
        for name, trade_off, values in found
    ]


def main() -> None:
    names = [a for a in sys.argv[1:] if not a.startswith("-")] or ["adult_full"]
    parts = []
    for name in names:
        for use_sensitive in (False, True):
            table = markdown(HEADER, rows_of(name, use_sensitive))
            parts.append(f"{name}, {'[Z|X]' if use_sensitive else 'X alone'}:\n\n{table}")
            print(parts[-1], flush=True)
    if "--write" in sys.argv:
        write_between_markers(DOCS / "training.md", "score_level", "\n\n".join(parts))


if __name__ == "__main__":
    main()
