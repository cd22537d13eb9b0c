"""ResNet18 up to its 512 pooled features, from a weight file, without torchvision.

The file has torchvision's names. There is no initialisation here, so no network can be random by
accident. Batch normalisation is an affine map at inference and is folded into the convolution
before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from separatrix.errors import DataError

_EPS = 1e-5  # torchvision's batch normalisation


def load_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .pth (read without running any code in it) or .safetensors file."""
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise DataError(f"{path} holds more than tensors, or is damaged: not opened. Save a state_dict().") from error
    except (SafetensorError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} is not a whole weight file that torch can read ({error}). Get it again.") from error
    named = isinstance(weights, Mapping)
    if not named or not all(isinstance(value, Tensor) for value in weights.values()):
        raise DataError(f"{path} must hold a state_dict (name → tensor), it holds a {type(weights).__name__}.")
    return dict(weights)


class ResNet18:
    """The network without its last layer.

    Args:
        weights: tensors with torchvision's names: conv1.weight, bn1.*, layer1.0.conv1.weight, …;
            fc.* is ignored. The widths are those of the tensors.

    Raises:
        DataError: a tensor is missing or its shape does not fit.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._weights = weights
        self._stem = self._folded("conv1", "bn1")
        self._blocks = []
        for stage, block in product((1, 2, 3, 4), (0, 1)):
            prefix = f"layer{stage}.{block}"
            first, second = (self._folded(f"{prefix}.conv{i}", f"{prefix}.bn{i}") for i in (1, 2))
            smaller = stage > 1 and block == 0  # half the height and width, by a stride of two
            names = f"{prefix}.downsample.0", f"{prefix}.downsample.1"
            self._blocks.append((first, second, self._folded(*names) if smaller else None))
        del self._weights

    def _folded(self, convolution: str, norm: str) -> tuple[Tensor, Tensor]:
        names = [f"{convolution}.weight"]
        names += [f"{norm}.{name}" for name in ("weight", "bias", "running_mean", "running_var")]
        absent = [name for name in names if name not in self._weights]
        if absent:
            raise DataError(f"The weights lack {', '.join(absent)}: they are not those of a ResNet18.")
        kernel, scale, shift, mean, variance = (self._weights[name].double() for name in names)
        shapes = {scale.shape, shift.shape, mean.shape, variance.shape}
        if kernel.ndim != 4 or shapes != {kernel.shape[:1]}:
            shapes_told = [tuple(kernel.shape), tuple(scale.shape)]
            raise DataError(f"The weights of {convolution} and {norm} do not fit: {shapes_told}.")
        factor = scale / torch.sqrt(variance + _EPS)
        folded = (kernel * factor[:, None, None, None]).float()
        return folded.contiguous(memory_format=torch.channels_last), (shift - mean * factor).float()

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Features (n, width) of normalised images (n, 3, height, width)."""
        x = images.contiguous(memory_format=torch.channels_last)  # a fifth faster on a CPU
        x = F.relu(F.conv2d(x, *self._stem, stride=2, padding=3))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        for first, second, shortcut in self._blocks:
            stride = 1 if shortcut is None else 2
            y = F.relu(F.conv2d(x, *first, stride=stride, padding=1))
            y = F.conv2d(y, *second, padding=1)
            x = F.relu(y + (x if shortcut is None else F.conv2d(x, *shortcut, stride=stride)))
        return x.mean((2, 3))


def embedder(path: Path) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """The network of a weight file as a function from pixels to features.

    It computes on the GPU where there is one.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weights = {name: tensor.to(device) for name, tensor in load_weights(path).items()}
    network = ResNet18(weights)

    def features(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(network(torch.from_numpy(pixels).to(device)).cpu().numpy())

    return features


def cached_weights(name: str) -> Path:
    """Where torch keeps weights that it once downloaded."""
    return Path(torch.hub.get_dir()) / "checkpoints" / name
