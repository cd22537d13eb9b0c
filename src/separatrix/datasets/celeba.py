"""CelebA: is the person smiling, groups by the attribute Male; 512 ResNet18 features.

The images may not be redistributed, so the official folder must be there: img_align_celeba/,
list_attr_celeba.txt and list_eval_partition.txt. A ready embedding may be passed instead of images.

The embedding is made once, in batches, into a .npy memory-map in the cache, and resumed after a
kill: rows are written to `<name>.part.npy`; after each batch a small file records how many are
done, and for which weights and images. The finished part is renamed: the final file is whole.
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

from separatrix.datasets._dataset import Data, Dataset
from separatrix.datasets._files import File, cache_folder, data_folders
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.io import Stages, write_whole

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
    source = _inside(root, _ATTRIBUTES)
    names, attributes = _attributes(source, (target, sensitive))
    partition = _partition(_inside(root, _PARTITION), names)
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
        "CelebA is not here: put img_align_celeba/, list_attr_celeba.txt and "
        f"list_eval_partition.txt into {places[0]} (from the project page "
        "mmlab.ie.cuhk.edu.hk/projects/CelebA.html, for non-commercial research)."
    )


def _inside(root: Path, file: File) -> Path:
    for path in file.paths:
        if (place := root / path.removeprefix("celeba/")).is_file():
            return place
    raise DataError(f"{Path(file.paths[0]).name} is not in {root}: put the official file there.")


def _attributes(
    path: Path, wanted: tuple[str, str]
) -> tuple[list[str], dict[str, NDArray[np.intp]]]:
    """Image names and the wanted attributes as 0/1; the file writes them as -1/1."""
    with path.open() as lines:
        announced, header = next(lines, "").strip(), next(lines, "").split()
        if not announced.isdigit():
            text = "must begin with the number of images and the attributes' names"
            raise DataError(f"{path} {text}. Get the original.")
        for name in wanted:
            if name not in header:
                raise InputError(f"CelebA has no attribute {name!r}; it has {', '.join(header)}.")
        names, signs = [], []
        first, second = (1 + header.index(name) for name in wanted)
        for fields in map(str.split, lines):  # of 40 attributes two are kept
            if len(fields) != len(header) + 1:
                name = fields[0] if fields else "nothing"
                raise DataError(f"{path}: the line of {name} is cut short.")
            names.append(fields[0])
            signs.append((fields[first], fields[second]))
    if len(names) != int(announced):
        raise DataError(
            f"{path} announces {int(announced):,} images and holds {len(names):,}. Get it again."
        )
    found = {}
    for name, column in zip(wanted, zip(*signs, strict=True), strict=True):
        if other := sorted(set(column) - {"-1", "1"}):
            raise DataError(f"{path}: attribute {name} must be -1 or 1, got {other[0]!r}.")
        found[name] = np.array([sign == "1" for sign in column], dtype=np.intp)
    return names, found


def _partition(path: Path, names: list[str]) -> NDArray[np.float64]:
    pairs = [line.split() for line in path.read_text().splitlines() if line.strip()]
    known = all(pair[1:] in (["0"], ["1"], ["2"]) for pair in pairs)
    if not known or [pair[0] for pair in pairs] != names:
        text = "does not list the images of list_attr_celeba.txt with 0, 1 or 2"
        raise DataError(f"{path} {text}. Get the original.")
    return np.array([float(pair[1]) for pair in pairs])


def _embedding(
    root: Path, names: list[str], weights: str | Path | None, batch: int
) -> tuple[NDArray[np.float32], str]:
    path = _weight_file(weights)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if path.name == _WEIGHTS and not digest.startswith("f37072fd"):
        raise DataError(
            f"{path} is damaged: its sha256 begins with {digest[:8]}. Delete it and get it again."
        )
    listing = hashlib.sha256("\n".join((str(root.resolve()), *names)).encode()).hexdigest()
    target = cache_folder() / "celeba" / f"resnet18-{digest[:12]}-{listing[:12]}.npy"
    note = f"Features: ResNet18 ({path.name}, sha256 {digest[:12]}…), kept at {target}."
    if target.is_file():
        return open_embedding(target, len(names)), note
    folders = [root / "img_align_celeba", root / "Img" / "img_align_celeba"]
    images = next((place for place in folders if place.is_dir()), folders[0])
    absent = [name for name in names if not (images / name).is_file()]
    if absent:
        raise DataError(
            f"{images} lacks {len(absent):,} of {len(names):,} images, such as {absent[0]}. Unpack "
            "them there."
        )
    network, width = _resnet().embedder(path)
    return embed([images / name for name in names], target, network, width, digest, batch), note


def _weight_file(weights: str | Path | None) -> Path:
    if weights is not None:
        path = Path(weights)
        if not path.is_file():
            raise DataError(f"There is no weight file {path}.")
        return path
    path = _resnet().cached_weights(_WEIGHTS)
    if not path.is_file():
        raise DataError(
            f"The ResNet18 weights are not here: put torchvision's {_WEIGHTS} at {path}, or pass "
            "weights=PATH, or pass a ready embedding as embeddings=PATH."
        )
    return path


def _resnet() -> Any:
    try:
        from separatrix.nn import resnet
    except ModuleNotFoundError as error:
        text = "Embedding CelebA needs torch: pip install 'separatrix[torch]'."
        raise MissingExtraError(text) from error
    return resnet


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

    target.parent.mkdir(parents=True, exist_ok=True)
    part, record = target.with_suffix(".part.npy"), target.with_suffix(".part.json")
    key = {"identity": identity, "images": _names_hash(images), "rows": len(images), "width": width}
    done = _done(part, record, key)
    rows = open_memmap(part, "r+" if done else "w+", np.float32, (len(images), width))
    starts = range(done, len(images), batch)
    bar = Stages().stage(f"Embedding images, {batch} at a time", len(starts))
    with bar as advance, ThreadPoolExecutor() as readers:  # decoding releases the interpreter
        for start in starts:
            paths = images[start : start + batch]
            features = network(np.stack(list(readers.map(imagenet_pixels, paths))))
            if features.shape != (len(paths), width) or not np.isfinite(features).all():
                first = paths[0].name
                raise DataError(f"The network gave {features.shape} or infinite features: {first}.")
            rows[start : start + len(paths)] = features
            rows.flush()  # the rows are on disk before the record says so
            write_whole(record, json.dumps({**key, "done": start + len(paths)}))
            advance()
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


DATASET = Dataset(
    title="CelebA, ResNet18 embedding",
    source="mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    licence="non-commercial research only; not redistributable",
    citation="Liu, Z., Luo, P., Wang, X. and Tang, X. (2015). Deep learning face attributes in "
    "the wild. ICCV.",
    rows=202_599,
    features=512,
    labels=2,
    groups=2,
    read=load,
    files=(_ATTRIBUTES, _PARTITION),
)
