"""What a violation means in gaps, guesses and bets: the tables of docs/concepts/meaning.md.

    python -m benchmarks.simulations meaning [--write]

Two groups of equal size, decisions with a false positive rate around 0.2 and a true positive rate
around 0.7; exact sums and roots, and for the noise floor the normal approximation of the rates.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

import separatrix as sx
from benchmarks._measuring import publish

QUICK: tuple[str, ...] = ()
RATES = np.array([0.2, 0.7])  # P(U=1 | Y=0), P(U=1 | Y=1)
BALANCED, RARE = np.array([0.5, 0.5]), np.array([0.9, 0.1])
LEVELS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05)
ROWS = (500, 2_000, 10_000, 50_000)


def table(labels: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """The law P[y, z, u] of two equal groups whose rates differ by `gaps` in each label."""
    rates = RATES[:, None] + gaps[:, None] * np.array([-0.5, 0.5])
    return labels[:, None, None] * 0.5 * np.stack([1.0 - rates, rates], axis=2)


def violation(labels: np.ndarray, gaps: np.ndarray) -> float:
    """v = I(U;Z|Y) of that law."""
    return float(sx.theory.conditional_mutual_information(table(labels, gaps)))


def gap_at(v: float, labels: np.ndarray, where: np.ndarray) -> float | None:
    """The gap in the labels `where` at which the violation is v; None if none is so large."""
    excess: Callable[[float], float] = lambda d: violation(labels, d * where) - v  # noqa: E731
    return float(brentq(excess, 0.0, 0.4)) if excess(0.4) > 0 else None


def meanings() -> list[list[str]]:
    """v, the gaps that it stands for, the best guess of the group, and the bet."""
    both, positives = np.array([1.0, 1.0]), np.array([0.0, 1.0])
    lines = []
    for v in LEVELS:
        gaps = [gap_at(v, labels, both) for labels in (BALANCED, RARE)]
        gaps += [gap_at(v, labels, positives) for labels in (BALANCED, RARE)]
        shown = [f"{d:.3f}" if d is not None else "over 0.4" for d in gaps]
        guess = "" if gaps[0] is None else f"{50 + 50 * gaps[0]:.1f} %"
        lines.append([f"{v:g}", *shown, guess, f"{np.log(2) / v:,.0f} people"])
    return lines


def floors() -> list[list[str]]:
    """What separated decisions show on average: v ≈ K_Y(K_U−1)(K_Z−1)/2n, half-normal gaps."""
    lines = []
    for n in ROWS:
        spread = np.sqrt(2.0 * RATES * (1.0 - RATES) / (n / 4))
        gap = float(np.sqrt(2.0 / np.pi) * spread.mean())
        lines.append([f"{n:,}", f"{1 / n:.5f}", f"{gap:.3f}"])
    return lines


def main(write: bool = False) -> None:
    """Both tables."""
    head = ["v (nats)", "EO gap, balanced", "EO gap, rare"]
    head += ["only true positives differ, balanced", "only true positives differ, rare"]
    publish("meaning", [*head, "guesses the group", "doubles the stake"], meanings(), write)
    head = ["rows", "v that chance shows", "EO gap that chance shows"]
    publish("meaning-chance", head, floors(), write)
