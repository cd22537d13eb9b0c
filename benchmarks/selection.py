"""How often a chosen point exceeds its budget in truth, and what the guarantee costs, by
simulation.

    python -m benchmarks.selection [--repetitions 500] [--rows 2000 10000 50000]

A random finite law p(x, y, z) per repetition (12 values of x, two labels, two groups) and a path of
11 randomised policies between the Bayes posterior and a constant, whose true v and u are known. The
budget is drawn between the path's ends. n rows, in five folds, are what the rules see; the
guarantee uses the same rows as its hold-out, so the comparison is at equal data. "oracle" knows the
truth and may mix. Prints a Markdown table.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.progress import track

from separatrix import conditional_mutual_information as violation
from separatrix import mutual_information as utility
from separatrix.core.counts import CountTable
from separatrix.errors import InfeasibleError
from separatrix.frontier.trained_choice import best_pair, select
from separatrix.frontier.trained_points import Candidate

SIZES, PATH, FOLDS = (2_000, 10_000, 50_000), np.linspace(0, 1, 11), 5
RULES: dict[str, dict[str, object]] = {
    "fold mean, single": {"option": "single"},
    "fold mean, mixture": {"option": "mixture"},
    "95 %, sequence, single": {"option": "single", "confidence": 0.95},
    "95 %, mixture": {"option": "mixture", "confidence": 0.95},
}


def world(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A law p[x, y, z] and posteriors q[λ, x, z, u]."""
    p_xz = rng.dirichlet(np.full(24, 2.0)).reshape(12, 2)
    bayes = 1 / (1 + np.exp(-(rng.normal(0, 1.5, 12)[:, None] + rng.normal(0, 0.7, 2))))
    p = np.stack([p_xz * (1 - bayes), p_xz * bayes], axis=1)
    sharp = bayes**3 / (bayes**3 + (1 - bayes) ** 3)
    q = (1 - PATH)[:, None, None] * sharp + PATH[:, None, None] * p[:, 1].sum()
    return p, np.stack([1 - q, q], axis=-1)


def tables(counts: np.ndarray, q: np.ndarray) -> np.ndarray:
    """N[..., λ, y, z, u] of counts [..., x, y, z]."""
    return np.einsum("...xyz,lxzu->...lyzu", counts, q)


def moments(counts: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.einsum("xyz,lxzu,lxzw->lyzuw", counts, q, q)


def repetition(n: int, rng: np.random.Generator) -> dict[str, tuple[float, float, bool]]:
    """For each rule: true v over budget, true u over the oracle's, and whether it found
    anything.
    """
    p, q = world(rng)
    true = tables(p, q)
    v, u = violation(true), utility(true)
    budget = float(v[0] * rng.uniform(0.02, 0.8))
    rows = rng.multinomial([n // FOLDS] * FOLDS, p.ravel()).reshape(FOLDS, *p.shape).astype(float)
    seen, whole, square = tables(rows, q), tables(rows.sum(0), q), moments(rows.sum(0), q)
    names = (0, 1)
    candidates = [
        Candidate(
            "path",
            float(t),
            "randomized",
            seen[:, i],
            held_out=(CountTable(whole[i], names, names, names, rows=n, moments=square[i]),),
        )
        for i, t in enumerate(PATH)
    ]
    i, j, w = best_pair(u, v[:, None], np.array([budget])) or (0, 0, 1.0)
    oracle = w * u[i] + (1 - w) * u[j]
    out = {}
    for name, options in RULES.items():
        try:
            chosen = select(candidates, max_violation=budget, **options).chosen  # type: ignore[arg-type]
        except InfeasibleError:
            out[name] = (0.0, 0.0, False)
            continue
        at = [int(np.argmin(np.abs(PATH - component.trade_off))) for component in chosen.components]
        weights = np.array(chosen.weights)
        out[name] = (float(weights @ v[at]) / budget, float(weights @ u[at]) / oracle, True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--rows", type=int, nargs="*", default=SIZES)
    asked = parser.parse_args()
    repetitions = asked.repetitions
    print(f"{repetitions} repetitions; nominal failure rate of the 95 % rules: 0.05\n")
    print(
        "| rows | rule | exceeds the budget | by a factor (95th percentile) | u / oracle | no "
        "answer |"
    )
    print("|---|---|---|---|---|---|")
    for n in asked.rows:
        rng = np.random.default_rng(n)
        found = [
            repetition(n, rng) for _ in track(range(repetitions), f"{n:,} rows", transient=True)
        ]
        for rule in RULES:
            factor, share, answered = (np.array([one[rule][k] for one in found]) for k in range(3))
            print(
                f"| {n:,} | {rule} | {(factor > 1 + 1e-9).mean():.3f} | "
                f"{np.quantile(factor, 0.95):.2f} "
                f"| {share.mean():.3f} | {1 - answered.mean():.3f} |"
            )


if __name__ == "__main__":
    main()
