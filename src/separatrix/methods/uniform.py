"""Uniform: every label with probability 1/K, for any row: v = u = 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from separatrix.methods import PAPER, Lane, Method, Options, Sample
from separatrix.nn.networks import Networks


def fit(sample: Sample, lanes: Sequence[Lane], options: Options) -> Networks:
    """Nothing to train; λ, rows and seeds play no part."""
    widths = sample.X.shape[1], sample.n_labels
    return Networks.constant(np.zeros((len(lanes), sample.n_labels)), widths, 0)


METHOD = Method(
    label="Uniform random",
    colour="#bbbbbb",
    reference="the paper, table “ACSOccupation compact operating-point summary”",
    trade_offs=(0.0,),
    fit=fit,
    recipes={"default": PAPER},
)
