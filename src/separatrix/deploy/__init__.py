"""What is in production: selection of a point, the predictor, its draws, its files, its monitor."""
