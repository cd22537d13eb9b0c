"""Two labels: what thresholds of a score can do to the rates of each group."""
