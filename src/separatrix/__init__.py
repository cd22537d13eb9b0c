"""What a prediction still says about a person's group once the true outcome is known.

The public names are those of `__init__.pyi`; each is imported on first use, so that
``import separatrix`` needs neither torch nor pandas nor matplotlib.
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
