"""Tracing: what is possible on your data? `trace` trains the paths over all folds: a `Frontier`.

A frontier is a folder: `records.sqlite` (the tables of every point, see `runs.store`), `models/`
(every lane's arrays and the posteriors of the rows that did not train it), `rows.safetensors`
(label, group and fold of every row) and `frontier.json` (names, preprocessing of each fold, card).
`checksums.json` protects a finished one.
"""
