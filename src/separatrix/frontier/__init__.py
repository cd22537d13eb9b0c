"""What is possible on your data? `trace` measures it on unseen rows, `select` ships one point.

A frontier is a folder: `records/` (the tables of every point, see `sweep.store`), `models/`
(every lane's arrays and the posteriors of the rows that did not train it), `rows.safetensors`
(label, group and fold of every row) and `frontier.json` (names, preprocessing of each fold, card).
`checksums.json` protects a finished one.
"""
