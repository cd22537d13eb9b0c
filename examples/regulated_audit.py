"""
A regulated case: an audit to hand over
=======================================

A supervisor asks whether a lender treats women and men alike. One applicant in eight did not state
their sex. What do you hand over, and what may you claim?
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import separatrix as sx

rng = np.random.default_rng(0)
n = 12_000
sex = rng.choice(["f", "m"], n)
repaid = np.where(rng.random(n) < 0.7, "yes", "no")
approved = rng.random(n) < np.where(repaid == "yes", 0.86, 0.28) - 0.06 * (sex == "f")
stated = np.where(rng.random(n) < 0.125, None, sex)
table = pd.DataFrame(
    {"sex": stated, "repaid": repaid, "decision": np.where(approved, "yes", "no")}
)  # fmt: skip

# %%
# Unknown groups are never dropped in silence: the audit refuses them and says what to do.

try:
    sx.audit(table, target="repaid", prediction="decision", sensitive_features="sex")
except sx.SeparatrixError as error:
    print(error)

# %%
# Report both readings: only the people who stated their sex, and "not stated" as its own group. If
# the second shows nothing unusual, leaving these people out did not hide a problem.

known = table.dropna(subset="sex")
audit = sx.audit(known, target="repaid", prediction="decision", sensitive_features="sex")
own = table.fillna({"sex": "not stated"})
three = sx.audit(own, target="repaid", prediction="decision", sensitive_features="sex")
print(three.by_group.round(3))
audit.plot()

# %%
# The claim: at 95 % confidence the gap of the population is at most `eo_gap_upper`. To certify a
# gap of at most 0.05 if there were none, this many rows would be needed:

print(f"gap {audit.eo_gap:.3f}, by chance {audit.eo_gap_floor:.3f}")
print(f"certified: at most {audit.eo_gap_upper:.3f}")
print(f"rows needed: {sx.sample_size(max_eo_gap=0.05, groups=2):,}")

# %%
# The file to hand over opens offline; the JSON has every number for the archive.

folder = Path(tempfile.mkdtemp())
(folder / "audit.html").write_text(audit.to_html())
(folder / "audit.json").write_text(audit.to_json())
print(sorted(file.name for file in folder.iterdir()))
