"""fairret: cross-entropy plus strength × NormLoss of the true and the false positive rate, in a
plain torch loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from fairret.loss import NormLoss
from fairret.statistic import FalsePositiveRate, TruePositiveRate
from numpy.typing import NDArray
from torch import nn

from benchmarks.peers.protocol import Array, Fold, Predict, Rows, Series, main

STRENGTHS = (0.0, 0.03, 0.1, 0.3, 1.0)
EPOCHS, BATCH, RATE = 20, 512, 3e-3


def trace(blind: bool, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One network per strength."""
    torch.set_num_threads(1)
    train, test = fold.blind_rows if blind else (fold.train.with_group, fold.test.with_group)
    for strength in STRENGTHS[::2] if quick else STRENGTHS:
        model = _fit(train, fold.train, strength, 1 if quick else EPOCHS)
        yield f"strength {strength:g}", partial(_posterior, model, test)


def _fit(features: NDArray[Any], train: Rows, strength: float, epochs: int) -> nn.Module:
    torch.manual_seed(0)
    X = torch.from_numpy(np.ascontiguousarray(features))
    y = torch.from_numpy(train.y).float()[:, None]
    sens = nn.functional.one_hot(torch.from_numpy(train.z)).float()
    model = nn.Sequential(nn.Linear(X.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    penalties = [NormLoss(TruePositiveRate()), NormLoss(FalsePositiveRate())]
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * (len(X) // BATCH))
    for _ in range(epochs):
        order = torch.randperm(len(X))
        for rows in order[: len(X) // BATCH * BATCH].split(BATCH):
            logit = model(X[rows])
            loss = nn.functional.binary_cross_entropy_with_logits(logit, y[rows])
            if strength:
                loss = loss + strength * sum(penalty(logit, sens[rows], y[rows]) for penalty in penalties)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def _posterior(model: nn.Module, features: NDArray[Any]) -> Array:
    with torch.no_grad():
        logit = model(torch.from_numpy(np.ascontiguousarray(features)))
        return np.ravel(torch.sigmoid(logit).numpy())


SERIES = {
    f"fairret NormLoss, {'X alone' if blind else '[Z|X]'}": Series(
        f"network 64 × 64, NormLoss of TruePositiveRate and of FalsePositiveRate, "
        f"{len(STRENGTHS)} strengths 0 … 1, {EPOCHS} epochs, batches of {BATCH}, "
        f"Adam {RATE} falling along a cosine; two folds, five of small tables",
        partial(trace, blind),
        folds=2,
    )
    for blind in (False, True)
}

PACKAGE = "fairret"

if __name__ == "__main__":
    main(SERIES, PACKAGE)
