"""Training on two ranks beside one process: part of `benchmarks.speed scale`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SHAPE = {"features": 512, "width": 512, "batch": 4_096, "steps": 60}


def ranks() -> dict[str, Any]:
    """Training with DistributedDataParallel over gloo: one process with the whole batch, two with
    half of it each.

    Time in float32. The weights are compared in float64 over 20 steps: dividing by small gradient
    norms amplifies the rounding of float32, so that there two runs on one process with another
    order of summation drift apart as well.
    """
    found = {str(world): _on_ranks(world, "float32", SHAPE["steps"]) for world in (1, 2)}
    one, two = (np.array(_on_ranks(world, "float64", 20)["weights"]) for world in (1, 2))
    for result in found.values():
        del result["weights"]
    return {**found, "difference": float(np.abs(one - two).max()), **SHAPE}


def _on_ranks(world: int, dtype: str, steps: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from benchmarks.speed.ranks import one_rank; one_rank()"]
        started = [
            subprocess.Popen(
                [*command, str(rank), str(world), folder, dtype, str(steps)],
                env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            )
            for rank in range(world)
        ]
        codes = [process.wait() for process in started]
        if any(codes):
            raise RuntimeError("A rank failed.")
        return json.loads(Path(folder, "result.json").read_text(encoding="utf-8"))


def one_rank() -> None:
    import torch
    from torch import distributed, nn

    from separatrix.nn import SeparationLoss

    rank, world, folder, steps = (
        int(sys.argv[1]),
        int(sys.argv[2]),
        Path(sys.argv[3]),
        int(sys.argv[5]),
    )
    torch.set_num_threads(1)
    torch.set_default_dtype(getattr(torch, sys.argv[4]))
    d, width, batch = SHAPE["features"], SHAPE["width"], SHAPE["batch"]
    distributed.init_process_group(
        "gloo",
        store=distributed.FileStore(str(folder / "store"), world),
        rank=rank,
        world_size=world,
    )
    torch.manual_seed(0)
    body, head = (
        nn.Sequential(nn.Linear(d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, 2),
    )
    model = nn.parallel.DistributedDataParallel(nn.Sequential(body, head))
    criterion, optimiser = SeparationLoss(0.3, 2, 2), torch.optim.SGD(model.parameters(), lr=1e-3)
    mine = slice(rank * batch // world, (rank + 1) * batch // world)
    times = []
    for step in range(steps):
        g = torch.Generator().manual_seed(step)
        y, z = (
            torch.randint(0, 2, (batch,), generator=g),
            torch.randint(0, 2, (batch,), generator=g),
        )
        x = torch.randn(batch, d, generator=g)
        x[:, 0] += 2.0 * y
        x[:, 1] += 2.0 * z
        distributed.barrier()
        start = time.perf_counter()
        optimiser.zero_grad()
        criterion(model(x[mine]), y[mine], z[mine], head=head).backward()
        optimiser.step()
        times.append(time.perf_counter() - start)
    if rank == 0:
        weights = nn.utils.parameters_to_vector(head.parameters()).detach()
        count = sum(p.numel() for p in model.parameters())
        result = {"step": float(np.median(times)), "parameters": count, "weights": weights.tolist()}
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    distributed.destroy_process_group()
