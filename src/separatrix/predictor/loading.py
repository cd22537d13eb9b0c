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

from separatrix.columns.groups import Grouping, from_plain
from separatrix.datasets import Preprocessing
from separatrix.errors import DataError, MissingExtraError
from separatrix.io import OpenFolder, as_path, read_whole
from separatrix.nn.networks import Networks
from separatrix.optimum.rules import Score
from separatrix.predictor import card, saving
from separatrix.predictor.branch import RULES, Base, Branch
from separatrix.predictor.predictor import Predictor
from separatrix.predictor.saving import ARRAYS, MANIFEST, SIGNATURE, Content, Key
from separatrix.predictor.stored import checked_arrays, model_from_bytes

_LARGEST = 1 << 26  # bytes of a manifest
# what a base model is, by what it reads, and the method that it needs
_CLASSIFIER = "classifier", "predict_proba"
_KINDS = {"value": ("regressor", "predict"), "joint": ("classifier", "joint_proba")}


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
        told = str(error).rstrip(".") or type(error).__name__
        raise DataError(f"{place / MANIFEST} does not describe a predictor: {told}.") from error


def _read(folder: OpenFolder, verify_key: Key | None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The checked manifest, and the bytes of every file that it lists."""
    here = set(folder.names)
    if MANIFEST not in here:
        raise DataError(
            f"{str(folder.path)!r} is not a saved predictor: it has no {MANIFEST}. Pass a folder "
            "that `separatrix select` or `Predictor.save` wrote."
        )
    text = folder.read(MANIFEST, _LARGEST)
    if verify_key is not None:
        signature = folder.read(SIGNATURE, 1_000) if SIGNATURE in here else None
        saving.verify(text, signature, verify_key, folder.path)
    manifest = saving.parse(text, folder.path / MANIFEST)
    listed = manifest["files"]
    for name in sorted(here - set(listed) - {MANIFEST, SIGNATURE}):
        raise DataError(
            f"{str(folder.path)!r} holds {name!r}, which its manifest does not list. Remove it if "
            "you trust the rest."
        )
    needed = {ARRAYS, card.CARD, *(branch["base"] for branch in manifest["branches"])}
    for name in sorted(set(listed) ^ needed):
        told = "lists {}, which no predictor has" if name in listed else "does not list {}"
        raise DataError(
            f"The manifest of {str(folder.path)!r} {told.format(repr(name))}. It is not loaded."
        )
    files = {}
    for name, entry in listed.items():
        files[name] = folder.read(name, entry["bytes"])
        if saving.file_entry(files[name]) != entry:
            raise DataError(
                f"{folder.path / name} was cut or changed: its checksum does not match the "
                "manifest. Load another copy."
            )
    return manifest, files


def _predictor(
    place: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes], trusted: Sequence[str]
) -> Predictor:
    entries = manifest["branches"]
    models = {entry["base"]: files[entry["base"]] for entry in entries}
    core = {name: manifest[name] for name in saving.CORE}
    content = Content(core, _arrays(place / ARRAYS, files[ARRAYS]), models)
    hashed = content.hash
    if hashed != manifest["model"]:
        raise ValueError("its model hash is not that of its numbers")
    labels, groups = (tuple(map(from_plain, manifest[axis])) for axis in ("labels", "groups"))
    arrays: list[dict[str, NDArray[Any]]] = [{} for _ in entries]
    for name, array in content.arrays.items():
        branch, _, own = name.partition(".")
        if branch not in (f"branch{i}" for i in range(len(entries))):
            raise ValueError(f"the array {name!r} belongs to no branch")
        arrays[int(branch.removeprefix("branch"))][own] = array
    branches = []
    for i, entry in enumerate(entries):
        name = entry["base"]
        if not name.startswith(f"base{i}."):
            raise ValueError(f"the model of branch {i} is in {name!r}")
        model = model_from_bytes(models[name], trusted, str(place / name))
        _check_model(model, entry, len(labels))
        about = {own: entry[own] for own in saving.BASE}
        base = Base(model, **about | {"left_out": tuple(entry["left_out"])})
        rule = RULES[entry["rule"]].from_arrays(groups, checked_arrays(arrays[i]))
        rule.check()
        branches.append(Branch(base, rule))
    prepared, grouping = manifest["preprocessing"], manifest["grouping"]
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


def _arrays(path: Path, content: bytes) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(content))
    except (SafetensorError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not a whole safetensors file ({error}).") from error


def _check_model(model: Any, entry: Mapping[str, Any], labels: int) -> None:
    """A fitted classifier of the labels, or of labels and groups; a regressor; a trained method."""
    trained = "trained method", "posteriors"
    kind, method = trained if entry["method"] else _KINDS.get(entry["reads"], _CLASSIFIER)
    own = callable(getattr(model, method, None))
    if not own or (kind == "regressor" and hasattr(model, "predict_proba")):
        raise ValueError(f"{entry['base']} is not a {kind}")
    if method == "predict_proba":
        classes = np.asarray(getattr(model, "classes_", ()))
        codes = classes.dtype.kind in "iub" and 0 < len(classes) < labels  # some may be unseen
        if len(classes) != labels and not (codes and 0 <= classes.min() <= classes.max() < labels):
            raise ValueError(f"{entry['base']} was not fitted to the {labels} labels")


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
        values = law.shape[-1] if isinstance(branch.rule, Score) else labels
        if law.shape != (len(z), values):
            raise ValueError(f"its law has the shape {law.shape} for {labels} labels")
        if not np.isfinite(law).all() or (law < 0).any() or abs(law.sum(1) - 1.0).max() > 1e-4:
            raise ValueError("its posteriors are no probabilities")
