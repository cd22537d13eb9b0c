"""A fitted classifier as bytes and back: never through pickle.

Our own base models are arrays, in safetensors' format, and are read from nothing else. A joint
model is a zip of its two classifiers. Classifiers of other libraries go through skops' audited
format, which decides by type alone: `skops_file` looks at sizes, types and loaders before skops
does, `compiled` at every place that compiled code will use afterwards. So scikit-learn's own
pipelines and trees load without a question, and a forged file is one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np

from separatrix.crossfit.base_models import from_arrays, to_arrays
from separatrix.crossfit.compiled import unsound
from separatrix.crossfit.joint import JointModel
from separatrix.errors import DataError, InputError
from separatrix.predictor import skops_file

__all__ = ["joint_parts", "model_bytes", "model_from_bytes"]

_ABOUT, _PARTS = "about.json", ("label_model", "group_model")  # of a joint model's zip


def model_bytes(model: Any) -> bytes:
    """A fitted classifier as bytes.

    >>> from separatrix.crossfit.logistic import Logistic
    >>> model = Logistic().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> model_from_bytes(model_bytes(model)).predict([[0.0], [3.0]]).tolist()
    ['a', 'b']
    """
    if isinstance(model, JointModel):
        return _joint_bytes(model)
    arrays = to_arrays(model)
    if arrays is None:
        return _skops_bytes(model)
    from safetensors.numpy import save

    labels = np.asarray(model.classes_).tolist()
    about = {"about": json.dumps([model.kind, labels])}  # one name: the order of names is not kept
    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    return bytes(save(ordered, about))


def model_from_bytes(content: bytes, trusted: Sequence[str] = (), source: object = "") -> Any:
    """The inverse; types that nobody has checked are refused, and nothing was loaded.

    Args:
        content: of `model_bytes`.
        trusted: full names of further types of other libraries that the caller has checked.
        source: where the bytes are from, for the error.
    """
    if not skops_file.is_archive(content):
        return _from_arrays(content, source)
    parts = joint_parts(content, source)
    return (
        _from_skops(content, trusted, source) if parts is None else _joint(parts, trusted, source)
    )


def joint_parts(content: bytes, source: object = "") -> tuple[bytes, ...] | None:
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


def _skops_bytes(model: Any) -> bytes:
    import skops.io as skops  # slow to import, and not every model needs it

    content = bytes(skops.dumps(model))
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
