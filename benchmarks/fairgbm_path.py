"""FairGBM on given rows, in an environment of its own: it needs scikit-learn < 1.6 and numpy < 2.

    PYTHON benchmarks/fairgbm_path.py rows.npz posteriors.npz

`rows.npz` holds X, y, z and a mask `train`; `posteriors.npz` gets q (settings, other rows), P(Y = 1
| x), the settings and the CPU seconds. The settings are
tolerances of both error rates with two rates of the multipliers; 0.1 is FairGBM's own. Trees are
LightGBM's defaults, as ours.
"""

from __future__ import annotations

import sys
import time
from itertools import product

import numpy as np

TOLERANCES = (0.0, 0.01, 0.02, 0.05, 0.1)
RATES = (0.1, 1.0)


def main() -> None:
    from fairgbm import FairGBMClassifier

    given = np.load(sys.argv[1])
    X, y, z, train = (given[name] for name in ("X", "y", "z", "train"))
    settings, models, start = list(product(TOLERANCES, RATES)), [], time.process_time()
    for tolerance, rate in settings:
        model = FairGBMClassifier(
            constraint_type="FNR,FPR",
            constraint_fnr_tolerance=tolerance,
            constraint_fpr_tolerance=tolerance,
            multiplier_learning_rate=rate,
            n_estimators=100,
            n_jobs=1,
            random_state=0,
        )
        models.append(model.fit(X[train], y[train], constraint_group=z[train]))
    seconds = time.process_time() - start
    q = np.stack([model.predict_proba(X[~train])[:, -1] for model in models])
    np.savez(sys.argv[2], q=q, settings=np.array(settings), seconds=seconds)


if __name__ == "__main__":
    main()
