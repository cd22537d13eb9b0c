"""`make bench`: run the measurements of this folder one after the other, each as `python -m benchmarks.<name>`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PAGES = {"results"}  # writes docs/results.md from a folder of records: nothing to measure
names = sys.argv[1:] or sorted({path.stem for path in Path(__file__).parent.glob("[!_]*.py")} - PAGES)
failed = []
for name in names:
    print(f"\n== {name}", flush=True)
    if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode:
        failed.append(name)
sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
