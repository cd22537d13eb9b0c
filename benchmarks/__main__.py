"""`make bench`: run the measurements of this folder one after the other, each as
`python -m benchmarks.<name>`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PAGES = {"results"}  # writes docs/evidence/results.md from a folder of records: nothing to measure
HERE = Path(__file__).parent
found = {path.stem for path in HERE.glob("[!_]*.py")} | {
    path.parent.name for path in HERE.glob("[!_]*/__main__.py")
}
names = sys.argv[1:] or sorted(found - PAGES)
failed = []
for name in names:
    print(f"\n== {name}", flush=True)
    if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode:
        failed.append(name)
sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
