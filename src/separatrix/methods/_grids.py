"""The grids of λ, from the tables of the paper: one for each scale of λ and some datasets.

Where the paths of the methods with a discriminator are thin, in the middle, there are more λ than
in the paper: with its own they have no point within a small gap on some assignments to folds.

Of its λ on ACS large the paper says nothing: tenths, as on its other datasets.
"""

from __future__ import annotations

TENTHS = tuple(round(0.1 * i, 2) for i in range(11))
TWENTIETHS = tuple(round(0.05 * i, 2) for i in range(21))
# of trees, and of networks at score level: dense where the path moves fastest
DENSE_BELOW = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9)
HALF_DECADES = (0.1, 0.3162, 0.5623, 1.0, 1.778, 3.162, 5.623, 10.0, 17.78, 31.62, 100.0, 316.2)
# λ/(1−λ); the paper's last odds are 1e8
ODDS = (*(round(t / (1 - t), 4) for t in TENTHS[:-1]), 1e8)
POWERS_OF_EIGHT = tuple(8.0**k for k in (0, 1, 2, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9, 10))

# λ is a share of the objective (cmi, infofair, fair_dro)
SHARE_GRIDS = {"acs_occupation": TWENTIETHS, "acs_occupation_large": TENTHS}
# λ multiplies a discriminator's loss (adversarial, fr_train)
PENALTY_GRIDS = {
    "compas": (*TENTHS, 2.0, 5.0, 10.0, 100.0, 1000.0),
    "celeba": ODDS,
    "acs_occupation": TWENTIETHS,
    "acs_occupation_large": TENTHS,
}
