"""
Several groups at once
======================

Pass several columns and every combination is a group. With six groups, chance alone produces a
larger gap, so compare each gap with its chance level.
"""

import numpy as np
import pandas as pd

import separatrix as sx

rng = np.random.default_rng(0)
n = 12_000
region = rng.choice(["north", "south", "west"], n, p=[0.5, 0.4, 0.1])
people = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "region": region})
y = rng.integers(0, 2, n)
right = np.where(region == "west", 0.75, 0.85)  # the model is worse in the west
decision = np.where(rng.random(n) < right, y, 1 - y)

# %%
# One audit per column, and one of the six combinations.

print("groups           EO gap  by chance")
for name, groups in (("sex", "sex"), ("region", "region"), ("both", ["sex", "region"])):
    audit = sx.audit(y, decision, sensitive_features=people[groups])
    print(f"{name:15} {audit.eo_gap:7.3f} {audit.eo_gap_floor:10.3f}")

# %%
# Who is affected? The rates of every combination.

print(audit.by_group.round(3))
audit.plot()

# %%
# How many rows would certify a gap of at most 0.05?

for groups in (2, 6, 12):
    rows = sx.sample_size(max_eo_gap=0.05, groups=groups)
    print(f"{groups:2} groups: {rows:,} rows")
