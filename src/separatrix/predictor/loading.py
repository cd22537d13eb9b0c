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
from separatrix.nn.networks import Networks
from separatrix.optimum.rules import Score
from separatrix.predictor import card, schema
from separatrix.predictor.branch import RULES, Base, Branch
from separatrix.predictor.predictor import Predictor
from separatrix.predictor.saving import (
    ARRAYS,
    CORE,
    FORMAT,
    MANIFEST,
    Content,
    checksum,
    file_entry,
)
from separatrix.predictor.signing import SIGNATURE, Key, verify
from separatrix.predictor.stored import checked_arrays, model_from_bytes

__all__ = ["load"]

_LARGEST = 1 << 26  # bytes of a manifest


def load(
    folder: str | Path, *, trusted: Sequence[str] = (), verify_key: Key | None = None
) -> Predictor:
    """Load a predictor that `Predictor.save` wrote. Nothing in the folder is executed.

    Args:
        folder: the folder.
        trusted: full names of further types in a scikit-learn model that you have checked.
        verify_key: Ed25519 public key in PEM (file or bytes): refuse what its owner did not sign.
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
    needed = {ARRAYS, card.CARD, *(branch["base"] for branch in manifest["branches"])}
    for name in sorted(here - set(listed) - {MANIFEST, SIGNATURE}):
        raise DataError(
            f"{str(folder.path)!r} holds {name!r}, which its manifest does not list. Remove it if "
            "you trust the rest."
        )
    for name in sorted(set(listed) - needed):
        raise DataError(
            f"The manifest of {str(folder.path)!r} lists {name!r}, which no predictor has. It is "
            "not loaded."
        )
    for name in sorted(needed - set(listed)):
        raise DataError(f"The manifest of {str(folder.path)!r} does not list {name!r}.")
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
    entries = manifest["branches"]
    models = {entry["base"]: files[entry["base"]] for entry in entries}
    content = Content({name: manifest[name] for name in CORE}, _arrays(place, files), models)
    hashed = content.hash
    if hashed != manifest["model"]:
        raise ValueError("its model hash is not that of its numbers")
    labels, groups = (tuple(map(from_plain, manifest[axis])) for axis in ("labels", "groups"))
    prepared, grouping = manifest["preprocessing"], manifest["grouping"]
    branches = []
    for i, entry in enumerate(entries):
        name = entry["base"]
        if name.partition(".")[0] != f"base{i}":
            raise ValueError(f"the model of branch {i} is in {name!r}")
        model = model_from_bytes(models[name], trusted, str(place / name))
        _check_model(model, entry, len(labels))
        base = Base(
            model,
            entry["reads"],
            tuple(entry["left_out"]),
            entry["method"],
            float(entry["trade_off"]),
            entry["lane"],
        )
        prefix = f"branch{i}."
        own = {n.removeprefix(prefix): x for n, x in content.arrays.items() if n.startswith(prefix)}
        rule = RULES[entry["rule"]].from_arrays(groups, checked_arrays(own))
        rule.check()
        branches.append(Branch(base, rule))
    for name in content.arrays:
        if name.partition(".")[0] not in {f"branch{i}" for i in range(len(branches))}:
            raise ValueError(f"the array {name!r} belongs to no branch")
    predictor = Predictor(
        labels=labels,
        groups=groups,
        branches=tuple(branches),
        weights=tuple(float(entry["weight"]) for entry in entries),
        preprocessing=None if prepared is None else Preprocessing.from_dict(prepared),
        features=tuple(manifest["features"]),
        grouping=None if grouping is None else Grouping.from_dict(grouping),
        about=manifest["about"],
        key_id=manifest["key_id"],
    )
    _check_laws(predictor)
    predictor.__dict__["model_hash"] = hashed  # of these bytes, whatever a later skops would write
    return predictor


def _arrays(place: Path, files: Mapping[str, bytes]) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(files[ARRAYS]))
    except (SafetensorError, KeyError, ValueError) as error:
        path = place / ARRAYS
        raise DataError(f"{path} is not a whole safetensors file ({error}).") from error


def _check_model(model: Any, entry: Mapping[str, Any], labels: int) -> None:
    """A fitted classifier of the labels, or of labels and groups; a regressor; a trained method."""
    name, reads = entry["base"], entry["reads"]
    if entry["method"]:
        if not hasattr(model, "posteriors"):
            raise ValueError(f"{name} is not a trained method")
        return
    if reads == "value":
        if not callable(getattr(model, "predict", None)) or hasattr(model, "predict_proba"):
            raise ValueError(f"{name} is not a regressor")
        return
    if not callable(getattr(model, "joint_proba" if reads == "joint" else "predict_proba", None)):
        raise ValueError(f"{name} is not a classifier")
    if reads != "joint":
        classes = np.asarray(getattr(model, "classes_", ()))
        codes = classes.dtype.kind in "iub" and 0 < len(classes) < labels  # some may be unseen
        if len(classes) != labels and not (codes and 0 <= classes.min() <= classes.max() < labels):
            raise ValueError(f"{name} was not fitted to the {labels} labels")


def _check_laws(predictor: Predictor) -> None:
    """Every branch must answer one made-up row of each group with a law."""
    labels, groups = len(predictor.labels), len(predictor.groups)
    z = np.arange(max(groups, 1))  # a blind rule may not know any group
    prepared = predictor.preprocessing
    columns: int | None = len(predictor.features) or None
    if prepared is not None:
        empty = {column: np.array([None], dtype=object) for column in prepared.columns}
        columns = len(prepared.names)
        if prepared.transform(empty).shape != (1, columns):
            raise ValueError("its preprocessing makes no matrix")
    for branch in predictor.branches:
        base, known = branch.base, z if branch.uses_groups else None
        shape: tuple[int, ...] = {"value": (), "joint": (labels, groups)}.get(base.reads, (labels,))
        scores = np.full((len(z), *shape), 1.0 / np.prod(shape))
        if base.method:
            width = base.model.width if isinstance(base.model, Networks) else columns
            if columns is not None and width != columns:
                raise ValueError(f"`X` must have the {width} columns of training, got {columns}")
            if width is None:
                continue  # only the rows themselves say how many columns they have
            with np.errstate(all="ignore"):
                scores = base.scores(np.zeros((len(z), width)), known, (labels, groups))
        law = branch.law(scores, known)
        if law.shape[0] != len(z) or law.ndim != 2:
            raise ValueError(f"its law has the shape {law.shape}")
        if not isinstance(branch.rule, Score) and law.shape[1] != labels:
            raise ValueError(f"its law is of {law.shape[1]} values for {labels} labels")
        if not np.isfinite(law).all() or (law < 0).any() or abs(law.sum(1) - 1.0).max() > 1e-4:
            raise ValueError("its posteriors are no probabilities")
