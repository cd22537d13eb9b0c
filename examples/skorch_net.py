"""
In skorch
=========

The groups travel in X, the network returns the logits, and `get_loss` is three lines.
"""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

import separatrix as sx


class Net(nn.Module):
    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 + n_features, 32), nn.ReLU())
        self.head = nn.Linear(32, 2)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(torch.cat([nn.functional.one_hot(z, 2), x], dim=1)))


class SeparationNet(NeuralNetClassifier):
    def get_loss(self, y_pred, y_true, X, training=False):
        return self.criterion_(y_pred, y_true, X["z"], head=self.module_.head)


# %%
# Trained without and with the penalty on the embedded Adult data.

adult = sx.datasets.load("adult")
rows = {"x": adult.X, "z": adult.z.astype(np.int64)}
cut = len(adult) - 6_000
seen, unseen = ({name: values[part] for name, values in rows.items()} for part in (slice(cut), slice(cut, None)))
for trade_off in (0.0, 0.7):
    torch.manual_seed(0)
    net = SeparationNet(
        Net,
        module__n_features=adult.X.shape[1],
        criterion=sx.nn.SeparationLoss,
        criterion__trade_off=trade_off,
        criterion__n_labels=2,
        criterion__n_groups=2,
        optimizer=torch.optim.Adam,
        lr=2e-3,
        max_epochs=3,
        batch_size=512,
        train_split=None,
        verbose=0,
        predict_nonlinearity=lambda logits: logits.softmax(-1),
    )
    net.fit(seen, adult.y[:cut].astype(np.int64))
    audit = sx.audit(adult.y[cut:], net.predict_proba(unseen), sensitive_features=adult.z[cut:])
    print(f"λ = {trade_off}: v = {audit.violation:.5f}, u = {audit.utility:.5f}, EO gap = {audit.eo_gap:.3f}")
