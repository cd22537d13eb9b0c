"""Scores and numbers: predictions with many values that say little about the group."""
