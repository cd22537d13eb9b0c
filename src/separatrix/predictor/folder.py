"""A predictor on disk: a folder of plain numbers and plain text. Nothing in it is ever executed.

- `manifest.json`: format, checksums, labels, groups, columns, branches, budgets, audit, versions
- `manifest.sig`: the signature of the manifest, where a key was given
- `arrays.safetensors`: the numbers of the rules
- `base0.safetensors`, `base0.skops`, …: the model of each branch, see `models`
- `MODEL_CARD.md`: for people

`Content` is what decides; it leaves out the card, the budgets and the versions. So its hash, and
with it every person's coins, stays the same when only these change.

Every file is read once, from one folder even if a writer exchanges it meanwhile; those bytes are
hashed, and those bytes are parsed. A manifest is good if saving the predictor that it describes
would write that very manifest: `manifest_of` is its only definition.

The checksums find a file that was cut or changed. They do not find a forgery, since anybody can
compute them. A signature does: Ed25519 over the manifest, which holds the hash of every file. The
private key signs (`openssl genpkey -algorithm ed25519 -out private.pem`), the public key verifies
(`openssl pkey -in private.pem -pubout -out public.pem`).
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.groups import from_plain, to_plain
from separatrix.columns.values import Levels
from separatrix.errors import DataError, InputError, require
from separatrix.io import OpenFolder, whole_folder
from separatrix.predictor import card
from separatrix.predictor.models import file_ending, model_bytes, model_digest

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

FORMAT = 3
CORE = ("labels", "groups", "features", "preprocessing", "grouping", "branches")
BASE = ("reads", "left_out", "method", "trade_off", "lane")  # what a manifest says of a `Base`
MANIFEST, SIGNATURE, ARRAYS = "manifest.json", "manifest.sig", "arrays.safetensors"
Key = str | Path | bytes  # a file, or what it holds
_LARGEST = 1 << 26  # bytes of a manifest
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
        models = {}
        for i, branch in enumerate(predictor.branches):
            content = model_bytes(branch.base.model, branch.base.method)
            models[f"base{i}.{file_ending(content)}"] = content
        return cls(_core(predictor, list(models)), rule_arrays(predictor), models)

    @classmethod
    def from_files(cls, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Content:
        """What was saved."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays = load(files[ARRAYS])
        except (SafetensorError, KeyError, ValueError) as error:
            raise DataError(f"{ARRAYS} is not a whole safetensors file ({error}).") from error
        models = {entry["base"]: files[entry["base"]] for entry in manifest["branches"]}
        return cls({name: manifest[name] for name in CORE}, arrays, models)

    @property
    def hash(self) -> str:
        """SHA-256 of the plain data, of the models' digests, and of each array with its name, type
        and shape.
        """
        digests = {name: model_digest(content) for name, content in self.models.items()}
        whole = hashlib.sha256(_canonical([self.core, digests]).encode())
        for name in sorted(self.arrays):
            array = self.arrays[name]
            whole.update(_canonical([name, array.dtype.str, list(array.shape)]).encode())
            whole.update(hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest())
        return whole.hexdigest()


def rule_arrays(predictor: Predictor) -> dict[str, NDArray[Any]]:
    """The numbers of the rules, by their names in the folder."""
    return {
        f"branch{i}.{name}": np.asarray(array, order="C")
        for i, branch in enumerate(predictor.branches)
        for name, array in branch.rule.arrays().items()
    }


def _core(predictor: Predictor, models: Sequence[str]) -> dict[str, Any]:
    prepared, grouping = predictor.preprocessing, predictor.grouping
    branches = [
        {"base": file, "rule": branch.rule.kind, "weight": float(weight)}
        | {name: getattr(branch.base, name) for name in BASE}
        for file, branch, weight in zip(models, predictor.branches, predictor.weights, strict=True)
    ]
    return {
        "labels": _levels(predictor.labels),
        "groups": _levels(predictor.groups),
        "features": list(predictor.features),
        "preprocessing": None if prepared is None else prepared.to_dict(),
        "grouping": None if grouping is None else grouping.to_dict(),
        "branches": branches,
    }


