"""What predicts: a base model and a rule; its files, its card, its signature, its decision log."""
