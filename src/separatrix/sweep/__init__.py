"""Sweep: a grid of questions (dataset × method × λ × fold × seed) → stacks → records on disk; resume by running again.

`grid` makes the stacks, `run` works on those without a final record, `read` gives the records as tidy columns and `means`
their fold means. The format of the records is told in `records`.
"""

from __future__ import annotations

from separatrix.sweep.jobs import Job, Source, Stack, grid
from separatrix.sweep.records import ALL_ROWS, POLICIES, Columns, Curve, Record, Store, means, read, select
from separatrix.sweep.running import BACKENDS, Kept, Outcome, kept, plain, run, working, write_whole
from separatrix.sweep.series import MARKERS, REFERENCES, Series, legend_names, series

__all__ = [
    "ALL_ROWS",
    "BACKENDS",
    "MARKERS",
    "POLICIES",
    "REFERENCES",
    "Columns",
    "Curve",
    "Job",
    "Kept",
    "Outcome",
    "Record",
    "Series",
    "Source",
    "Stack",
    "Store",
    "grid",
    "kept",
    "legend_names",
    "means",
    "plain",
    "read",
    "run",
    "select",
    "series",
    "working",
    "write_whole",
]
