"""`make demo`: what is possible on the embedded Adult data (UCI, CC BY 4.0)?

Traces it around boosted trees and along the paper's penalty, writes the report, and saves two
models: decisions with an EO gap of at most 0.05, and a score that is separated at every threshold.
The same on the command line:
separatrix trace adult --estimator trees --method cmi_boosting --out demo
"""

from pathlib import Path

from separatrix import datasets
from separatrix.frontier.rows import Settings
from separatrix.frontier.shippable import write_tables
from separatrix.frontier.sweep import Execution
from separatrix.frontier.trace import trace_data

if __name__ == "__main__":  # local processes import this file again
    out = Path("demo")
    data = datasets.load("adult")
    execution = Execution(n_jobs=2, progress=True)
    asked = Settings(estimator="trees", method="cmi_boosting", out=out, execution=execution)
    frontier = trace_data(data, asked, name="adult")
    print()
    for line in write_tables(frontier):
        print(line)
    frontier.plot(out / "frontier.png")
    for aim in ("accuracy", "auroc"):
        point = frontier.select(max_eo_gap=0.05, maximize=aim)
        print(f"\n{point}")
        print("Saved to", point.predictor.save(out / f"model-{aim}"))
