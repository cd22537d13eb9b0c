"""
From a table to production
==========================

Trace, select, save, load, decide with coins that belong to the person, monitor.
"""

import secrets
import tempfile
from pathlib import Path

import numpy as np

import separatrix as sx

rng = np.random.default_rng(0)
n = 3_000
sex, age = rng.choice(["f", "m"], n), rng.normal(40, 12, n).round()
job = rng.choice(["cook", "nurse", "pilot"], n)
merit = 0.04 * (age - 40) + (job == "pilot") + 0.8 * (sex == "m") + rng.logistic(size=n)
hired = np.where(merit > 0.8, "yes", "no")
table = {"age": age, "job": job}
home = Path(tempfile.mkdtemp())

# %%
# What is possible? Logistic regression is the base model here; leave `estimator` out and the best
# of three is taken.

frontier = sx.trace(
    table, hired, sensitive_features={"sex": sex}, estimator="logistic", method=[], cv=3,
    out=home / "frontier", progress=False,
)  # fmt: skip
print(frontier)

# %%
# Which point do we ship? The budget is a promise for unseen rows.

point = frontier.select(max_eo_gap=0.06)
print(point)
point.predictor.save(home / "model")

# %%
# In production: the secret stays with the operator, and one person always gets the same answer.

model = sx.load(home / "model")
salt = secrets.token_hex(16)
rows, ids = {"age": [35, 52], "job": ["pilot", "cook"], "sex": ["m", "f"]}, ["anna", "ben"]
decision = model.predict(rows, ids=ids, salt=salt)
again = model.predict({k: v[::-1] for k, v in rows.items()}, ids=ids[::-1], salt=salt)
assert (again[::-1] == decision).all()
print(dict(zip(ids, decision, strict=True)))

# %%
# As true outcomes arrive, a monitor says whether the budget still holds.

everybody = {**table, "sex": sex}
monitor = sx.Monitor(model.counts(everybody, hired), max_violation=0.05)
decided = model.predict(everybody, ids=np.arange(n), salt=salt)
monitor.update(hired, decided, sensitive_features=sex)
print(monitor.report())
