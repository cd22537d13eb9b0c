"""FairGBM on given rows, in an environment of its own: it needs scikit-learn < 1.6 and numpy < 2.

    PYTHON benchmarks/fairgbm_path.py rows.npz posteriors.npz

`rows.npz` holds X, y, z and train (m, n), one mask of training rows per part; `posteriors.npz` gets
q (m, settings, n) = P(Y = 1 | x), the settings and the CPU seconds of each part. The settings are
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
    X, y, z, parts = (given[name] for name in ("X", "y", "z", "train"))
    settings = list(product(TOLERANCES, RATES))
    q, seconds = np.empty((len(parts), len(settings), len(y)), dtype=np.float32), []
    for part, train in enumerate(parts):
        start = time.process_time()
        models = []
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
        seconds.append(time.process_time() - start)
        for i, model in enumerate(models):
            q[part, i] = model.predict_proba(X)[:, -1]
    np.savez(sys.argv[2], q=q, settings=np.array(settings), seconds=np.array(seconds))


if __name__ == "__main__":
    main()
