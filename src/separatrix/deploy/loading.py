"""A predictor from disk: what `saving` wrote and nothing else. Nothing in it is ever executed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from separatrix.columns.groups import from_plain
from separatrix.datasets import Grouping, Preprocessing
from separatrix.deploy.predictor import Component, Predictor
from separatrix.deploy.saving import (
    ARRAYS,
    BASE,
    FILES,
    FORMAT,
    MANIFEST,
    checksum,
    file_entry,
)
from separatrix.deploy.wrapped import Wrapped, WrappedScore
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.estimators.stored import model_from_bytes
from separatrix.methods import get
from separatrix.nn.networks import Networks

__all__ = ["load"]

_KINDS: dict[str, Any] = {kind.kind: kind for kind in (Networks, Wrapped, WrappedScore)}


def load(folder: str | Path, *, trusted: Sequence[str] = ()) -> Predictor:
    """A predictor that `Predictor.save` wrote; anything else is refused, nothing is executed.

    Args:
        folder: the folder.
        trusted: full names of further types, which you have checked, in a scikit-learn base.
    """
    place = Path(folder)
    manifest = _manifest(place)
    _check_files(place, manifest["files"])
    arrays = _arrays(place)
    try:
        prepared, grouping = manifest["preprocessing"], manifest["grouping"]
        entries = manifest["components"]
        return Predictor(
            labels=tuple(map(from_plain, manifest["labels"])),
            groups=tuple(map(from_plain, manifest["groups"])),
            components=tuple(_component(i, entry, arrays) for i, entry in enumerate(entries)),
            weights=tuple(float(entry["weight"]) for entry in entries),
            preprocessing=None if prepared is None else Preprocessing.from_dict(prepared),
            features=tuple(manifest["features"]),
            grouping=None if grouping is None else Grouping.from_dict(grouping),
            bases=_bases(place / BASE, trusted) if BASE in manifest["files"] else (),
            reads=manifest["reads"],
            about=manifest["about"],
            key_id=manifest["key_id"],
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        if isinstance(error, InputError | MissingExtraError):
            raise
        raise DataError(
            f"{place / MANIFEST} does not describe a predictor ({type(error).__name__}: {error})."
        ) from error


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(
            f"{str(folder)!r} is not a saved predictor: it has no {MANIFEST}."
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read; the file was cut or changed ({error}).") from error
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(found, int):
        raise DataError(f"{path} is not the manifest of a predictor.")
    if found > FORMAT:
        raise DataError(
            f"{str(folder)!r} was saved in format {found} by a newer separatrix; this one reads up "
            f"to {FORMAT}. Upgrade."
        )
    claimed = manifest.pop("checksum", None)
    if claimed != checksum(manifest):
        raise DataError(
            f"{path} was changed after it was written: its checksum does not match. Load another "
            "copy."
        )
    return manifest


def _check_files(folder: Path, files: Mapping[str, Any]) -> None:
    here = {path.name for path in folder.iterdir() if not path.name.startswith(".")} - {MANIFEST}
    for name in sorted(here - set(files)):
        raise DataError(
            f"{str(folder)!r} holds {name!r}, which its manifest does not list. Remove it if you "
            "trust the rest."
        )
    for name in sorted(set(files) - FILES):
        raise DataError(
            f"The manifest of {str(folder)!r} lists {name!r}, which no predictor has. It is not "
            "loaded."
        )
    for name, entry in files.items():
        path = folder / name
        if not path.is_file() or path.is_symlink():
            raise DataError(f"{path} is missing. Load another copy of the model.")
        if file_entry(path) != entry:
            raise DataError(
                f"{path} was cut or changed: its checksum does not match the manifest. Load "
                "another copy."
            )


def _arrays(folder: Path) -> dict[str, NDArray[Any]]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError as error:
        raise MissingExtraError(
            "Loading a predictor needs safetensors: pip install 'separatrix[deploy]'."
        ) from error
    try:
        return dict(load_file(folder / ARRAYS))
    except (SafetensorError, OSError, KeyError) as error:
        raise DataError(f"{folder / ARRAYS} is not a whole safetensors file ({error}).") from error


def _component(
    index: int, entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Component:
    own = f"component{index}."
    mine = {name[len(own) :]: array for name, array in arrays.items() if name.startswith(own)}
    # networks need numpy only, where importing their method would need torch
    kind = _KINDS.get(entry["kind"])
    restore = get(entry["method"]).restore if kind is None else kind.restore
    return Component(
        method=entry["method"],
        trade_off=float(entry["trade_off"]),
        policy=entry["policy"],
        fitted=restore(mine),
        lane=int(entry["lane"]),
        threshold=float(entry["threshold"]),
        uses_groups=bool(entry["uses_groups"]),
    )


def _bases(path: Path, trusted: Sequence[str]) -> tuple[Any, ...]:
    return tuple(model_from_bytes(path.read_bytes(), trusted, path))
