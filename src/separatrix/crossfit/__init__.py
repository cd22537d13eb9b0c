"""Base models, their out-of-fold scores, and nested splits."""
