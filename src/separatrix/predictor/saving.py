"""A predictor on disk: a folder of plain numbers and plain text. Nothing in it is ever executed.

- `manifest.json`: format, checksums, labels, groups, columns, branches, budgets, audit, versions
- `manifest.sig`: the signature of the manifest, where a key was given
- `arrays.safetensors`: the numbers of the rules
- `base0.safetensors`, `base0.skops`, …: the model of each branch, see `stored`
- `MODEL_CARD.md`: for people

The checksums find files that were cut or changed. They do not find a forgery, since anybody can
compute them: sign the folder for that. `Content` is what decides; it leaves out the card, the
budgets and the versions. So its hash, and with it every person's coins, stays the same when only
these change.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError
from separatrix.io import whole_folder
from separatrix.predictor import card
from separatrix.predictor.signing import SIGNATURE, Key, sign
from separatrix.predictor.stored import file_ending, model_bytes, model_digest

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

__all__ = [
    "ARRAYS", "CORE", "FORMAT", "MANIFEST", "Content", "checksum", "file_entry", "plain",
    "save",
]  # fmt: skip

FORMAT = 3
CORE = ("labels", "groups", "features", "preprocessing", "grouping", "branches")
MANIFEST, ARRAYS = "manifest.json", "arrays.safetensors"
_PACKAGES = ("separatrix", "numpy", "scikit-learn", "torch", "lightgbm", "safetensors", "skops")


class Content(NamedTuple):
    """Plain data, the arrays of the rules, and the files of the models.

    Args:
        core: the fields `CORE` of a manifest.
        arrays: by name, those of branch i as "branch<i>.<name>".
        models: the bytes of each branch's model, by the name of its file.
    """

    core: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    models: Mapping[str, bytes]

    @classmethod
    def from_predictor(cls, predictor: Predictor) -> Content:
        """What `Predictor.save` writes and `model_hash` hashes."""
        arrays: dict[str, NDArray[Any]] = {}
        models: dict[str, bytes] = {}
        branches = []
        for i, (branch, weight) in enumerate(
            zip(predictor.branches, predictor.weights, strict=True)
        ):
            for name, array in branch.rule.arrays().items():
                arrays[f"branch{i}.{name}"] = np.asarray(array, order="C")
            base = branch.base
            content = model_bytes(base.model, base.method)
            file = f"base{i}.{file_ending(content)}"
            models[file] = content
            branches.append(
                {
                    "base": file,
                    "reads": base.reads,
                    "left_out": list(base.left_out),
                    "method": base.method,
                    "trade_off": base.trade_off,
                    "lane": base.lane,
                    "rule": branch.rule.kind,
                    "weight": float(weight),
                }
            )
        prepared, grouping = predictor.preprocessing, predictor.grouping
        core = {
            "labels": [plain(label) for label in predictor.labels],
            "groups": [plain(group) for group in predictor.groups],
            "features": list(predictor.features),
            "preprocessing": None if prepared is None else prepared.to_dict(),
            "grouping": None if grouping is None else grouping.to_dict(),
            "branches": branches,
        }
        return cls(core, arrays, models)

    @property
    def hash(self) -> str:
        """SHA-256 of the plain data, of the models' digests, and of each array with its name, type
        and shape.
        """
        digests = {name: model_digest(content) for name, content in self.models.items()}
        whole = hashlib.sha256(canonical([self.core, digests]).encode())
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            shape = list(self.arrays[name].shape)
            whole.update(canonical([name, array.dtype.str, shape]).encode())
            whole.update(hashlib.sha256(array.tobytes()).digest())
        return whole.hexdigest()


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


def finite(value: Any) -> Any:
    """Plain data as strict JSON has it: a number that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    value = plain(value)
    if isinstance(value, list):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def canonical(value: Any) -> str:
    """One text for equal plain data."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=plain)


def plain(value: Any) -> Any:
    """A level or a number as JSON has it; tuples become lists, `from_plain` restores them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    raise InputError(
        f"{value!r} of type {type(value).__name__} cannot be written as JSON. Use text or numbers."
    )
