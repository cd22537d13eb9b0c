"""`python -m benchmarks.simulations NAME ...`: do promises hold where truth is known?"""

from benchmarks._measuring import run_row

run_row(__file__)
