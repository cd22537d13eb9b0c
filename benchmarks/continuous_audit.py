"""The audit of numbers on laws whose v is known: how often the lower bound is above v, its share of
v, the level and power of the test, and the time.

    python -m benchmarks.continuous_audit [--repetitions 1000] [--write]

`--write` puts the tables into docs/reference/continuous.md. The laws of `_continuous_laws` were
written after every setting of the audit was fixed.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma, ndtri
from scipy.stats import rankdata

import separatrix as sx
from benchmarks._continuous_laws import LAWS, CopulaLaw, GroupLaw
from benchmarks._measuring import DOCS, machine, markdown, write_between_markers
from separatrix.auditing.continuous import ContinuousAudit

ROWS, MANY, TIMED = 2_000, 100_000, 1_000_000
MANY_REPETITIONS = 5
CROSS_CHECKED = ("separated, R² .997", "shift", "wider group", "continuous Z, heavy tails")


def audited(law: GroupLaw | CopulaLaw, n: int, seed: int) -> ContinuousAudit:
    y, u, z = law.sample(n, np.random.default_rng(seed))
    return sx.audit_regression(
        y,
        u,
        sensitive_features=z,
        numeric_target=law.target == "continuous",
        numeric_sensitive=law.sensitive == "continuous",
        random_state=seed,
    )


def row(law: GroupLaw | CopulaLaw, place: int, repetitions: int) -> list[str]:
    """One line of the table."""
    v = law.violation()
    v = 0.0 if v < 1e-9 else v  # rounding of the quadrature
    found = [audited(law, ROWS, 1_000_000 * place + r) for r in range(repetitions)]
    failed = np.mean([a.violation_lower > v for a in found])
    rejected = np.mean([a.p_value < 0.05 for a in found])
    shares = ["", ""]
    if v:
        many = [audited(law, MANY, 1_000_000 * place + r) for r in range(MANY_REPETITIONS)]
        shares = [f"{np.mean([a.violation_lower for a in s]) / v:.3f}" for s in (found, many)]
    return [law.name, f"{v:.4f}", f"{failed:.3f}", f"{rejected:.3f}", *shares]


def knn(y: np.ndarray, u: np.ndarray, z: np.ndarray, k: int = 10) -> float:
    """I(U; Z | Y) by nearest neighbours in the maximum norm (Frenzel and Pompe)."""
    rng = np.random.default_rng(0)
    y, u, z = ((rankdata(x + 1e-9 * rng.random(len(x))) / len(x))[:, None] for x in (y, u, z))
    joint = np.hstack([y, u, z])
    reach = cKDTree(joint).query(joint, k + 1, p=np.inf)[0][:, -1] - 1e-12
    counts = [
        cKDTree(x).query_ball_point(x, reach, p=np.inf, return_length=True)
        for x in (np.hstack([y, u]), np.hstack([y, z]), y)
    ]
    inside = digamma(counts[0]) + digamma(counts[1]) - digamma(counts[2])
    return float(digamma(k) - inside.mean())


def gaussian(y: np.ndarray, u: np.ndarray, z: np.ndarray) -> float:
    """I(U; Z | Y) if normal scores were jointly normal."""
    scores = np.stack([ndtri((rankdata(x) - 0.5) / len(x)) for x in (y, u, z)])
    inverse = np.linalg.inv(np.corrcoef(scores))
    return float(-0.5 * np.log1p(-(inverse[1, 2] ** 2) / (inverse[1, 1] * inverse[2, 2])))


def cross_check(law: GroupLaw | CopulaLaw, repetitions: int = 20) -> list[str]:
    """Means of two estimators that promise nothing, beside ours."""
    rows = [law.sample(ROWS, np.random.default_rng(r)) for r in range(repetitions)]
    ours = np.mean([audited(law, ROWS, r).violation_at_resolution for r in range(repetitions)])
    others = [np.mean([estimate(*one) for one in rows]) for estimate in (knn, gaussian)]
    return [law.name, *(f"{x:.4f}" for x in (max(law.violation(), 0.0), ours, *others))]


def timed() -> list[list[str]]:
    rng = np.random.default_rng(0)
    y, e, a = rng.normal(size=(3, TIMED))
    kinds = {"two groups": (a > 0).astype(int), "a continuous attribute": a}
    found = []
    for name, z in kinds.items():
        numeric = z.dtype.kind == "f"
        times = []
        for _ in range(3):
            start = time.process_time()
            sx.audit_regression(y, y + e + 0.3 * a, sensitive_features=z, numeric_sensitive=numeric)
            times.append(time.process_time() - start)
        found.append([name, f"{TIMED:,}", f"{min(times):.1f} s"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=1_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for place, law in enumerate(LAWS):
        rows.append(row(law, place, options.repetitions))
        print(" | ".join(rows[-1]), flush=True)
    head = ["law", "v", "P(lower > v)", "P(p < .05)"]
    head += [f"lower / v, {n:,} rows" for n in (ROWS, MANY)]
    checks = [cross_check(law) for law in LAWS if law.name in CROSS_CHECKED]
    text = "\n\n".join(
        [
            f"{options.repetitions:,} repetitions with {ROWS:,} rows each, {MANY_REPETITIONS} with "
            f"{MANY:,}.",
            markdown(head, rows),
            "Cross-checks, which promise nothing: nearest neighbours (k = 10) and a Gaussian "
            f"copula, means over 20 samples of {ROWS:,} rows.",
            markdown(["law", "v", "ours, at its resolution", "neighbours", "copula"], checks),
            f"CPU time, best of three. {machine('numpy', 'scipy')}",
            markdown(["attribute", "rows", "time"], timed()),
        ]
    )
    if options.write:
        write_between_markers(DOCS / "reference" / "continuous.md", "continuous_audit", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
