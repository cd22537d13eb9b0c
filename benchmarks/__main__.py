"""`make bench`: every row of the three harnesses with its quick setting, each in its own process.

python -m benchmarks [peers simulations speed]
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks._measuring import quick_of, rows_of

HERE = Path(__file__).parent
HARNESSES = ("simulations", "speed", "peers")

failed = []
for harness in sys.argv[1:] or HARNESSES:
    for name in rows_of(HERE / harness):
        quick, start = quick_of(HERE / harness, name), time.perf_counter()
        if quick is None:
            print(f"{harness} {name}: left out, it needs a download or hours", flush=True)
            continue
        command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{harness}", name, *quick]
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
        print(f"{harness} {name}: {time.perf_counter() - start:.0f} s", flush=True)
        if done.returncode:
            print(done.stdout, done.stderr, sep="\n")
            failed.append(f"{harness} {name}")
sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
