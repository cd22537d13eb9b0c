"""Sampling error: bias, intervals and tests, finite-sample bounds, anytime-valid e-processes."""
