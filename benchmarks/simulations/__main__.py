"""`python -m benchmarks.simulations NAME`: simulations of what the package promises."""

from __future__ import annotations

import importlib
import sys

NAMES = ("monitor", "promises")

if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    sys.exit(f"Name a simulation: {', '.join(NAMES)}.")
importlib.import_module(f"benchmarks.simulations.{sys.argv[1]}").main(sys.argv[2:])
