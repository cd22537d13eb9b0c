"""From a table to production: trace, select, save, load, predict with stable draws, monitor."""

import json
import secrets
import tempfile
from pathlib import Path

import numpy as np

import separatrix as sx

rng = np.random.default_rng(0)
n = 3_000
sex, age = rng.choice(["f", "m"], n), rng.normal(40, 12, n).round()
job = rng.choice(["cook", "nurse", "pilot"], n)
hired = np.where(
    0.04 * (age - 40) + (job == "pilot") + 0.8 * (sex == "m") + rng.logistic(size=n) > 0.8,
    "yes",
    "no",
)
table = {"age": age, "job": job}

with tempfile.TemporaryDirectory() as folder:
    home = Path(folder)
    frontier = sx.trace(
        table,
        hired,
        sensitive_features={"sex": sex},
        trade_offs=[0, 0.5, 0.9],
        cv=3,
        out=home / "frontier",
    )
    point = frontier.select(max_violation=0.01)
    print(point)

    point.predictor.save(home / "model")
    model = sx.load(home / "model")
    salt = secrets.token_hex(16)  # the operator's secret: not in the folder
    rows, ids = {"age": [35, 52], "job": ["pilot", "cook"], "sex": ["m", "f"]}, ["anna", "ben"]
    decision, branch = model.predict(rows, ids=ids, salt=salt, return_branch=True)
    again = model.predict({k: v[::-1] for k, v in rows.items()}, ids=ids[::-1], salt=salt)
    assert (again[::-1] == decision).all()  # asking again gives the same answer

    # a mixture's decision is the pair (branch, label), and is watched as such
    everybody = {**table, "sex": sex}
    monitor = sx.Monitor(model.counts(everybody, hired), budget=0.05)
    labels, branches = model.predict(everybody, ids=np.arange(n), salt=salt, return_branch=True)
    drawn = branches if len(model.components) > 1 else None
    alarm = monitor.update(hired, labels, sensitive_features=sex, branch=drawn)
    print(json.dumps(monitor.report().to_dict(), indent=1))
    print("alarm" if alarm else "no alarm")
