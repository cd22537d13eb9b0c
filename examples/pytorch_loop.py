"""
In a PyTorch loop
=================

A plain training loop with the separation loss; the lines that differ from cross-entropy are marked
+ and -. The output shows v, u and the EO gap of both models on unseen rows.
"""

import torch
from torch import nn

import separatrix as sx

adult = sx.datasets.load("adult")
y, z = torch.tensor(adult.y), torch.tensor(adult.z)
X = torch.cat([nn.functional.one_hot(z), torch.tensor(adult.X)], dim=1)  # [Z|X], as in the paper
order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
train, test = order[:-6_000], order[-6_000:]


def fit(trade_off: float) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(X.shape[1], 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    # - criterion = nn.CrossEntropyLoss()
    criterion = sx.nn.SeparationLoss(trade_off, n_labels=2, n_groups=2)  # +
    for _ in range(4):
        for batch in train[torch.randperm(len(train))].split(512):
            optimizer.zero_grad()
            logits = model(X[batch])
            # - loss = criterion(logits, y[batch])
            loss = criterion(logits, y[batch], z[batch], head=model[-1])  # +
            loss.backward()
            optimizer.step()
    return model


# %%
# Without the penalty, and with it.

for trade_off in (0.0, 0.7):
    posterior = fit(trade_off)(X[test]).softmax(1).detach().numpy()
    audit = sx.audit(y[test].numpy(), posterior, sensitive_features=z[test].numpy())
    print(f"λ = {trade_off}: v = {audit.violation:.5f}, u = {audit.utility:.5f}, EO gap = {audit.eo_gap:.3f}")
