"""A fitted model as bytes and back: never through pickle.

Our own base models and trained methods are arrays, in safetensors' format, and are read from
nothing else. A joint model is a zip of its two classifiers. Models of other libraries go through
skops' audited format, which decides by type alone: `skops_file` looks at sizes, types and loaders
before skops does, `compiled` at every place that compiled code will use afterwards. So
scikit-learn's own pipelines and trees load without a question, and a forged file is one sentence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.crossfit.base_models import JointModel, from_arrays, to_arrays
from separatrix.crossfit.compiled import unsound
from separatrix.errors import DataError, InputError
from separatrix.nn.networks import Networks
from separatrix.predictor import skops_file

__all__ = ["checked_arrays", "file_ending", "model_bytes", "model_digest", "model_from_bytes"]

_ABOUT, _PARTS = "about.json", ("label_model", "group_model")  # of a joint model's zip
_TRAINED = "method:"  # before the name of a trained method
_DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")
_ANY, _PADDED = ("losses", "kernels"), ("thresholds",)  # may hold NaN; may hold ±inf


def model_bytes(model: Any, method: str = "") -> bytes:
    """A fitted model as bytes; `method` is the name of a trained one. None, no model, is none.

    >>> from separatrix.crossfit.array_models import Logistic
    >>> model = Logistic().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> model_from_bytes(model_bytes(model)).predict([[0.0], [3.0]]).tolist()
    ['a', 'b']
    """
    if model is None:
        return b""
    if method:
        # networks need numpy only, where importing their method would need torch
        known = Networks.kind if isinstance(model, Networks) else _TRAINED + method
        return _array_bytes(model.arrays(), [known, []])
    if isinstance(model, JointModel):
        return _joint_bytes(model)
    arrays = to_arrays(model)
    if arrays is None:
        return _skops_bytes(model)
    return _array_bytes(arrays, [model.kind, np.asarray(model.classes_).tolist()])


def _array_bytes(arrays: Mapping[str, NDArray[Any]], about: list[Any]) -> bytes:
    from safetensors.numpy import save

    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    for name, array in ordered.items():
        if array.dtype.kind not in "fiub":
            raise InputError(
                f"{about[0]!r} keeps {name!r} as {array.dtype}: only numbers are saved."
            )
    return bytes(save(ordered, {"about": json.dumps(about)}))  # one name: their order is not kept


def file_ending(content: bytes) -> str:
    """How the file of these bytes is called."""
    if not skops_file.is_archive(content):
        return "safetensors"
    return "skops" if _joint_parts(content) is None else "joint"


def model_digest(content: bytes) -> str:
    """A hash that equal models share, whatever skops writes around them."""
    if not skops_file.is_archive(content):
        return hashlib.sha256(content).hexdigest()
    parts = _joint_parts(content)
    if parts is not None:
        each = [hashlib.sha256(parts[0]).hexdigest(), *map(model_digest, parts[1:])]
        return hashlib.sha256("\n".join(each).encode()).hexdigest()
    try:
        return skops_file.digest(content)  # of its tree, with the path, type and slot of each value
    except Exception as error:  # a damaged zip raises many kinds
        raise DataError(f"This is not a whole skops file ({type(error).__name__}).") from error


def model_from_bytes(content: bytes, trusted: Sequence[str] = (), source: object = "") -> Any:
    """The inverse; types that nobody has checked are refused, and nothing was loaded.

    Args:
        content: of `model_bytes`.
        trusted: full names of further types of other libraries that the caller has checked.
        source: where the bytes are from, for the error.
    """
    if not skops_file.is_archive(content):
        return _from_arrays(content, source)
    parts = _joint_parts(content, source)
    return (
        _from_skops(content, trusted, source) if parts is None else _joint(parts, trusted, source)
    )


def _joint_parts(content: bytes, source: object = "") -> tuple[bytes, ...] | None:
    """Description, label model and group model of a joint model's zip; None for other zips."""
    try:
        skops_file.check_sizes(content)
        with ZipFile(BytesIO(content)) as archive:
            if set(archive.namelist()) != {_ABOUT, *_PARTS}:
                return None
            return tuple(archive.read(name) for name in (_ABOUT, *_PARTS))
    except Exception as error:  # a damaged zip raises many kinds
        raise _broken(source, error) from error


def _joint_bytes(model: JointModel) -> bytes:
    levels = [np.asarray(one).tolist() for one in (model.classes_, model.groups_)]
    parts = [json.dumps(levels).encode()]
    parts += [model_bytes(getattr(model, f"{name}_")) for name in _PARTS]
    whole = BytesIO()
    with ZipFile(whole, "w") as archive:
        for name, content in zip((_ABOUT, *_PARTS), parts, strict=True):
            archive.writestr(ZipInfo(name), content)  # without a date: equal models, equal bytes
    return whole.getvalue()


