"""Run by test_separation_loss: one rank of two. Writes the parameters of several ways to train on
the same joined batches.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn

from separatrix.nn import SeparationLoss, separation_loss


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Sequential(nn.Linear(5, 16), nn.ReLU()), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(step)
    y, z = torch.randint(0, 3, (48,), generator=g), torch.randint(0, 2, (48,), generator=g)
    return torch.randn(48, 5, generator=g) + y[:, None] + z[:, None], y, z


def train(rank: int, together: bool | None, ranks: bool, level: str = "draw") -> torch.Tensor:
    network = Network()
    model = nn.parallel.DistributedDataParallel(network) if ranks else network
    criterion = SeparationLoss(0.4, 3, 2, running=0.5, distributed=together, level=level, bins=3)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    mine = slice(0, 48) if not ranks else slice(0, 30) if rank == 0 else slice(30, 48)
    for step in range(20):
        x, y, z = batch(step)
        optimiser.zero_grad()
        criterion(model(x[mine]), y[mine], z[mine], head=network.head).backward()
        optimiser.step()
    return nn.utils.parameters_to_vector(network.parameters()).detach()


def main() -> None:
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = distributed.FileStore(str(folder / "store"), 2)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    result = {
        "ranks": train(rank, None, ranks=True),
        "averaged": train(rank, False, ranks=True),
        "joined": train(rank, False, ranks=False),
        "score ranks": train(rank, None, ranks=True, level="score"),
        "score joined": train(rank, False, ranks=False, level="score"),
    }
    separation_loss.MANY = 3  # three labels are many: only the cells that occur are counted
    result["many ranks"] = train(rank, None, ranks=True)
    if rank == 0:
        torch.save(result, folder / "result.pt")
    distributed.destroy_process_group()


main()
