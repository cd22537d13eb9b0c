"""Not yet proven useful: predictions whose values need not be labels."""
