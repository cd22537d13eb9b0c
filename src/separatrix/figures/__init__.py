"""Figures: a folder of records as matplotlib figures, PNG and SVG.

- `draw(folder, out)` writes all of them: the six panels of every dataset and the two ablations where their runs are there;
- `frontier(folder, path)` is the plane of one dataset for both policies, which `Frontier.plot` shows.

Points are fold means, bars one standard deviation over the folds. Every method brings its own colour from a palette that
colour-blind readers can tell apart, and a marker of its own besides. Points that lost a fold are left out.
"""

from separatrix.figures.drawing import NAMES, batch_sizes, draw, frontier, gradient_norms, six_panels
from separatrix.figures.results import Results

__all__ = [
    "NAMES",
    "Results",
    "batch_sizes",
    "draw",
    "frontier",
    "gradient_norms",
    "six_panels",
]
