"""Everything that needs torch: information of a batch, the balanced loss, stacked networks.

The public names are those of `__init__.pyi`, imported on first use. `lanes`, `networks` and
`evaluation` need numpy only, so that a trained network is used, saved and loaded without torch.
"""

from typing import Any

import lazy_loader

from separatrix.errors import MissingExtraError

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(f"`separatrix.nn.{name}` needs PyTorch: pip install 'separatrix[torch]'.") from error
