"""CelebA: is the person smiling, groups by the attribute Male; 512 ResNet18 features.

The images may not be redistributed, so the official folder must be there: img_align_celeba/,
list_attr_celeba.txt and list_eval_partition.txt. A ready embedding may be passed instead of images.

The embedding is made once, in batches, into a .npy memory-map in the cache. Every batch is a file
of its own until all are there, so that a killed run is resumed. The name of the embedding holds the
hash of weights and images: other ones are begun anew.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from separatrix.columns.features import as_category
from separatrix.columns.text import read_csv
from separatrix.columns.values import Coded
from separatrix.datasets._dataset import Data, Dataset
from separatrix.datasets._files import File, cache_folder, data_folders
from separatrix.errors import DataError, InputError, require
from separatrix.io import Stages, whole_file, write_whole

_ATTRIBUTES = File(("celeba/list_attr_celeba.txt", "celeba/Anno/list_attr_celeba.txt"))
_PARTITION = File(("celeba/list_eval_partition.txt", "celeba/Eval/list_eval_partition.txt"))
# torchvision's IMAGENET1K_V1; the name carries the start of its sha256
_WEIGHTS = "resnet18-f37072fd.pth"
Embedder = Callable[[NDArray[np.float32]], NDArray[np.float32]]
# of ImageNet, as in the training of torchvision's ResNet18
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_SPREAD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


def load(
    *,
    folder: str | Path | None = None,
    embeddings: str | Path | None = None,
    weights: str | Path | None = None,
    target: str = "Smiling",
    sensitive: str = "Male",
    batch: int = 64,
) -> Data:
    """CelebA.

    Args:
        folder: the official folder; SEPARATRIX_DATA/celeba or the cache's where None.
        embeddings: instead of images, a .npy or .npz with rows as in list_attr_celeba.txt.
        weights: a ResNet18 weight file (.pth, .safetensors); None: torchvision's, in torch's cache.
        target, sensitive: names of attributes.
        batch: images at a time.
    """
    root = _root(folder)
    source = _inside(root, *_ATTRIBUTES.paths)
    names, attributes = _attributes(source, (target, sensitive))
    partition = _partition(_inside(root, *_PARTITION.paths), names)
    if embeddings is not None:
        path = Path(embeddings)
        X, note = open_embedding(path, len(names)), f"Features: {path.name}, as given."
    else:
        X, note = _embedding(root, names, weights, batch)
    read_from = {str(source): hashlib.sha256(source.read_bytes()).hexdigest()}
    notes = (note, "`columns['partition']`: 0 train, 1 valid, 2 test.")
    return Data(
        y=attributes[target],
        z=attributes[sensitive],
        labels=(f"not {target}", target),
        groups=(f"not {sensitive}", sensitive),
        card=DATASET.card("celeba", read_from, notes=notes),
        columns={"partition": partition},
        matrix=X,
        matrix_names=tuple(f"feature {index}" for index in range(X.shape[1])),
    )


def _root(folder: str | Path | None) -> Path:
    places = [place / "celeba" for place in data_folders()] if folder is None else [Path(folder)]
    for place in places:
        if place.is_dir():
            return place
    raise DataError(
        "CelebA is not here: put img_align_celeba/, list_attr_celeba.txt and list_eval_partition.txt into "
        f"{places[0]} (from mmlab.ie.cuhk.edu.hk/projects/CelebA.html, for non-commercial research)."
    )


def _inside(root: Path, *paths: str) -> Path:
    """What lies in the folder at one of these places."""
    for path in paths:
        if (place := root / path.removeprefix("celeba/")).exists():
            return place
    raise DataError(f"{Path(paths[0]).name} is not in {root}: put the official one there.")


def _attributes(path: Path, wanted: tuple[str, str]) -> tuple[list[str], dict[str, NDArray[np.intp]]]:
    """Image names and the wanted attributes as 0/1; the file writes them as -1/1."""
    with path.open() as lines:
        announced, header = next(lines, "").strip(), next(lines, "").split()
        if not announced.isdigit():
            raise DataError(f"{path} must begin with the number of images and the attributes' names. Get the original.")
        for name in wanted:
            if name not in header:
                raise InputError(f"CelebA has no attribute {name!r}; it has {', '.join(header)}.")
        columns = ["image", *header]
        table = read_csv(lines, source=str(path), delimiter=" ", header=columns, only=["image", *wanted])
    names = as_category(table.pop("image"), "image").values().tolist()
    if len(names) != int(announced):
        raise DataError(f"{path} announces {int(announced):,} images and holds {len(names):,}. Get it again.")
    for name, signs in table.items():
        if isinstance(signs, Coded) or not np.isin(signs, (-1, 1)).all():
            raise DataError(f"{path}: attribute {name} must be -1 or 1. Get the original.")
    return names, {name: np.asarray(signs == 1, dtype=np.intp) for name, signs in table.items()}


def _partition(path: Path, names: list[str]) -> NDArray[np.float64]:
    with path.open() as lines:
        table = read_csv(lines, source=str(path), delimiter=" ", header=["image", "part"])
    listed, parts = as_category(table["image"], "image").values().tolist(), table["part"]
    if listed != names or isinstance(parts, Coded) or not np.isin(parts, (0, 1, 2)).all():
        raise DataError(f"{path} does not list the images of list_attr_celeba.txt with 0, 1 or 2. Get the original.")
    return parts.astype(np.float64)


def _embedding(root: Path, names: list[str], weights: str | Path | None, batch: int) -> tuple[NDArray[np.float32], str]:
    require("torch", "torch", "Embedding CelebA")
    from separatrix.nn import resnet

    path = resnet.cached_weights(_WEIGHTS) if weights is None else Path(weights)
    if not path.is_file():
        raise DataError(
            f"There is no weight file {path}. Put torchvision's {_WEIGHTS} there, or pass weights= or embeddings=PATH."
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if path.name == _WEIGHTS and not digest.startswith("f37072fd"):
        raise DataError(f"{path} is damaged: its sha256 begins with {digest[:8]}. Delete it and get it again.")
    place = _inside(root, "img_align_celeba", "Img/img_align_celeba")
    images = [place / name for name in names]
    if absent := [image.name for image in images if not image.is_file()]:
        some = f"{len(absent):,} of {len(names):,} images, such as {absent[0]}"
        raise DataError(f"{place} lacks {some}. Unpack them there.")
    # names and sizes: other images under the same names are noticed, without reading 1.4 GB
    listing = "\n".join(f"{image} {image.stat().st_size}" for image in images)
    content = hashlib.sha256(listing.encode()).hexdigest()
    target = cache_folder() / "celeba" / f"resnet18-{digest[:12]}-{content[:12]}.npy"
    if not target.is_file():
        embed(images, target, resnet.embedder(path), batch)
    note = f"Features: ResNet18 ({path.name}, sha256 {digest[:12]}…), kept at {target}."
    return open_embedding(target, len(names)), note


def imagenet_pixels(path: Path) -> NDArray[np.float32]:
    """One image as ImageNet networks expect it: the centre, normalised, (3, 224, 224)."""
    Image = require("PIL.Image", "data", "Reading images")
    try:
        with Image.open(path) as image:
            width, height = image.size
            scale = 256 / min(width, height)
            size = (max(256, int(width * scale)), max(256, int(height * scale)))
            large = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
    except OSError as error:  # Pillow's own are OSErrors
        raise DataError(f"{path} is not a whole image ({error}). Unpack the images again.") from error
    left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
    pixels = np.asarray(large.crop((left, top, left + 224, top + 224)), dtype=np.float32) / 255
    return np.asarray((pixels - _MEAN) / _SPREAD, dtype=np.float32).transpose(2, 0, 1)


def embed(images: Sequence[Path], target: Path, network: Embedder, batch: int = 64) -> None:
    """Write the features of `images` to `target` (.npy).

    Args:
        network: features of a batch of pixels (n, 3, 224, 224).
        batch: images at a time.
    """
    from concurrent.futures import ThreadPoolExecutor

    parts = target.with_suffix(f".{batch}.parts")
    starts = range(0, len(images), batch)
    files = [parts / f"{start}.npy" for start in starts]
    bar = Stages().stage(f"Embedding images, {batch} at a time", len(starts))
    with bar as advance, ThreadPoolExecutor() as readers:  # decoding releases the interpreter
        for start, file in zip(starts, files, strict=True):
            if not file.is_file():
                paths = images[start : start + batch]
                features = network(np.stack(list(readers.map(imagenet_pixels, paths))))
                if len(features) != len(paths) or not np.isfinite(features).all():
                    raise DataError(f"The network gave infinite features: {paths[0].name}.")
                content = io.BytesIO()
                np.save(content, features)
                write_whole(file, content.getvalue())
            advance()
    width = np.load(files[0], mmap_mode="r").shape[1]
    with whole_file(target) as unfinished:
        rows = open_memmap(unfinished, "w+", np.float32, (len(images), width))
        for start, file in zip(starts, files, strict=True):
            rows[start : start + batch] = np.load(file)
        rows.flush()
    shutil.rmtree(parts)


def open_embedding(path: Path, rows: int) -> NDArray[np.float32]:
    """An embedding as float32 (rows, features): a .npy memory-map, or the one array of a .npz."""
    try:
        loaded: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        arrays = [loaded] if isinstance(loaded, np.ndarray) else [loaded[name] for name in loaded.files]
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is not a whole .npy or .npz file of numbers ({error}).") from error
    features = arrays[0]
    if len(arrays) > 1 or features.ndim != 2 or len(features) != rows or features.dtype.kind != "f":
        got = f"{len(arrays)} array of {features.dtype} {features.shape}"
        raise DataError(f"{path} must hold one row of numbers for each of {rows:,} images, got {got}.")
    blocks = (features[start : start + 16_384] for start in range(0, rows, 16_384))
    if not all(np.isfinite(block).all() for block in blocks):
        raise DataError(f"{path} holds NaN or infinite values. Make the embedding again.")
    return np.asanyarray(features, dtype=np.float32)


DATASET = Dataset(
    title="CelebA, ResNet18 embedding",
    source="mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    licence="non-commercial research only; not redistributable",
    citation="Liu, Z., Luo, P., Wang, X. and Tang, X. (2015). Deep learning face attributes in the wild. ICCV.",
    rows=202_599,
    features=512,
    labels=2,
    groups=2,
    read=load,
    files=(_ATTRIBUTES, _PARTITION),
)
