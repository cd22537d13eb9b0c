"""A predictor on disk: a folder of plain numbers and plain text. Nothing in it is ever executed.

- `manifest.json`: format, checksums, labels, groups, columns, branches, budgets, audit, versions
- `manifest.sig`: the signature of the manifest, where a key was given
- `arrays.safetensors`: the numbers of the rules
- `base0.safetensors`, `base0.skops`, …: the model of each branch, see `stored`
- `MODEL_CARD.md`: for people

`Content` is what decides; it leaves out the card, the budgets and the versions. So its hash, and
with it every person's coins, stays the same when only these change.

`FIELDS` is the ONE list of what a manifest says, field by field; anything else is refused. The
checksums find a file that was cut or changed. They do not find a forgery, since anybody can compute
them. A signature does: Ed25519 over the manifest, which holds the hash of every file. The private
key signs (`openssl genpkey -algorithm ed25519 -out private.pem`), the public key verifies
(`openssl pkey -in private.pem -pubout -out public.pem`).
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.errors import DataError, InputError, require
from separatrix.io import whole_folder
from separatrix.predictor import card
from separatrix.predictor.branch import RULES
from separatrix.predictor.stored import file_ending, model_bytes, model_digest

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

FORMAT = 3
CORE = ("labels", "groups", "features", "preprocessing", "grouping", "branches")
BASE = ("reads", "left_out", "method", "trade_off", "lane")  # what a manifest says of a `Base`
MANIFEST, SIGNATURE, ARRAYS = "manifest.json", "manifest.sig", "arrays.safetensors"
Key = str | Path | bytes  # a file, or what it holds
_PACKAGES = ("separatrix", "numpy", "scikit-learn", "torch", "lightgbm", "safetensors", "skops")
_PURPOSE = b"separatrix predictor\n"  # a signature of anything else is none of this
_KEYS = {  # what a key does, and how one is made
    "private": ("signing", "genpkey -algorithm ed25519 -out private.pem"),
    "public": ("verifying", "pkey -in private.pem -pubout -out public.pem"),
}


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
        for i, branch in enumerate(predictor.branches):
            for name, array in branch.rule.arrays().items():
                arrays[f"branch{i}.{name}"] = np.asarray(array, order="C")
            content = model_bytes(branch.base.model, branch.base.method)
            file = f"base{i}.{file_ending(content)}"
            models[file] = content
            entry = {"base": file, "rule": branch.rule.kind, "weight": float(predictor.weights[i])}
            branches.append(entry | {name: getattr(branch.base, name) for name in BASE})
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
        "about": plain(predictor.about),
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


def _packages() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):  # an extra that is not installed
            found[name] = version(name)
    return found


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _levels(value: Any) -> bool:
    plain_level = (str, bool, int, float)
    whole = has_shape(value, [(*plain_level, [plain_level])])
    return whole and len({json.dumps(level) for level in value}) == len(value)


def _edges(value: Any) -> bool:
    return has_shape(value, [(int, float)]) and len(value) > 0 and value == sorted(set(value))


_SHA256 = re.compile(r"[0-9a-f]{64}")
_BRANCH = {
    "base": re.compile(r"base\d{1,4}\.(safetensors|skops|joint)"),
    "reads": str,
    "left_out": [_count],
    "method": lambda name: name == "" or name in methods.names(),
    "trade_off": (int, float),
    "lane": _count,
    "rule": re.compile("|".join(RULES)),
    "weight": (int, float),
}
# The shape of each field: see `has_shape`.
FIELDS: dict[str, Any] = {
    "format": int,
    "labels": lambda levels: _levels(levels) and len(levels) > 1,
    "groups": _levels,
    "features": [str],
    "preprocessing": (type(None), {"version": int, "features": [dict]}),
    "grouping": (
        type(None),
        {
            "columns": [str],
            "groups": _levels,
            "edges?": {str: _edges},
            "missing?": bool,
            "other?": bool,
        },
    ),
    "branches": [_BRANCH],
    "model": _SHA256,
    "key_id": (type(None), re.compile(r"[0-9a-f]{8}")),
    "about": dict,
    "packages": {str: str},
    "files": {str: {"bytes": _count, "sha256": _SHA256}},
}


def has_shape(value: Any, shape: Any) -> bool:
    """Whether plain data has a shape.

    That is a type, a pattern of a text, a check, a tuple of alternatives, a list with the shape of
    every element, or a record of shapes by name. A name that ends in "?" may be missing; the name
    `str` stands for any.
    """
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.fullmatch(value) is not None
    if isinstance(shape, tuple):
        return any(has_shape(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(one, shape[0]) for one in value)
    if isinstance(shape, type):
        return type(value) is shape
    if not isinstance(shape, dict):
        return bool(shape(value))
    if not isinstance(value, dict):
        return False
    if str in shape:
        return all(has_shape(one, shape[str]) for one in value.values())
    known = {name.removesuffix("?"): one for name, one in shape.items()}
    needed = known.keys() & shape.keys()
    return needed <= value.keys() <= known.keys() and all(
        has_shape(one, known[name]) for name, one in value.items()
    )


def parse(text: bytes, path: Path) -> dict[str, Any]:
    """The manifest of these bytes, without its checksum; `path` is for the error."""
    try:
        # strictly: no NaN, no Infinity, no name twice
        manifest = json.loads(
            text, parse_constant=_number, parse_float=_number, object_pairs_hook=_record
        )
    except (ValueError, RecursionError) as error:
        told = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise DataError(f"{path} cannot be read; the file was cut or changed ({told}).") from error
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if type(found) is not int:
        raise DataError(f"{path} is not the manifest of a predictor.")
    if found != FORMAT:
        which, advice = ("a newer", "Upgrade") if found > FORMAT else ("an older", "Select")
        raise DataError(
            f"{str(path.parent)!r} was saved in format {found} by {which} separatrix; this one "
            f"reads {FORMAT}. {advice} and save it again."
        )
    if manifest.pop("checksum", None) != checksum(manifest):
        raise DataError(
            f"{path} was changed after it was written: its checksum does not match. Load another "
            "copy."
        )
    wrong = [
        f"the field {name!r} is {'not known' if name in manifest else 'gone'}"
        for name in sorted(manifest.keys() ^ FIELDS.keys())
    ] or [
        f"{name!r} is {manifest[name]!r:.80}"
        for name, shape in FIELDS.items()
        if not has_shape(manifest[name], shape)
    ]
    if wrong:
        raise DataError(f"{path} does not describe a predictor: {wrong[0]}.")
    return dict(manifest)


def _number(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError("it holds a number that is not finite")
    return value


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("it holds a name twice")
    return record


def checksum(manifest: Mapping[str, Any]) -> str:
    """Hash of a manifest."""
    return hashlib.sha256(canonical(manifest).encode()).hexdigest()


def file_entry(content: bytes) -> dict[str, Any]:
    """Size and hash of a file."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def canonical(value: Any) -> str:
    """One text for equal plain data."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=plain)


def plain(value: Any) -> Any:
    """Data as strict JSON has it; a number that is not finite becomes null.

    Tuples become lists; `from_plain` restores them.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    raise InputError(
        f"{value!r} of type {type(value).__name__} cannot be written as JSON. Use text or numbers."
    )


