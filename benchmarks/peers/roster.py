"""Who takes part: each module of this folder that traces, its environment, and its lines of the
tables.
"""

from __future__ import annotations

from dataclasses import dataclass

OURS = "separatrix"  # this interpreter; every other environment is made by `environments`


@dataclass(frozen=True)
class Peer:
    """One module.

    Args:
        module: its name in this folder.
        environment: where it runs.
        series: the lines it can trace.
        soft: its posteriors are graded scores, so the decision at 1/2 is shown as well.
        colour: in the figure.
    """

    module: str
    environment: str
    series: tuple[str, ...]
    colour: str
    soft: bool = False


PEERS = {
    "ours": Peer(
        "ours",
        OURS,
        (
            "mi_objective",
            "mi_objective, trees",
            "postprocessing",
            "postprocessing, trees",
            "postprocessing, trees held out",
        ),
        "#d55e00",
    ),
    "cmi": Peer("ours", OURS, ("cmi",), "#0072b2", soft=True),
    "error-parity": Peer(
        "error_parity",
        "error-parity",
        (
            "error-parity, trees",
            "error-parity, trees, balanced costs",
            "error-parity, MLP, balanced costs",
        ),
        "#009e73",
    ),
    "oxonfair": Peer(
        "oxonfair",
        "oxonfair",
        (
            "oxonfair, trees, accuracy",
            "oxonfair, trees, MCC",
            "oxonfair, trees, I(U;Y)",
            "oxonfair, MLP, I(U;Y)",
        ),
        "#cc79a7",
    ),
    "threshold-optimizer": Peer(
        "threshold_optimizer", "fairlearn", ("fairlearn ThresholdOptimizer, trees",), "#666666"
    ),
    "fairret": Peer("fairret", "fairret", ("fairret NormLoss",), "#56b4e9", soft=True),
    "expgrad": Peer(
        "exponentiated_gradient", "fairlearn", ("fairlearn ExpGrad, logistic",), "#e69f00"
    ),
    "adversarial": Peer(
        "adversarial", "fairlearn", ("fairlearn Adversarial",), "#a65628", soft=True
    ),
    "expgrad-mlp": Peer(
        "exponentiated_gradient", "fairlearn", ("fairlearn ExpGrad, MLP",), "#8c6d00"
    ),
}
DATA = {
    "adult-paper": ("adult", {"features": "paper"}, "Adult, the paper's features"),
    "adult-full": ("adult", {"features": "full"}, "Adult, all features"),
    "bank": ("bank", {}, "Bank"),
}
FINITE = (
    "adult-paper",
)  # 124 distinct (x, z): the limit is that of the law itself, whatever the score
