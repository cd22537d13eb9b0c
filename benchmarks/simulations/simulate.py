"""One loop for every simulation: draw a sample, run a procedure on it, keep its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def simulate(
    population: Any,
    procedure: Callable[[Any, Any], Mapping[str, float]],
    repetitions: int,
    seed: tuple[int, ...] = (0,),
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

    runs = [procedure(population.sample(np.random.default_rng((*seed, k))), population) for k in range(repetitions)]
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: np.array([run.get(name, np.nan) for run in runs], float) for name in names}
