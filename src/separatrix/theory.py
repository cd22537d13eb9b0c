"""The paper's quantities and constructions: informations, envelopes, separated scores, limits.

>>> from separatrix import theory
>>> round(float(theory.mutual_information([[[5, 0]], [[0, 5]]])), 4)
0.6931
"""

from separatrix.columns.counting import soft_counts
from separatrix.core.envelope import concave_envelope
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.optimum import population
from separatrix.optimum.scores.align import AlignedScore, align, alignment_path
from separatrix.optimum.scores.separated import SeparatedScore, separate

__all__ = [
    "AlignedScore",
    "SeparatedScore",
    "align",
    "alignment_path",
    "concave_envelope",
    "conditional_mutual_information",
    "mutual_information",
    "population",
    "separate",
    "soft_counts",
]


def __dir__() -> list[str]:
    return __all__
