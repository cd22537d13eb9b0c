"""A random batch, for tests of single losses."""

from __future__ import annotations

import torch

from separatrix.nn.batch import Batch
from separatrix.nn.lanes import Recipe


def batch(
    lanes: int = 2, rows: int = 50, n_labels: int = 2, n_groups: int = 2, weight: bool = False, seed: int = 0
) -> Batch:
    """Normal logits, codes and, if asked for, small whole weights with some zeros."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, n_labels, (lanes, rows), generator=g)
    z = torch.randint(0, n_groups, (lanes, rows), generator=g)
    features = torch.randn(lanes, rows, 5, generator=g)
    cells = torch.zeros(lanes, n_labels, n_groups)
    for lane in range(lanes):
        cells[lane].index_put_((y[lane], z[lane]), torch.ones(rows), accumulate=True)
    return Batch(
        logits=torch.randn(lanes, rows, n_labels, generator=g).requires_grad_(),
        make_features=lambda: features,
        head=torch.randn(lanes, n_labels, 5, generator=g),
        y=y,
        z=z,
        weight=torch.randint(0, 4, (lanes, rows), generator=g).float() if weight else None,
        cells=cells,
        progress=0.5,
        recipe=Recipe(),
        bins=0,
        memory={},
    )
