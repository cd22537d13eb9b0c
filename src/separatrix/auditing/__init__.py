"""Audit: how far is this model from separation, how sure are we, and who is affected?

`arrays` takes arrays, `frames` any dataframe or table that narwhals knows, `files` CSV and Parquet; all three reduce the
data to one `CountTable` and hand it to `result`, which measures. `view` turns the result into text, HTML and a picture.
"""

from separatrix.auditing.arrays import audit, utility_score, violation_score
from separatrix.auditing.files import audit_files, open_files
from separatrix.auditing.frames import audit_frame, count_frame
from separatrix.auditing.result import Audit, Comparison, compare

__all__ = [
    "Audit",
    "Comparison",
    "audit",
    "audit_files",
    "audit_frame",
    "compare",
    "count_frame",
    "open_files",
    "utility_score",
    "violation_score",
]
