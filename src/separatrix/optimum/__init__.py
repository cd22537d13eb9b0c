"""A known or empirical law and the best that can be done with it."""

from separatrix.optimum import population as population  # public: `sx.theory.population`
