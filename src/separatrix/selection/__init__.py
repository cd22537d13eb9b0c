r"""Selection: from the measured candidates of a frontier to one operating point.

Two rules. *By fold mean*, the paper's: the mean over folds of the measured v (or EO gap) is within the budget. That is an
estimate, and the best of many candidates within a budget is more often beyond it than a single one. *With confidence*:
each candidate has a finite-sample upper bound (`bounds`) on rows that trained nothing, and

.. math:: P(\text{the chosen point exceeds a budget}) \le 1 - \text{confidence}

holds over the choice itself: along a path, candidates are tested from the most cautious λ on, each at the full error,
until the first that fails (a fixed-sequence test); or all together by Holm's procedure. The kinds of offer, and the paths
within a kind, share the error.

Three kinds are always offered, since some users may not randomise: the best deterministic rule, the best single randomised
model, and the revealed mixture of two models, whose violation, utility and accuracy are the weighted means of its parts'
and whose EO gap is at most that.
"""

from __future__ import annotations

from separatrix.selection.choosing import KINDS, RULES, best_pair, select
from separatrix.selection.points import Candidate, Offer, OperatingPoint, Selection

__all__ = ["KINDS", "RULES", "Candidate", "Offer", "OperatingPoint", "Selection", "best_pair", "select"]
