"""The largest gap over all thresholds on laws where it is known: how often its bound fails, how
wide it is, and whether the shuffled floor is what separated scores show.

    python -m benchmarks.score_coverage [--repetitions 300]
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks._measuring import markdown
from separatrix.columns.counting import count_scores
from separatrix.core.score_gaps import gap_curve, largest_gap
from separatrix.statistics.score_bounds import gap_bound
from separatrix.statistics.shuffling import shuffled_tables


def measured(n: int, groups: int, apart: float, weighted: bool, times: int) -> dict[str, float]:
    """Scores U^a with an exponent for each label and group: the true rates are known at all t."""
    rng = np.random.default_rng([n, groups, round(100 * apart), weighted])
    share = np.arange(1, groups + 1) / np.arange(1, groups + 1).sum()
    power = np.outer([1.0, 0.4], np.exp(np.linspace(-apart, apart, groups)))
    t = np.linspace(0, 1, 20_001)
    rates = 1 - t ** (1 / power[..., None])
    truth = np.ptp(rates, axis=1).mean(0).max()
    found = np.zeros((times, 3))
    for i in range(times):
        y, z = (rng.random(n) < 0.3).astype(int), rng.choice(groups, n, p=share)
        weight = rng.lognormal(0, 0.5, n) if weighted else None
        table = count_scores(
            y, rng.random(n) ** power[y, z], sensitive_features=z, sample_weight=weight
        )
        found[i, :2] = largest_gap(table)[0], gap_bound(table)
        if i < 40:
            mass, squares = table.totals
            null = shuffled_tables(
                table.binned(1_024).counts, 5, i, mass**2 / squares if weighted else None
            )
            found[i, 2] = gap_curve(null).max(-1).mean()
    gap, bound, _ = found.mean(0)
    return {
        "truth": truth,
        "gap": gap,
        "floor": found[:40, 2].mean(),
        "bound": bound,
        "fails": float((found[:, 1] < truth).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=300)
    times = parser.parse_args().repetitions
    rows = []
    for groups in (2, 6):
        for n in (1_000, 5_000, 20_000):
            for apart in (0.0, 0.3):
                for weighted in (False, True) if n == 5_000 else (False,):
                    m = measured(n, groups, apart, weighted, times)
                    rows.append(
                        (
                            groups,
                            f"{n:,}",
                            "lognormal" if weighted else "one",
                            *(f"{m[k]:.3f}" for k in ("truth", "gap", "floor", "bound", "fails")),
                        )
                    )
    head = (
        "groups",
        "rows",
        "weights",
        "largest gap of the population",
        "`gap`, mean",
        "`gap_floor`",
        "`gap_upper`, mean",
        "bound fails",
    )
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
