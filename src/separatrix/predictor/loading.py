"""A predictor from disk: what `saving` wrote and nothing else. Nothing in it is ever executed.

Every file is read once, from one folder even if a writer exchanges it meanwhile; those bytes are
hashed, and those bytes are parsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.groups import from_plain
from separatrix.datasets import Grouping, Preprocessing
from separatrix.errors import DataError, MissingExtraError
from separatrix.io import OpenFolder, as_path, read_whole
from separatrix.predictor import card, schema
from separatrix.predictor.base_files import BASES, kind_of
from separatrix.predictor.component import Component
from separatrix.predictor.content import CORE, FORMAT, model_hash
from separatrix.predictor.kinds import check_law, restored
from separatrix.predictor.predictor import Predictor
from separatrix.predictor.saving import ARRAYS, MANIFEST, checksum, file_entry
from separatrix.predictor.signing import SIGNATURE, Key, verify

__all__ = ["load"]

_LARGEST = 1 << 26  # bytes of a manifest


def load(
    folder: str | Path, *, trusted: Sequence[str] = (), verify_key: Key | None = None
) -> Predictor:
    """A predictor that `Predictor.save` wrote; anything else is refused, nothing is executed.

    Args:
        folder: the folder.
        trusted: full names of further types, which you have checked, in a scikit-learn base.
        verify_key: Ed25519 public key in PEM, a file or its bytes: only what its owner signed.
    """
    place = as_path(folder, "folder")
    manifest, files = read_whole(place, lambda opened: _read(opened, verify_key))
    try:
        return _predictor(place, manifest, files, trusted)
    except (DataError, MissingExtraError):
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        told = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DataError(f"{place / MANIFEST} does not describe a predictor: {told}.") from error


def _read(folder: OpenFolder, verify_key: Key | None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The checked manifest, and the bytes of every file that it lists."""
    here = set(folder.names())
    if MANIFEST not in here:
        raise DataError(f"{str(folder.path)!r} is not a saved predictor: it has no {MANIFEST}.")
    text = folder.read(MANIFEST, _LARGEST)
    if verify_key is not None:
        signature = folder.read(SIGNATURE, 1_000) if SIGNATURE in here else None
        verify(text, signature, verify_key, folder.path)
    manifest = _manifest(folder.path, text)
    listed = manifest["files"]
    allowed = {ARRAYS, card.CARD, card.PLOT, *(base["file"] for base in manifest["bases"])}
    for name in sorted(here - set(listed) - {MANIFEST, SIGNATURE}):
        raise DataError(
            f"{str(folder.path)!r} holds {name!r}, which its manifest does not list. Remove it if "
            "you trust the rest."
        )
    for name in sorted(set(listed) - allowed):
        raise DataError(
            f"The manifest of {str(folder.path)!r} lists {name!r}, which no predictor has. It is "
            "not loaded."
        )
    files = {}
    for name, entry in listed.items():
        files[name] = folder.read(name, entry["bytes"])
        if file_entry(files[name]) != entry:
            raise DataError(
                f"{folder.path / name} was cut or changed: its checksum does not match the "
                "manifest. Load another copy."
            )
    return manifest, files


def _manifest(folder: Path, text: bytes) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = schema.parse(text)
    except ValueError as error:
        raise DataError(f"{path} cannot be read; the file was cut or changed ({error}).") from error
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        raise DataError(f"{path} is not the manifest of a predictor.")
    if found != FORMAT:
        which, advice = ("a newer", "Upgrade") if found > FORMAT else ("an older", "Select")
        raise DataError(
            f"{str(folder)!r} was saved in format {found} by {which} separatrix; this one reads "
            f"{FORMAT}. {advice} and save it again."
        )
    claimed = manifest.pop("checksum", None)
    if claimed != checksum(manifest):
        raise DataError(
            f"{path} was changed after it was written: its checksum does not match. Load another "
            "copy."
        )
    try:
        schema.check(manifest)
    except ValueError as error:
        raise DataError(f"{path} does not describe a predictor: {error}.") from error
    return dict(manifest)


