"""`python -m benchmarks.simulations NAME ...`: do promises hold where truth is known?"""

import sys
from pathlib import Path

from benchmarks._measuring import run_row

run_row(Path(__file__).parent, sys.argv[1:])