def _levels(levels: Levels) -> list[Any]:
    """Levels as JSON has them; what would come back as something else is refused."""
    back = tuple(map(from_plain, to_plain(levels)))
    parts = (name for level in back for name in (level if isinstance(level, tuple) else (level,)))
    known = all(isinstance(name, str | int | float) for name in parts)
    if not known or back != tuple(levels) or len({*back}) < len(back):
        raise InputError(f"A saved predictor has text or numbers as labels and groups, none twice, got {levels}.")
    return list(to_plain(levels))


def manifest_of(predictor: Predictor, content: Content, files: Mapping[str, bytes], packages: Any) -> dict[str, Any]:
    """What the manifest of a predictor says, but for its checksum."""
    return {
        "format": FORMAT,
        **_core(predictor, list(content.models)),
        "model": content.hash,
        "key_id": predictor.key_id,
        "about": to_plain(predictor.about),
        "packages": packages,
        "files": {name: _file_entry(files[name]) for name in sorted([ARRAYS, card.CARD, *content.models])},
    }


def check_manifest(manifest: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse, with a `ValueError`, a manifest that no predictor has."""
    for name in sorted(manifest.keys() | expected.keys()):
        if name not in manifest or name not in expected:
            raise ValueError(f"the field {name!r} is {'gone' if name in expected else 'not known'}")
        if _canonical(manifest[name]) != _canonical(expected[name]):
            raise ValueError(f"{name!r} is {manifest[name]!r:.80}")


def save(predictor: Predictor, folder: Path, sign_key: Key | None = None) -> Path:
    """Write to a temporary folder beside the target, then exchange the two in one step."""
    from safetensors.numpy import save as safetensors

    target = folder.absolute()
    if target.exists() and not (target / MANIFEST).is_file():
        raise InputError(f"{str(folder)!r} exists and is not a saved predictor. Pass another, or remove it first.")
    if any(branch.base.model is None for branch in predictor.branches):
        raise InputError("This predictor reads bare scores and has no model to save.")
    with whole_folder(folder) as temporary:
        content = Content.from_predictor(predictor)
        files = {ARRAYS: safetensors(dict(content.arrays)), **content.models}
        files[card.CARD] = card.text(predictor).encode("utf-8", "backslashreplace")
        text = manifest_text(manifest_of(predictor, content, files, _packages()))
        files[MANIFEST] = text
        if sign_key is not None:
            key = _read_key(sign_key, "private")
            files[SIGNATURE] = bytes(key.sign(_PURPOSE + text)).hex().encode()
        for name, written in files.items():
            (temporary / name).write_bytes(written)
    return folder


def _packages() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):  # an extra that is not installed
            versions[name] = version(name)
    return versions


def manifest_text(manifest: Mapping[str, Any]) -> bytes:
    """The file of a manifest, with its checksum."""
    try:
        return _text({**manifest, "checksum": _checksum(manifest)})
    except ValueError as error:
        raise InputError(f"This predictor cannot be written as strict JSON: {error}.") from error


def read(folder: OpenFolder, verify_key: Key | None = None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest, without its checksum, and the bytes of every file that it lists."""
    place, present = folder.path, {*folder.names}
    if MANIFEST not in present:
        advice = "Pass a folder that `separatrix select` or `Predictor.save` wrote."
        raise DataError(f"{str(place)!r} is not a saved predictor: it has no {MANIFEST}. {advice}")
    text = folder.read(MANIFEST, _LARGEST)
    if verify_key is not None:
        signature = folder.read(SIGNATURE, 1_000) if SIGNATURE in present else None
        _verify(text, signature, verify_key, place)
    manifest = _parsed(text, place / MANIFEST)
    listed = manifest["files"]
    for name in sorted(present - {*listed, MANIFEST, SIGNATURE}):
        raise DataError(f"{str(place)!r} holds {name!r}, which its manifest does not list. Remove it.")
    for name in sorted(listed.keys() - present):
        raise DataError(f"{place / name} is missing. Load another copy of the model.")
    files = {name: folder.read(name, entry["bytes"]) for name, entry in listed.items()}
    for name, content in files.items():
        if listed[name] != _file_entry(content):
            raise DataError(f"{place / name} was cut or changed: its checksum does not match. Load another copy.")
    return manifest, files


def _parsed(text: bytes, path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(text)
        if type(manifest["format"]) is not int:
            raise TypeError("its format is no number")
        strict = manifest["format"] != FORMAT or _text(manifest) == text
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        why = type(error).__name__
        raise DataError(f"{path} cannot be read as the manifest of a predictor ({why}).") from error
    if manifest["format"] != FORMAT:
        newer = manifest["format"] > FORMAT
        which, advice = ("a newer", "Upgrade") if newer else ("an older", "Select")
        saved = f"{str(path.parent)!r} was saved in format {manifest['format']} by {which} separatrix"
        raise DataError(f"{saved}; this one reads {FORMAT}. {advice} and save it again.")
    if not strict or manifest.pop("checksum", None) != _checksum(manifest):
        raise DataError(f"{path} was changed after it was written: its checksum does not match. Load another copy.")
    listed = manifest.get("files")
    entries = listed.values() if isinstance(listed, dict) else [None]
    if not all(isinstance(entry, dict) and type(entry.get("bytes")) is int for entry in entries):
        raise DataError(f"{path} does not list the files of a predictor.")
    return dict(manifest)


def _text(manifest: Mapping[str, Any]) -> bytes:
    """Strict JSON: a number that is not finite is a `ValueError`."""
    return json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False, default=to_plain).encode()


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(manifest).encode()).hexdigest()


