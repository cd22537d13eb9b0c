"""`make demo`: what is possible on the embedded Adult data (UCI, CC BY 4.0)? Trace it, look at it,
choose a point.

The same on the command line: separatrix trace adult --out demo
"""

import shutil
from pathlib import Path

import separatrix as sx
from separatrix.commands import trace_source

if __name__ == "__main__":  # local processes import this file again
    out = Path("demo")
    for line in trace_source("adult", out, target=None, sensitive=[], method=["cmi"], jobs=2):
        print(line)
    frontier = sx.load_frontier(out)
    frontier.plot(out / "frontier.png")  # the README's picture
    point = frontier.select(max_violation=0.001, maximize="auroc")
    print(point)
    shutil.rmtree(out / "model", ignore_errors=True)
    print("Saved the predictor to", point.predictor.save(out / "model"))
