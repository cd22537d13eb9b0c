from . import datasets as datasets
from . import integrations as integrations
from . import methods as methods
from . import metrics as metrics
from . import nn as nn
from . import theory as theory
from .auditing.comparison import compare as compare
from .auditing.door import audit as audit
from .auditing.door import audit_regression as audit_regression
from .auditing.door import audit_score as audit_score
from .auditing.result import Audit as Audit
from .core.counts import CountTable as CountTable
from .errors import InfeasibleError as InfeasibleError
from .errors import SeparatrixError as SeparatrixError
from .estimators.aligned import AlignedRegressor as AlignedRegressor
from .estimators.frontier import FrontierClassifier as FrontierClassifier
from .estimators.scorer import SeparatedScorer as SeparatedScorer
from .estimators.single import SeparationClassifier as SeparationClassifier
from .frontier.frontier import Frontier as Frontier
from .frontier.trace import trace as trace
from .optimum.limit import limit as limit
from .optimum.objectives import Cost as Cost
from .predictor.predictor import Predictor as Predictor
from .predictor.predictor import load as load
from .production.monitor import Monitor as Monitor
from .statistics.certificates import sample_size as sample_size

__version__: str
