"""Embed a folder of images in batches into a .npy memory-map, resumable after a kill.

Rows are written to `<name>.part.npy`; after each block a small file records how many are done, and
for which weights and images. The finished part is renamed, so the final file is always whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from separatrix.errors import DataError
from separatrix.io import write_whole

__all__ = ["Embedder", "embed", "imagenet_pixels", "open_embedding"]

Embedder = Callable[[NDArray[np.float32]], NDArray[np.float32]]
# of ImageNet, as in the training of torchvision's ResNet18
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_SPREAD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


def imagenet_pixels(path: Path) -> NDArray[np.float32]:
    """One image as ImageNet networks expect it: the centre, normalised, (3, 224, 224)."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            width, height = image.size
            scale = 256 / min(width, height)
            size = (max(256, int(width * scale)), max(256, int(height * scale)))
            large = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, OSError) as error:
        text = f"{path} is not a whole image ({error}). Unpack the images again."
        raise DataError(text) from error
    left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
    pixels = np.asarray(large.crop((left, top, left + 224, top + 224)), dtype=np.float32) / 255
    return np.asarray((pixels - _MEAN) / _SPREAD, dtype=np.float32).transpose(2, 0, 1)


def embed(
    images: Sequence[Path],
    target: Path,
    network: Embedder,
    width: int,
    identity: str,
    batch: int = 64,
) -> NDArray[np.float32]:
    """Write the features of `images` to `target` (.npy) and open it as a read-only memory-map.

    Args:
        network: features of a batch of pixels (n, 3, 224, 224).
        width: how many features.
        identity: the weights' hash; a part with another one is started again.
        batch: images at a time.
    """
    from concurrent.futures import ThreadPoolExecutor

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    target.parent.mkdir(parents=True, exist_ok=True)
    part, record = target.with_suffix(".part.npy"), target.with_suffix(".part.json")
    key = {"identity": identity, "images": _names_hash(images), "rows": len(images), "width": width}
    done = _done(part, record, key)
    rows = open_memmap(part, "r+" if done else "w+", np.float32, (len(images), width))
    columns = ("embedding images", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    with bar as progress, ThreadPoolExecutor() as readers:  # decoding releases the interpreter
        task = progress.add_task("", total=len(images), completed=done)
        for start in range(done, len(images), batch):
            paths = images[start : start + batch]
            features = network(np.stack(list(readers.map(imagenet_pixels, paths))))
            if features.shape != (len(paths), width) or not np.isfinite(features).all():
                first = paths[0].name
                raise DataError(f"The network gave {features.shape} or infinite features: {first}.")
            rows[start : start + len(paths)] = features
            rows.flush()  # the rows are on disk before the record says so
            write_whole(record, json.dumps({**key, "done": start + len(paths)}))
            progress.advance(task, len(paths))
    del rows
    os.replace(part, target)
    record.unlink(missing_ok=True)
    return open_embedding(target, len(images))


def open_embedding(path: Path, rows: int) -> NDArray[np.float32]:
    """An embedding as float32 (rows, features): a .npy memory-map, or the one array of a .npz."""
    if not path.is_file():
        raise DataError(f"There is no file {path}. Pass the .npy or .npz file of the embeddings.")
    try:
        plain = path.suffix == ".npy"
        found: Any = np.load(path, mmap_mode="r" if plain else None, allow_pickle=False)
        if not plain:
            with found:
                names = found.files
                if len(names) != 1:
                    raise DataError(f"{path} must hold one array, it holds {', '.join(names)}.")
                found = found[names[0]]
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is not a whole .npy or .npz file of numbers ({error}).") from error
    if found.ndim != 2 or len(found) != rows or found.dtype.kind != "f":
        raise DataError(
            f"{path} must hold one row of numbers for each of {rows:,} images, got {found.dtype} "
            f"{found.shape}."
        )
    blocks = (found[start : start + 16_384] for start in range(0, rows, 16_384))
    if not all(np.isfinite(block).all() for block in blocks):
        raise DataError(f"{path} holds NaN or infinite values. Make the embedding again.")
    return found if found.dtype == np.float32 else found.astype(np.float32)


def _names_hash(images: Sequence[Path]) -> str:
    """Names and sizes: other images under the same names are noticed, without reading 1.4 GB."""
    text = "\n".join(f"{path.name} {path.stat().st_size}" for path in images)
    return hashlib.sha256(text.encode()).hexdigest()


def _done(part: Path, record: Path, key: dict[str, Any]) -> int:
    """How many rows of a part are valid."""
    if not (part.is_file() and record.is_file()):
        return 0
    try:
        state = json.loads(record.read_text())
        shape = np.load(part, mmap_mode="r", allow_pickle=False).shape
        whole = shape == (key["rows"], key["width"])
    except (ValueError, OSError, EOFError):
        return 0
    same = all(state.get(name) == value for name, value in key.items())
    return int(state["done"]) if same and whole else 0
