"""Tables, figures and the report of a folder of runs."""