def _file_entry(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _canonical(value: Any) -> str:
    """One text for equal plain data."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=to_plain)


def _verify(text: bytes, signature: bytes | None, key: Key, folder: Path) -> None:
    """Refuse a manifest that the owner of the key did not sign."""
    public = _read_key(key, "public")
    if signature is None:
        raise DataError(f"{str(folder)!r} is not signed: it has no {SIGNATURE}. Sign it on saving.")
    try:
        public.verify(bytes.fromhex(signature.decode("ascii")), _PURPOSE + text)
    except (ValueError, import_module("cryptography.exceptions").InvalidSignature) as error:
        signed = "was not signed by the owner of this key, or changed afterwards"
        raise DataError(f"{str(folder)!r} {signed}. It is not loaded.") from error


def _read_key(key: Key, kind: str) -> Any:
    """A "private" or "public" key."""
    library = require("cryptography.hazmat.primitives", "sign", "A signature").__name__
    pem = import_module(f"{library}.serialization")
    wanted = getattr(import_module(f"{library}.asymmetric.ed25519"), f"Ed25519{kind.title()}Key")
    try:
        text = key if isinstance(key, bytes) else Path(key).read_bytes()
    except OSError as error:
        raise InputError(f"The key {str(key)!r} cannot be read: {error.strerror}.") from error
    options = {"password": None} if kind == "private" else {}
    loaded = None
    with suppress(ValueError, TypeError):  # no PEM, or one with a password
        loaded = getattr(pem, f"load_pem_{kind}_key")(text, **options)
    if not isinstance(loaded, wanted):
        (purpose, command), got = _KEYS[kind], "none" if loaded is None else type(loaded).__name__
        wanted = f"an Ed25519 {kind} key in PEM, without a password"
        raise InputError(f"The {purpose} key must be {wanted}: `openssl {command}` makes one; got {got}.")
    return loaded
