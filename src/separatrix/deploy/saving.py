"""A predictor on disk: a folder of plain numbers and plain text. Nothing in it is ever executed.

- `manifest.json`: format, checksums, labels, groups, columns, models, budgets, audit, versions
- `arrays.safetensors`: the numbers of all models
- `base.skops`: the scikit-learn classifiers behind it, if there are any, in skops' audited format
- `MODEL_CARD.md`: for people, with `frontier.svg`

The checksums find files that were cut or changed. They do not find a forgery, since anybody can
compute them: sign the folder for that.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.deploy import card
from separatrix.errors import InputError, MissingExtraError
from separatrix.io import whole_folder

if TYPE_CHECKING:
    from separatrix.deploy.predictor import Predictor

__all__ = [
    "ARRAYS", "BASE", "FILES", "FORMAT", "MANIFEST", "checksum", "file_entry", "save", "skops_io",
]  # fmt: skip

FORMAT = 1
MANIFEST, ARRAYS, BASE = "manifest.json", "arrays.safetensors", "base.skops"
FILES = {ARRAYS, BASE, card.CARD, card.PLOT}
_COMPONENT = ("method", "trade_off", "policy", "lane", "threshold", "uses_groups")
_PACKAGES = ("separatrix", "numpy", "scikit-learn", "torch", "safetensors", "skops")


def save(predictor: Predictor, folder: Path) -> Path:
    """Write to a temporary folder beside the target, then rename it into place in one step."""
    target = folder.absolute()
    if target.exists() and not (target / MANIFEST).is_file():
        raise InputError(
            f"{str(folder)!r} exists and is not a saved predictor. Pass another folder, or remove "
            "it first."
        )
    with whole_folder(folder) as temporary:
        _write(predictor, temporary)
    return folder


def _write(predictor: Predictor, folder: Path) -> None:
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise MissingExtraError(
            "Saving a predictor needs safetensors: pip install 'separatrix[deploy]'."
        ) from error
    arrays: dict[str, NDArray[Any]] = {}
    components = []
    branches = zip(predictor.components, predictor.weights, strict=True)
    for i, (component, weight) in enumerate(branches):
        for name, array in component.fitted.arrays().items():
            value = np.asarray(array)
            if value.dtype.kind not in "fiub":
                raise InputError(
                    f"The method {component.method!r} keeps {name!r} as {value.dtype}: only "
                    "numbers are saved."
                )
            arrays[f"component{i}.{name}"] = np.asarray(value, order="C")
        entry = {"kind": getattr(component.fitted, "kind", "method"), "weight": float(weight)}
        components.append({name: getattr(component, name) for name in _COMPONENT} | entry)
    save_file(arrays, folder / ARRAYS)
    if predictor.bases:
        skops_io().dump(list(predictor.bases), folder / BASE)
    card.write(predictor, folder)
    prepared, grouping = predictor.preprocessing, predictor.grouping
    manifest = {
        "format": FORMAT,
        "labels": [_plain(label) for label in predictor.labels],
        "groups": [_plain(group) for group in predictor.groups],
        "features": list(predictor.features),
        "preprocessing": None if prepared is None else prepared.to_dict(),
        "grouping": None if grouping is None else grouping.to_dict(),
        "components": components,
        "about": dict(predictor.about),
        "packages": _packages(),
        "files": {path.name: file_entry(path) for path in sorted(folder.iterdir())},
    }
    manifest["checksum"] = checksum(manifest)
    text = json.dumps(manifest, indent=1, ensure_ascii=False, default=_plain)
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def skops_io() -> Any:
    """The module `skops.io`; one sentence where it is not installed."""
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtraError(
            "A scikit-learn base needs skops: pip install 'separatrix[deploy]'."
        ) from error
    return skops.io


def file_entry(path: Path) -> dict[str, Any]:
    """Size and hash of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def checksum(manifest: Mapping[str, Any]) -> str:
    """Hash of a manifest."""
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _packages() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return found


def _plain(value: Any) -> Any:
    """A level or a number as JSON has it; tuples become lists, `from_plain` restores them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    raise InputError(
        f"{value!r} of type {type(value).__name__} cannot be written as JSON. Use text or numbers."
    )
