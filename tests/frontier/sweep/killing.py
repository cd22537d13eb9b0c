"""A sweep in a process of its own, for the tests that end it:
`python killing.py FOLDER once|killed KILLS`.

"killed" starts it so many times, kills it -9 each time, in turn just after a record and at a random
moment, and prints the number of records after each.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import torch  # once, before the forks

from separatrix.frontier.store import Store
from separatrix.frontier.sweep import Job, Source, grid, run, work

LAW = {"law": "bayes", "n": 1_200}
QUICK = (("epochs", 2), ("min_steps", 40), ("batch", 128))
JOBS = (
    Job("cmi", (0.0, 0.5, 1.0), changes=QUICK, keep=True),
    Job("raw_cmi", (0.0, 1.0), changes=QUICK),
    Job("erm", changes=QUICK),
)


def stacks():
    return grid([Source("synthetic", LAW)], JOBS, folds=5)


def finished(folder: str) -> int:
    store = Store(folder)
    return len(store.records())


def killed(folder: str, kills: int) -> None:
    chance = random.Random(1)
    torch.set_num_threads(1)
    work(stacks()[0])  # warm: what is killed is the sweep, not its imports
    for attempt in range(kills):
        before = finished(folder)
        child = os.fork()
        if child == 0:
            run(stacks(), folder)
            os._exit(0)
        if attempt % 2:
            time.sleep(chance.uniform(0.0, 0.3))
        else:
            while finished(folder) == before and running(child):
                time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(finished(folder), flush=True)


def running(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


if __name__ == "__main__":
    if sys.argv[2] == "killed":
        killed(sys.argv[1], int(sys.argv[3]))
    else:
        print(run(stacks(), sys.argv[1]))
