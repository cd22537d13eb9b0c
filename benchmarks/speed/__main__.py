"""`python -m benchmarks.speed NAME ...`: time, memory and growth, beside peers."""

from benchmarks._measuring import run_row

run_row(__file__)
