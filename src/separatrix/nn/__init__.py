"""Everything that needs torch: information of a batch, the balanced loss for any training loop, stacked networks.

Names are imported on first use. `lanes`, `networks` and `evaluation` need numpy only, so that a trained network is
used, saved and loaded without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from separatrix.errors import MissingExtraError

if TYPE_CHECKING:
    from separatrix.nn.balance import SeparationLoss
    from separatrix.nn.information import soft_cmi, soft_mi
    from separatrix.nn.lanes import Batch, Lane, Options, Recipe, Rival, Sample
    from separatrix.nn.networks import Networks
    from separatrix.nn.stack import train

_ROOM = {
    "Batch": "lanes",
    "Lane": "lanes",
    "Networks": "networks",
    "Options": "lanes",
    "Recipe": "lanes",
    "Rival": "lanes",
    "Sample": "lanes",
    "SeparationLoss": "balance",
    "soft_cmi": "information",
    "soft_mi": "information",
    "train": "stack",
}

__all__ = [
    "Batch",
    "Lane",
    "Networks",
    "Options",
    "Recipe",
    "Rival",
    "Sample",
    "SeparationLoss",
    "soft_cmi",
    "soft_mi",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOM:
        raise AttributeError(f"module 'separatrix.nn' has no attribute {name!r}")
    try:
        return getattr(import_module(f"separatrix.nn.{_ROOM[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(
            f"`separatrix.nn.{name}` needs PyTorch, which is not installed: pip install 'separatrix[torch]'."
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
