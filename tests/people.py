"""Raw rows of made-up people, shared by the tests of what is deployed."""

from __future__ import annotations

import numpy as np


def people(n=1_500, seed=0):
    """Raw rows in which pay follows age, job and sex."""
    rng = np.random.default_rng(seed)
    sex, job = (rng.choice(["f", "m"], n), rng.choice(["cook", "nurse", "pilot"], n, p=[0.5, 0.3, 0.2]))
    age = rng.normal(40, 10, n).round(1)
    score = 0.05 * (age - 40) + 1.2 * (job == "pilot") + 0.9 * (sex == "m") - 0.8 + rng.logistic(size=n)
    return {"age": age, "job": job, "sex": sex, "pay": np.where(score > 0, "high", "low")}


def paid(seed, n=1500):
    """A frame in which pay is a number that follows sex; `test` shows it with noise."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    pay = (sex == "m") + rng.normal(size=n)
    tests = pay + 0.7 * rng.normal(size=n)
    return pd.DataFrame({"test": tests, "sex": sex, "age": rng.uniform(18, 80, n), "pay": pay})


def applicants(n=700, seed=0):
    """A frame in which being hired follows age, job and sex; one job is called <script>."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    age = rng.normal(40, 10, n).round(1)
    job = rng.choice(["cook", "nurse", "<script>"], n)
    score = 0.08 * (age - 40) + 1.2 * (job == "nurse") + 0.9 * (sex == "m") + rng.normal(0, 1, n)
    hired = np.where(score > 1.2, "yes", "no")
    return pd.DataFrame({"age": age, "job": job, "sex": sex, "hired": hired})
