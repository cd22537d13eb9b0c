"""
The paper in 20 lines
=====================

Train networks along the trade-off λ between utility u = I(U;Y) and violation v = I(U;Z|Y), measure
both on rows that did not train, and draw the upper concave envelope: the separation-utility
frontier of Xu, *Separation-Utility Pareto Frontier*.
"""

import matplotlib.pyplot as plt
import numpy as np

import separatrix as sx
from separatrix.methods import Lane, Sample

adult = sx.datasets.load("adult", features="paper")
train, test = np.split(np.random.default_rng(0).permutation(len(adult.y)), [24_000])

# %%
# Six networks, trained side by side in one run. λ = 0 is plain cross-entropy.

trade_offs = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9]
lanes = [Lane(trade_off, train) for trade_off in trade_offs]
networks = sx.methods.fit("cmi", Sample(adult.X, adult.y, adult.z), lanes)
posteriors = networks.posteriors(adult.X[test], adult.z[test])

# %%
# Each point is a randomised prediction: the label is drawn from the posterior.

audits = [sx.audit(adult.y[test], q, sensitive_features=adult.z[test]) for q in posteriors]
v, u = np.array([(a.violation, a.utility) for a in audits]).T
for trade_off, a in zip(trade_offs, audits, strict=True):
    print(f"λ = {trade_off}: v = {a.violation:.5f}, u = {a.utility:.4f}, gap {a.eo_gap:.3f}")

# %%
# A mixture of two networks reaches every point on the line between them (the coin is revealed), so
# the frontier is concave.

envelope = sx.theory.concave_envelope(v, u)
plt.plot(v, u, "o", label="networks")
plt.plot(envelope.violation, envelope.utility, "-", label="frontier")
plt.xlabel("violation v = I(U;Z|Y), nats")
plt.ylabel("utility u = I(U;Y), nats")
plt.legend()
