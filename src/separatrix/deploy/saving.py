"""A predictor on disk: a folder of plain numbers and plain text. Nothing in it is ever executed.

    manifest.json        format, checksums, labels, groups, columns, models, budgets, audit, package
    versions arrays.safetensors   the numbers of all models
    base.skops           the scikit-learn classifiers behind a channel, if there are any, in skops'
    audited format MODEL_CARD.md        for people, with frontier.svg

The checksums find files that were cut or changed, not a forger, who could compute them anew: sign
the folder for that.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.datasets import Grouping, Preprocessing
from separatrix.deploy import card
from separatrix.deploy.predictor import Component, Predictor
from separatrix.deploy.wrapping import Wrapped
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.methods import get
from separatrix.nn.networks import Networks

__all__ = ["FORMAT", "load", "save"]

FORMAT = 1
MANIFEST, ARRAYS, BASE = "manifest.json", "arrays.safetensors", "base.skops"
_FILES = {ARRAYS, BASE, card.CARD, card.PLOT}
_PACKAGES = ("separatrix", "numpy", "scikit-learn", "torch", "safetensors", "skops")
_KINDS: dict[str, Any] = {"networks": Networks, "wrapped": Wrapped}
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux


def save(predictor: Predictor, folder: Path) -> Path:
    """Write to a temporary folder beside the target, then put it in the target's place in one
    step.
    """
    target = folder.absolute()
    if target.exists() and not (target / MANIFEST).is_file():
        raise InputError(
            f"{str(folder)!r} exists and is not a saved predictor. Pass another folder, or remove "
            f"it first."
        )
    if not target.parent.is_dir():
        raise InputError(
            f"There is no folder {str(target.parent)!r} to write {target.name!r} into. Create it "
            f"first."
        )
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        _write(predictor, temporary)
        temporary.chmod(0o755)
        _replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # after an exchange this is the old model
    return folder


def load(folder: str | Path, *, trusted: Sequence[str] = ()) -> Predictor:
    """A predictor that `Predictor.save` wrote; anything else is refused, and nothing in it is
    executed.

    Args:
        folder: the folder.
        trusted: further types that a scikit-learn base may hold, by full name, after you have
            looked at them.
    """
    place = Path(folder)
    manifest = _manifest(place)
    _check_files(place, manifest["files"])
    arrays = _arrays(place)
    try:
        prepared, grouping = manifest["preprocessing"], manifest["grouping"]
        return Predictor(
            labels=tuple(map(_level, manifest["labels"])),
            groups=tuple(map(_level, manifest["groups"])),
            components=tuple(
                _component(i, entry, arrays) for i, entry in enumerate(manifest["components"])
            ),
            weights=tuple(float(entry["weight"]) for entry in manifest["components"]),
            preprocessing=None if prepared is None else Preprocessing.from_dict(prepared),
            features=tuple(manifest["features"]),
            grouping=None if grouping is None else Grouping.from_dict(grouping),
            bases=_bases(place / BASE, trusted) if BASE in manifest["files"] else (),
            about=manifest["about"],
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        if isinstance(error, InputError | MissingExtraError):
            raise
        raise DataError(
            f"{place / MANIFEST} does not describe a predictor ({type(error).__name__}: {error})."
        ) from error


def _write(predictor: Predictor, folder: Path) -> None:
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise MissingExtraError(
            "Saving a predictor needs safetensors: pip install 'separatrix[deploy]'."
        ) from error
    arrays: dict[str, NDArray[Any]] = {}
    components = []
    for i, (component, weight) in enumerate(
        zip(predictor.components, predictor.weights, strict=True)
    ):
        for name, array in component.fitted.arrays().items():
            value = np.asarray(array)
            if value.dtype.kind not in "fiub":
                raise InputError(
                    f"The method {component.method!r} keeps {name!r} as {value.dtype}: only "
                    f"numbers are saved."
                )
            arrays[f"component{i}.{name}"] = np.ascontiguousarray(value).reshape(
                value.shape
            )  # keep 0-d as it is
        components.append(
            {
                "method": component.method,
                "kind": next(
                    (name for name, kind in _KINDS.items() if isinstance(component.fitted, kind)),
                    "method",
                ),
                "trade_off": component.trade_off,
                "policy": component.policy,
                "lane": component.lane,
                "threshold": component.threshold,
                "uses_groups": component.uses_groups,
                "weight": float(weight),
            }
        )
    save_file(arrays, folder / ARRAYS)
    if predictor.bases:
        _skops().dump(list(predictor.bases), folder / BASE)
    card.write(predictor, folder)
    manifest = {
        "format": FORMAT,
        "labels": [_plain(label) for label in predictor.labels],
        "groups": [_plain(group) for group in predictor.groups],
        "features": list(predictor.features),
        "preprocessing": None
        if predictor.preprocessing is None
        else predictor.preprocessing.to_dict(),
        "grouping": None if predictor.grouping is None else predictor.grouping.to_dict(),
        "components": components,
        "about": dict(predictor.about),
        "packages": _packages(),
        "files": {path.name: _entry(path) for path in sorted(folder.iterdir())},
    }
    text = json.dumps(
        manifest | {"checksum": _checksum(manifest)}, indent=1, ensure_ascii=False, default=_plain
    )
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _replace(new: Path, target: Path) -> None:
    """Put `new` in the place of `target` in one step, so that a kill leaves the old model or the
    new one.
    """
    if not target.exists():
        os.rename(new, target)
        return
    exchange = (
        getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if platform.system() == "Linux"
        else None
    )
    here = -100  # AT_FDCWD
    if (
        exchange is not None
        and exchange(here, os.fsencode(new), here, os.fsencode(target), _EXCHANGE) == 0
    ):
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.old."))
    os.rename(
        target, old / target.name
    )  # where there is no exchange: two steps, and the old model stays in `old`
    os.rename(new, target)
    shutil.rmtree(old)


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
            f"{str(folder)!r} was saved in format {found} by a newer separatrix; this one reads "
            f"up to {FORMAT}. Upgrade."
        )
    claimed = manifest.pop("checksum", None)
    if claimed != _checksum(manifest):
        raise DataError(
            f"{path} was changed after it was written: its checksum does not match. Load another "
            f"copy."
        )
    return manifest


def _check_files(folder: Path, files: Mapping[str, Any]) -> None:
    here = {path.name for path in folder.iterdir() if not path.name.startswith(".")} - {MANIFEST}
    for name in sorted(here - set(files)):
        raise DataError(
            f"{str(folder)!r} holds {name!r}, which its manifest does not list. Remove it if you "
            f"trust the rest."
        )
    for name in sorted(set(files) - _FILES):
        raise DataError(
            f"The manifest of {str(folder)!r} lists {name!r}, which no predictor has. It is not "
            f"loaded."
        )
    for name, entry in files.items():
        path = folder / name
        if not path.is_file() or path.is_symlink():
            raise DataError(f"{path} is missing. Load another copy of the model.")
        if _entry(path) != entry:
            raise DataError(
                f"{path} was cut or changed: its checksum does not match the manifest. Load "
                f"another copy."
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
    skops = _skops()
    try:
        unknown = [name for name in skops.get_untrusted_types(file=path) if name not in trusted]
        if unknown:
            raise DataError(
                f"{path} holds types that are not trusted: {', '.join(unknown[:5])}. Nothing was "
                f"loaded. If you know them, "
                "pass load(folder, trusted=[...])."
            )
        return tuple(skops.load(path, trusted=list(trusted)))
    except DataError:
        raise
    except Exception as error:  # whatever a damaged file makes skops raise, it is one sentence here
        raise DataError(
            f"{path} is not a whole skops file ({type(error).__name__}: {error})."
        ) from error


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtraError(
            "A scikit-learn base needs skops: pip install 'separatrix[deploy]'."
        ) from error
    return skops.io


def _entry(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


def _checksum(manifest: Mapping[str, Any]) -> str:
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
    """A level or a number as JSON has it; tuples become lists, which `_level` makes tuples
    again.
    """
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


def _level(value: Any) -> Any:
    return tuple(map(_level, value)) if isinstance(value, list) else value
