"""Numbers only: information of a table of counts, the table itself, metrics, envelopes."""
