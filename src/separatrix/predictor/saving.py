"""A predictor on disk: a folder of plain numbers and plain text. Nothing in it is ever executed.

- `manifest.json`: format, checksums, labels, groups, columns, branches, budgets, audit, versions
- `manifest.sig`: the signature of the manifest, where a key was given
- `arrays.safetensors`: the numbers of the rules
- `base0.safetensors`, `base0.skops`, …: the model of each branch, see `stored`
- `MODEL_CARD.md`: for people

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

from separatrix.errors import InputError
from separatrix.io import whole_folder
from separatrix.predictor import card
from separatrix.predictor.content import FORMAT, Content, canonical, finite
from separatrix.predictor.signing import SIGNATURE, Key, sign

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

__all__ = ["ARRAYS", "MANIFEST", "checksum", "file_entry", "save"]

MANIFEST, ARRAYS = "manifest.json", "arrays.safetensors"
_PACKAGES = ("separatrix", "numpy", "scikit-learn", "torch", "lightgbm", "safetensors", "skops")


def save(predictor: Predictor, folder: Path, sign_key: Key | None = None) -> Path:
    """Write to a temporary folder beside the target, then exchange the two in one step."""
    target = folder.absolute()
    if target.exists() and not (target / MANIFEST).is_file():
        raise InputError(
            f"{str(folder)!r} exists and is not a saved predictor. Pass another folder, or remove "
            "it first."
        )
    if any(branch.base.model is None for branch in predictor.branches):
        raise InputError("This predictor reads bare scores and has no model to save.")
    with whole_folder(folder) as temporary:
        _write(predictor, temporary, sign_key)
    return folder


def _write(predictor: Predictor, folder: Path, sign_key: Key | None) -> None:
    from safetensors.numpy import save as safetensors

    content = Content.from_predictor(predictor)
    (folder / ARRAYS).write_bytes(safetensors(dict(content.arrays)))
    for name, model in content.models.items():
        (folder / name).write_bytes(model)
    (folder / card.CARD).write_text(card.text(predictor), encoding="utf-8")
    manifest = {
        "format": FORMAT,
        **content.core,
        "model": content.hash,
        "key_id": predictor.key_id,
        "about": finite(predictor.about),
        "packages": _packages(),
        "files": {one.name: file_entry(one.read_bytes()) for one in sorted(folder.iterdir())},
    }
    try:
        manifest["checksum"] = checksum(manifest)
        text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise InputError(f"This predictor holds a number that is not finite: {error}.") from error
    (folder / MANIFEST).write_bytes(text.encode())
    if sign_key is not None:
        (folder / SIGNATURE).write_bytes(sign(text.encode(), sign_key))


def file_entry(content: bytes) -> dict[str, Any]:
    """Size and hash of a file."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


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
