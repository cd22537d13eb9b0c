"""Everything that needs torch, the methods aside."""
