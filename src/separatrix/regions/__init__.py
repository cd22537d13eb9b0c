"""ROC regions: the rates a group can have (`geometry`), and the certified best over their product (`certified`, `cutting`)."""

from separatrix.regions.certified import CertifiedCurve, best_separated, certified_curve, most_useful
from separatrix.regions.geometry import Regions, RocCurve, rates_utility, rates_violation, roc_curve

__all__ = [
    "CertifiedCurve",
    "Regions",
    "RocCurve",
    "best_separated",
    "certified_curve",
    "most_useful",
    "rates_utility",
    "rates_violation",
    "roc_curve",
]
