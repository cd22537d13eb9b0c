"""`python -m benchmarks.speed NAME ...`: time, memory and growth, beside peers."""

import sys
from pathlib import Path

from benchmarks._measuring import run_row

run_row(Path(__file__).parent, sys.argv[1:])
