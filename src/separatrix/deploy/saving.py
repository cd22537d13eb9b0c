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

from separatrix.deploy import card
from separatrix.deploy.content import canonical, described, plain
from separatrix.errors import InputError, MissingExtraError
from separatrix.estimators.stored import model_bytes
from separatrix.io import whole_folder

if TYPE_CHECKING:
    from separatrix.deploy.predictor import Predictor

__all__ = [
    "ARRAYS", "BASE", "FILES", "FORMAT", "MANIFEST", "checksum", "file_entry", "save",
]  # fmt: skip

FORMAT = 1
MANIFEST, ARRAYS, BASE = "manifest.json", "arrays.safetensors", "base.skops"
FILES = {ARRAYS, BASE, card.CARD, card.PLOT}
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
    core, arrays = described(predictor)
    save_file(arrays, folder / ARRAYS)
    if predictor.bases:
        (folder / BASE).write_bytes(model_bytes(list(predictor.bases)))
    card.write(predictor, folder)
    manifest = {
        "format": FORMAT,
        **core,
        "model": predictor.model_hash,
        "key_id": predictor.key_id,
        "about": dict(predictor.about),
        "packages": _packages(),
        "files": {path.name: file_entry(path) for path in sorted(folder.iterdir())},
    }
    manifest["checksum"] = checksum(manifest)
    text = json.dumps(manifest, indent=1, ensure_ascii=False, default=plain)
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def file_entry(path: Path) -> dict[str, Any]:
    """Size and hash of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def checksum(manifest: Mapping[str, Any]) -> str:
    """Hash of a manifest."""
    return hashlib.sha256(canonical(manifest).encode()).hexdigest()


def _packages() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return found
