"""`python -m benchmarks.peers NAME ...`: ours and the peers on the same rows."""

from benchmarks._measuring import run_row

run_row(__file__)
