"""Simulations with known answers: samples of distributions whose true rates have a closed form."""