def _joint(parts: tuple[bytes, ...], trusted: Sequence[str], source: object) -> JointModel:
    model = JointModel()
    for name, content in zip(_PARTS, parts[1:], strict=True):
        part = model_from_bytes(content, trusted, f"{source} ({name})")
        if isinstance(part, JointModel):
            raise DataError(f"{source} is not a whole base model: one joint model holds another.")
        setattr(model, f"{name}_", part)
    try:
        classes, groups = json.loads(parts[0])
        model.classes_, model.groups_ = np.asarray(classes), np.asarray(groups)
        seen = np.asarray(model.group_model_.classes_)
        sizes = model.classes_.ndim == model.groups_.ndim == 1 and len(classes) and len(groups)
        if not sizes or not np.isin(seen, np.arange(len(groups))).all():
            raise ValueError("its labels or groups are not those of its classifiers")
        if not np.isin(np.asarray(model.label_model_.classes_), model.classes_).all():
            raise ValueError("its labels are not those of its classifiers")
        model.n_features_in_ = model.group_model_.n_features_in_
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _broken(source, error) from error
    return model


def _from_arrays(content: bytes, source: object) -> Any:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        kind, labels = json.loads(header["__metadata__"]["about"])
        if kind == Networks.kind:
            networks = Networks.restore(checked_arrays(arrays))
            _check_layers(networks)
            return networks
        if kind.startswith(_TRAINED):
            return methods.get(kind.removeprefix(_TRAINED)).restore(checked_arrays(arrays))
        model = from_arrays(kind, arrays, labels)
        row = np.zeros((1, model.n_features_in_), dtype=np.float32)
        with np.errstate(all="ignore"):
            q = model.predict_proba(row)
        if q.shape != (1, len(labels)) or not np.isfinite(q).all():
            raise ValueError("it gives no probabilities")
        return model
    except (
        SafetensorError, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        raise _broken(source, error) from error


def checked_arrays(arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """The same arrays; others than of finite numbers are refused with a `ValueError`."""
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise ValueError(f"the array {name!r} has the type {array.dtype}")
        if array.dtype.kind != "f" or name.endswith(_ANY):
            continue
        good = np.isfinite(array) | (np.isinf(array) & name.endswith(_PADDED))
        if not good.all():
            raise ValueError(f"the array {name!r} holds a value that is not finite")
    return arrays


def _check_layers(networks: Networks) -> None:
    """Each layer takes what the one before gives, in every lane."""
    lanes, before = len(networks.status), None
    for i, (w, b) in enumerate(zip(networks.weights, networks.biases, strict=True)):
        fits = w.ndim == 3 and w.shape[0] == lanes and b.shape == (lanes, w.shape[2])
        if not fits or before not in (None, w.shape[1]):
            raise ValueError(f"layer {i} has the shapes {w.shape} and {b.shape}")
        before = w.shape[2]
    if not networks.weights or networks.n_groups < 0 or networks.width < 0:
        raise ValueError("its networks have no layers or no inputs")


def _skops_bytes(model: Any) -> bytes:
    import skops.io as skops  # slow to import, and not every model needs it

    try:
        content = bytes(skops.dumps(model))
    except TypeError as error:
        raise InputError(
            f"{type(model).__name__} cannot be saved without pickle: {error}. Remove that "
            "attribute, or use another model."
        ) from error
    own = [name for name in skops.get_untrusted_types(data=content) if _is_own(name)]
    if own:
        raise InputError(
            f"{own[0]} is kept as arrays and cannot be saved inside a {type(model).__name__}. Pass "
            "it on its own, or use a classifier of scikit-learn there."
        )
    return content


def _is_own(name: str) -> bool:
    return name.startswith("separatrix.")


def _from_skops(content: bytes, trusted: Sequence[str], source: object) -> Any:
    import skops.io as skops

    known = {*skops_file.known_types(), *trusted}
    try:
        skops_file.check_file(content, set(trusted))
        unknown = [name for name in skops.get_untrusted_types(data=content) if name not in known]
        if unknown:
            raise DataError(
                f"{source} holds types that are not trusted: {', '.join(unknown[:5])}. Nothing was "
                "loaded. If you know them, pass them in `trusted=[...]`."
            )
        model = skops.loads(content, trusted=sorted(known))
        wrong = unsound(model)
        if wrong is not None:
            raise DataError(f"{source} holds {wrong}. It is not used.")
        return model
    except DataError:
        raise
    except Exception as error:  # whatever a damaged file makes skops raise, it is one sentence here
        raise _broken(source, error) from error


def _broken(source: object, error: Exception) -> DataError:
    told = " ".join(f"{type(error).__name__}: {error}".split())
    return DataError(f"{source} is not a whole base model ({told}). Load another copy.")