def sign(manifest: bytes, key: Key) -> bytes:
    """The signature of a manifest, 128 hexadecimal digits."""
    return bytes(_read_key(key, "private").sign(_PURPOSE + manifest)).hex().encode()


def verify(manifest: bytes, signature: bytes | None, key: Key, folder: Path) -> None:
    """Refuse a manifest that the owner of the key did not sign."""
    public = _read_key(key, "public")
    if signature is None:
        raise DataError(f"{str(folder)!r} is not signed: it has no {SIGNATURE}. Sign it on saving.")
    try:
        public.verify(bytes.fromhex(signature.decode("ascii")), _PURPOSE + manifest)
    except (ValueError, import_module("cryptography.exceptions").InvalidSignature) as error:
        raise DataError(
            f"{str(folder)!r} was not signed by the owner of this key, or changed afterwards. It "
            "is not loaded."
        ) from error


def _read_key(key: Key, kind: str) -> Any:
    """A "private" or "public" key."""
    library = require("cryptography.hazmat.primitives", "sign", "A signature").__name__
    pem = import_module(f"{library}.serialization")
    wanted = getattr(import_module(f"{library}.asymmetric.ed25519"), f"Ed25519{kind.title()}Key")
    try:
        text = key if isinstance(key, bytes) else Path(key).read_bytes()
    except OSError as error:
        raise InputError(f"The key {str(key)!r} cannot be read: {error.strerror}.") from error
    found = None
    with suppress(ValueError, TypeError):  # no PEM, or one with a password
        private = kind == "private"
        found = pem.load_pem_private_key(text, None) if private else pem.load_pem_public_key(text)
    if not isinstance(found, wanted):
        purpose, command = _KEYS[kind]
        raise InputError(
            f"The {purpose} key must be an Ed25519 {kind} key in PEM, without a password: `openssl "
            f"{command}` makes one; got {'none' if found is None else type(found).__name__}."
        )
    return found
