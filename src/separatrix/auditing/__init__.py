"""Audit: arrays, frames and files become one table of counts, and the table is measured."""
