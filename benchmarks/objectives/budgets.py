"""What the compared rules are asked for. Needs nothing: every environment reads it."""

BUDGETS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1, 0.125, 0.15, 0.2, 0.3)
KINDS = ("held out", "cross-fitted", "ensemble")  # of the scores that rules are fitted to
