"""Tracing: what is possible on your data? `trace` trains the path of a method over all folds and returns a `Frontier`.

A frontier is a folder: `records.sqlite` (the tables of every point, see `sweep.records`), `models/` (every lane's arrays
and the posteriors of the rows that did not train it), `rows.safetensors` (label, group and fold of every row) and
`frontier.json` (names, preprocessing of each fold, card). No pickle.
"""

from __future__ import annotations

from separatrix.tracing.frontier import Frontier, FrontierEnvelope, Model, load_frontier
from separatrix.tracing.training import trace, trace_data

__all__ = ["Frontier", "FrontierEnvelope", "Model", "load_frontier", "trace", "trace_data"]