def _predictor(
    place: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes], trusted: Sequence[str]
) -> Predictor:
    arrays = _arrays(place, files)
    prepared, grouping = manifest["preprocessing"], manifest["grouping"]
    labels, groups = (tuple(map(from_plain, manifest[axis])) for axis in ("labels", "groups"))
    known = {kind.name: kind for kind in BASES}
    bases, digests = [], []
    for i, entry in enumerate(manifest["bases"]):
        kind, name = known[entry["kind"]], f"base{i}.{entry['kind']}"
        if entry["file"] != name or name not in files:
            raise ValueError(f"the base {entry['file']!r} is not among its files")
        bases.append(kind.load(files[name], trusted, str(place / name)))
        if kind_of(bases[-1]) is not kind:
            raise ValueError(f"{name} holds a model of another kind")
        digests.append([kind.name, kind.digest(files[name])])
        _check_base(bases[-1], name, manifest["reads"], len(labels))
    core = {name: manifest[name] for name in CORE}
    hashed = model_hash(core, arrays, digests)
    if hashed != manifest["model"]:
        raise ValueError("its model hash is not that of its numbers")
    predictor = Predictor(
        labels=labels,
        groups=groups,
        components=tuple(
            _component(i, entry, arrays) for i, entry in enumerate(manifest["components"])
        ),
        weights=tuple(float(entry["weight"]) for entry in manifest["components"]),
        preprocessing=None if prepared is None else Preprocessing.from_dict(prepared),
        features=tuple(manifest["features"]),
        grouping=None if grouping is None else Grouping.from_dict(grouping),
        bases=tuple(bases),
        reads=manifest["reads"],
        about=manifest["about"],
        key_id=manifest["key_id"],
    )
    used = {f"component{i}." for i in range(len(predictor.components))}
    for name in arrays:
        if name.partition(".")[0] + "." not in used:
            raise ValueError(f"the array {name!r} belongs to no component")
    _check_laws(predictor, manifest)
    predictor.__dict__["model_hash"] = hashed  # of these bytes, whatever a later skops would write
    return predictor


def _check_base(base: Any, name: str, reads: str, labels: int) -> None:
    """A base must be a fitted classifier of the labels, or of labels and groups; or a regressor."""
    if reads == "value":
        if not callable(getattr(base, "predict", None)) or hasattr(base, "predict_proba"):
            raise ValueError(f"{name} is not a regressor")
        return
    if not callable(getattr(base, "joint_proba" if reads == "joint" else "predict_proba", None)):
        raise ValueError(f"{name} is not a classifier")
    if reads != "joint":
        classes = np.asarray(getattr(base, "classes_", ()))
        codes = classes.dtype.kind in "iub" and 0 < len(classes) < labels  # some may be unseen
        if len(classes) != labels and not (codes and 0 <= classes.min() <= classes.max() < labels):
            raise ValueError(f"{name} was not fitted to the {labels} labels")


def _check_laws(predictor: Predictor, manifest: Mapping[str, Any]) -> None:
    """Every component must answer one made-up row of each group with a law over the labels."""
    shape = len(predictor.labels), len(predictor.groups)
    prepared, columns, value = predictor.preprocessing, None, 0.0
    if predictor.bases:
        each = shape[0] * (shape[1] if predictor.reads == "joint" else 1)
        each = 1 if predictor.is_value else each
        columns, value = len(predictor.bases) * each, 1.0 / each
    elif prepared is not None:
        rows = {column: np.array([None], dtype=object) for column in prepared.columns}
        columns = len(prepared.names)
        if prepared.transform(rows).shape != (1, columns):
            raise ValueError("its preprocessing makes no matrix")
    elif predictor.features:
        columns = len(predictor.features)
    for component, entry in zip(predictor.components, manifest["components"], strict=True):
        check_law(entry["kind"], component.fitted, component.lane, shape, columns, value)


def _arrays(place: Path, files: Mapping[str, bytes]) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(files[ARRAYS]))
    except (SafetensorError, KeyError, ValueError) as error:
        path = place / ARRAYS
        raise DataError(f"{path} is not a whole safetensors file ({error}).") from error


def _component(
    index: int, entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Component:
    own = f"component{index}."
    mine = {name[len(own) :]: array for name, array in arrays.items() if name.startswith(own)}
    return Component(
        method=entry["method"],
        trade_off=float(entry["trade_off"]),
        policy=entry["policy"],
        fitted=restored(entry["kind"], entry["method"], mine),
        lane=entry["lane"],
        threshold=float(entry["threshold"]),
        uses_groups=entry["uses_groups"],
    )
