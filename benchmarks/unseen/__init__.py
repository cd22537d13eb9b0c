"""Public tables on which nothing in this repository was chosen."""
