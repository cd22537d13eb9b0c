"""One loop for every simulation: draw a sample, run a procedure on it, keep its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

__all__ = ["Population", "simulate"]

Array = NDArray[np.float64]


class Population(Protocol):
    """Where samples come from, and what is true of it."""

    def sample(self, rng: np.random.Generator) -> Any:
        """One sample, as the procedure takes it."""


def simulate(
    population: Population,
    procedure: Callable[[Any, Any], Mapping[str, float]],
    repetitions: int,
    seed: tuple[int, ...] = (0,),
    n_jobs: int = 1,
) -> dict[str, Array]:
    """What a procedure gives on each sample of a population.

    Args:
        population: has `sample(rng)`, and the truth that the procedure compares with.
        procedure: sample and population → named numbers. A number that does not apply is left out.
        repetitions: how many samples; each has a random generator of its own.
        seed: of all of them.

    Returns:
        Name → (repetitions,), NaN where it was left out.
    """

    def once(k: int) -> Mapping[str, float]:
        return procedure(population.sample(np.random.default_rng((*seed, k))), population)

    runs = Parallel(n_jobs=n_jobs)(delayed(once)(k) for k in range(repetitions))
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: np.array([run.get(name, np.nan) for run in runs], float) for name in names}
