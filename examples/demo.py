"""`make demo`: what is possible on the embedded Adult data (UCI, CC BY 4.0)? Trace it, look at it,
choose a point.

The same on the command line: separatrix trace adult --out demo
"""

import shutil
from pathlib import Path

from separatrix import datasets
from separatrix.runs.runner import Execution
from separatrix.tracing.tables import write_tables
from separatrix.tracing.training import trace_data

if __name__ == "__main__":  # local processes import this file again
    out = Path("demo")
    frontier = trace_data(
        datasets.load("adult"), name="adult", out=out, execution=Execution(n_jobs=2)
    )
    for line in write_tables(frontier):
        print(line)
    frontier.plot(out / "frontier.png")  # the README's picture
    point = frontier.select(max_violation=0.001, maximize="auroc")
    print(point)
    shutil.rmtree(out / "model", ignore_errors=True)
    print("Saved the predictor to", point.predictor.save(out / "model"))
