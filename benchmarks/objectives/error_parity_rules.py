"""error-parity's rules for given scores; runs in its own environment, without separatrix.

    python -m benchmarks.objectives.error_parity_rules SCORES.npz OUT.npz

Each fold of the file has scores with labels and groups to fit a rule to, and scores of test rows,
one row per member of a cross-fitted score; the decision is the mean over the members.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from error_parity import RelaxedThresholdOptimizer
from numpy.typing import NDArray

from benchmarks.objectives.budgets import BUDGETS, KINDS
from benchmarks.peers.error_parity import _probability


def rules(score: NDArray[Any], y: NDArray[Any], z: NDArray[Any]) -> list[dict[int, Any]]:
    """One linear programme per budget."""
    found = []
    for budget in BUDGETS:
        rule = RelaxedThresholdOptimizer(
            predictor=np.ravel,
            constraint="equalized_odds",
            tolerance=budget,
            false_pos_cost=1.0,
            false_neg_cost=1.0,
        )
        rule.fit(X=score[:, None], y=y, group=z)
        found.append(rule._realized_classifier.group_to_clf)
    return found


def decide(rule: dict[int, Any], score: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    """P(U=1) of every row."""
    q = np.empty(len(score))
    for group, own in rule.items():
        q[z == group] = _probability(own, score[z == group])
    return q


def main() -> None:
    """Rules and test decisions of every fold, and the CPU time of the rules."""
    scores, out = sys.argv[1:]
    found: dict[str, Any] = {}
    cpu: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    with np.load(scores) as data:
        for kind in KINDS:
            for k in range(5):
                rows, test = data[f"{kind} {k} rows"], data["fold"] == k
                start = time.process_time()
                fitted = rules(data[f"{kind} {k} scores"], data["y"][rows], data["z"][rows])
                cpu[kind] += time.process_time() - start
                members = data[f"{kind} {k} test"]
                found[f"{kind} {k}"] = np.stack(
                    [
                        np.mean([decide(rule, s, data["z"][test]) for s in members], axis=0)
                        for rule in fitted
                    ]
                )
    np.savez_compressed(out, cpu=np.array(json.dumps(cpu)), **found)


if __name__ == "__main__":
    main()
