"""`python -m benchmarks.peers NAME ...`: ours and the peers on the same rows."""

import sys
from pathlib import Path

from benchmarks._measuring import run_row

run_row(Path(__file__).parent, sys.argv[1:])
