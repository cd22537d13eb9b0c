"""Draw-level against score-level `cmi`: AUROC beside the violation of the score, five test folds.

    python -m benchmarks.score_level [adult_full | adult | compas | bank ...] [--write]

Both levels train with the recipe "score" of `cmi`, the draw-level one with `level="draw"`, so that
only the penalty differs. Columns are means over the test folds: AUROC; v20 = I(S; Z | Y) of the
score in 20 bins; the v20 that this score would show with groups shuffled within labels (the floor
of the measurement); v20 of the pooled test rows, whose floor is a fifth; the largest EO gap over
all thresholds; v and u of the draw. The first row is scikit-learn's boosted trees as they come.
Nothing is chosen on test rows. With --write the tables go into docs/evidence/training.md.
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
from separatrix.core.information import mutual_information
from separatrix.methods import Lane, Sample
from separatrix.nn.evaluation import tables

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
GRID = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
HEADER = [
    *("", "λ", "AUROC", "v20", "floor", "v20 pooled", "largest gap"),
    *("v of the draw", "u of the draw"),
]


def judge(q: Array, y: Codes, z: Codes, fold: Codes) -> list[str]:
    """The columns of one score from the posteriors (n, 2) of all test rows."""
    tiny = np.finfo(np.float32).tiny
    score = np.log(np.maximum(q[:, 1], tiny)) - np.log(np.maximum(q[:, 0], tiny))
    seen = []
    for k in range(5):
        rows = fold == k
        audit = sx.audit_score(y[rows], score[rows], sensitive_features=z[rows])
        table = tables(q[None, rows], y[rows], z[rows], 2, int(z.max()) + 1)[0]
        v, u = information.conditional_mutual_information(table), mutual_information(table)
        seen.append([audit.auroc, audit.violation, audit.violation_floor, audit.gap, v, u])
    auroc, v20, floor, gap, v, u = np.mean(seen, 0)
    pooled = sx.audit_score(y, score, sensitive_features=z).violation
    return [
        *(f"{number:.4f}" for number in (auroc, v20, floor, pooled)),
        *(f"{gap:.3f}", f"{v:.5f}", f"{u:.4f}"),
    ]


def rows_of(name: str, use_sensitive: bool) -> list[list[str]]:
    X, y, z = load(name)
    fold = sx.datasets.folds(y, z, 5)
    inputs = np.column_stack([z, X]) if use_sensitive else X
    q = np.empty((len(y), 2))
    for k in range(5):
        trees = HistGradientBoostingClassifier(random_state=0)
        trees.fit(inputs[fold != k], y[fold != k])
        q[fold == k] = trees.predict_proba(inputs[fold == k])
    found = [["boosted trees", "", *judge(q, y, z, fold)]]
    lanes = [Lane(t, np.flatnonzero(fold != k)) for k in range(5) for t in GRID]
    own = np.arange(len(y))
    for level in ("draw", "score"):
        start = time.process_time()
        recipe = replace(methods.get("cmi").recipes["score"], level=level)
        fitted = methods.fit(
            "cmi", Sample(X, y, z), lanes, recipe=recipe, use_sensitive=use_sensitive
        )
        seconds = time.process_time() - start
        of_fold = fitted.posteriors(X, z).reshape(5, len(GRID), len(y), -1)
        for i, trade_off in enumerate(GRID):
            if trade_off or level == "draw":  # λ = 0 is the same network
                kind = level if trade_off else "network"
                q = of_fold[fold, i, own]
                found.append([kind, f"{trade_off}", *judge(q, y, z, fold)])
        print(f"{name} {level}: {seconds / 5:.1f} s of CPU a fold for {len(GRID)} λ", flush=True)
    return found


def main() -> None:
    names = [a for a in sys.argv[1:] if not a.startswith("-")] or ["adult_full"]
    parts = []
    for name in names:
        for use_sensitive in (False, True):
            table = markdown(HEADER, rows_of(name, use_sensitive))
            parts.append(f"{name}, {'[Z|X]' if use_sensitive else 'X alone'}:\n\n{table}")
            print(parts[-1], flush=True)
    if "--write" in sys.argv:
        write_between_markers(DOCS / "evidence" / "training.md", "score_level", "\n\n".join(parts))


if __name__ == "__main__":
    main()
