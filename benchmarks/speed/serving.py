"""CPU time of decisions: one row a request, and many rows at once, beside the bare model.

    python -m benchmarks.speed serving [--rows 1000000]

LightGBM with 100 trees and 10 features; a rule by group and one without the group, each loaded from
its folder. Coins belong to ids under a secret.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier

import separatrix as sx
from benchmarks._measuring import publish

QUICK = ("--rows", "20000")
SALT = "a secret of this measurement"


def cpu(work: Callable[..., Any], calls: int, *given: Any, **options: Any) -> float:
    """Seconds of CPU of one call, the best of three rounds."""
    work(*given, **options)
    rounds = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(calls):
            work(*given, **options)
        rounds.append((time.process_time() - start) / calls)
    return min(rounds)


def main(rows: int = 1_000_000) -> None:
    """Print the table of docs/howto/deploy.md."""
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(4_000, 10)), rng.choice(["f", "m"], 4_000)
    y = (X[:, 0] + 0.8 * (z == "m") + rng.normal(size=len(X)) > 0).astype(int)
    many, groups, ids = rng.normal(size=(rows, 10)), rng.choice(["f", "m"], rows), np.arange(rows)
    bare = LGBMClassifier(n_estimators=100, verbose=-1, n_jobs=1).fit(X, y)
    one, all_ = (cpu(lambda x=x, k=k: bare.predict_proba(x), k) for x, k in ((X[:1], 50), (many, 1)))
    lines = [["bare predict_proba", f"{1e3 * one:.2f}", f"{all_:.2f}", ""]]
    for blind, name in ((False, "rule by group"), (True, "rule without the group")):
        model = sx.FrontierClassifier(
            LGBMClassifier(n_estimators=100, verbose=-1, n_jobs=1), max_eo_gap=0.02, blind=blind,
            use_whole_budget=True, cv=3, random_state=0,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            model.fit(X, y, sensitive_features=z).save(f"{folder}/model")
            served = sx.load(f"{folder}/model")
        # a rule without the group is asked without it
        told = (None, None) if blind else (z[:1], groups)
        single = cpu(served.predict, 50, X[:1], told[0], ids=["anna"], salt=SALT)
        whole = cpu(served.predict, 1, many, told[1], ids=ids, salt=SALT)
        lines.append([name, f"{1e3 * single:.2f}", f"{whole:.2f}", f"{whole / all_:.1f} ×"])
    head = ["", "one row, ms", f"{rows:,} rows, s", "times the bare model"]
    publish("serving", head, lines, write=False)
