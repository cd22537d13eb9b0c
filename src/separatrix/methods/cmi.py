"""CMI: cross-entropy plus the plug-in conditional mutual information, balanced by gradient norms.

Algorithm 1 of the paper: minimise (1−λ) CE/‖∂_h CE‖ + λ I/‖∂_h I‖, I = I(U; Z | Y) read off the
batch's soft counts. λ = 0 is `erm`; without the norms it is `raw_cmi`.

Recipes: "paper" is the paper's. "default" reads the CMI gradient off
running counts of about ten batches, with a larger and falling learning rate: better on Adult and
Bank, equal on COMPAS within the noise of its folds. Below λ = 0.3 the path moves fastest, so its
grid is dense there. "exact" takes full batches where rows repeat: the highest u at a given v, but
with more sampling error on a test fold, because its posteriors stay spread out. "score" penalises
the violation of the score in soft bins (`nn.binned`) instead of that of the draw: for models whose
score is ranked or cut at other thresholds.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from separatrix.methods import PAPER, TUNED, Method
from separatrix.methods._grids import DENSE_BELOW, SHARE_GRIDS, TENTHS
from separatrix.nn.batch import Batch


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,); lanes do not mix."""
    penalty, _ = batch.violation
    return batch.loss([batch.cross_entropy, penalty], [1 - trade_off, trade_off])


METHOD = Method(
    label="CMI",
    colour="#0072b2",
    reference="the paper, Algorithm 1",
    trade_offs=(
        *(0.0, 0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.18, 0.2, 0.22, 0.25, 0.3, 0.35),
        *(0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0),
    ),
    dataset_grids=SHARE_GRIDS,
    loss=loss,
    recipes={
        "default": TUNED,
        "paper": PAPER,
        "exact": replace(TUNED, exact=True),
        "score": replace(TUNED, level="score", piecewise_linear=32),
    },
    grids={"paper": TENTHS, "score": (*DENSE_BELOW, 1.0)},
    levels=("draw", "score"),
)
