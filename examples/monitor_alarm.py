"""
A monitor that raises an alarm
==============================

The model shipped with a gap below its budget. In week 13 a data feed breaks for one group. When
does the monitor notice, and how often would it have cried wolf?
"""

import matplotlib.pyplot as plt
import numpy as np

import separatrix as sx

rng = np.random.default_rng(0)


def week(broken: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcomes, decisions and groups of 500 people."""
    y, z = rng.integers(0, 2, 500), rng.choice(["f", "m"], 500)
    rate = np.where(y == 1, 0.75, 0.2) - 0.2 * (broken & (z == "f"))
    return y, (rng.random(500) < rate).astype(int), z


# %%
# The audit at selection fixes labels and groups. Looking every week is allowed: the probability of
# ever raising a false alarm is at most 5 %, however often you look.

reference = [np.concatenate(columns) for columns in zip(*(week(False) for _ in range(8)), strict=True)]
audit = sx.audit(reference[0], reference[1], sensitive_features=reference[2])
monitor = sx.Monitor(audit, max_eo_gap=0.05, confidence=0.95)
gaps = []
for number in range(1, 25):
    y, decision, z = week(broken=number >= 13)
    gaps.append(sx.audit(y, decision, sensitive_features=z).eo_gap)
    alarm = monitor.update(y, decision, sensitive_features=z)
    if alarm:
        break
print(f"alarm in week {number}")
print(monitor.report())

# %%
# The gap of a single week jumps around by chance; a limit on it would have cried wolf.

plt.plot(range(1, len(gaps) + 1), gaps, "o-", label="gap of the week")
plt.axhline(0.05, ls="--", color="grey", label="budget")
plt.axvline(12.5, ls=":", color="grey", label="the feed breaks")
plt.axvline(number, color="C3", label="alarm")
plt.xlabel("week")
plt.ylabel("equalized-odds gap")
plt.legend()
