"""A fitted classifier as bytes and back: never through pickle.

Our own base models are arrays, in safetensors' format. Classifiers of other libraries go through
skops' audited format. skops does not trust scikit-learn's boosted trees, because their nodes hold
places in arrays that are used without a look: a forged file could make a prediction read foreign
memory. Here every node is looked at before anybody predicts, so such files load without a question.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from separatrix.errors import DataError, MissingExtraError
from separatrix.estimators.base_models import from_arrays, to_arrays
from separatrix.estimators.boosted import BoostedTrees
from separatrix.estimators.joint import JointModel
from separatrix.estimators.logistic import Logistic
from separatrix.estimators.matrices import ArrayModel
from separatrix.estimators.network import Network

__all__ = ["OURS", "is_ours", "is_skops", "model_bytes", "model_from_bytes", "skops_io"]

_JOINT = "joint"
_TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
_BASES = (BoostedTrees, JointModel, Logistic, Network)  # arrays, which are checked
OURS = (_TREE, *(f"{kind.__module__}.{kind.__qualname__}" for kind in _BASES))  # types we check


def skops_io() -> Any:
    """The module `skops.io`; one sentence where it is not installed."""
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtraError(
            "Keeping a classifier needs skops: pip install 'separatrix[deploy]'."
        ) from error
    return skops.io


def model_bytes(model: Any) -> bytes:
    """A fitted classifier as bytes.

    >>> from separatrix.estimators.logistic import Logistic
    >>> model = Logistic().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> model_from_bytes(model_bytes(model)).predict([[0.0], [3.0]]).tolist()
    ['a', 'b']
    """
    arrays, kind = _arrays(model)
    if arrays is None:
        return bytes(skops_io().dumps(model))
    from safetensors.numpy import save

    labels = np.asarray(model.classes_).tolist()
    about = {"about": json.dumps([kind, labels])}  # one name: the order of names is not kept
    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    return bytes(save(ordered, about))


def is_ours(model: Any) -> bool:
    """Whether a fitted classifier is one of our own, kept as arrays."""
    return _arrays(model)[0] is not None


def _arrays(model: Any) -> tuple[dict[str, Any] | None, str]:
    """The arrays of our own models and their kind; None where skops must do it."""
    if not isinstance(model, JointModel):
        return to_arrays(model), getattr(model, "kind", "")
    parts = [to_arrays(one) for one in (model.label_model_, model.group_model_)]
    if None in parts:
        return None, ""
    kinds = f"{model.label_model_.kind} {model.group_model_.kind}"
    named = {f"{i}.{name}": a for i, part in enumerate(parts) for name, a in (part or {}).items()}
    return {**named, "groups": np.asarray(model.groups_), **_seen(model)}, f"{_JOINT} {kinds}"


def _seen(model: JointModel) -> dict[str, Any]:
    """The labels and groups that each of the two classifiers saw, as places."""
    of_label = np.searchsorted(model.classes_, model.label_model_.classes_)
    return {"0.seen": of_label, "1.seen": np.asarray(model.group_model_.classes_)}


def _joint(kinds: str, arrays: dict[str, Any], labels: list[Any]) -> JointModel:
    """The joint model that `_arrays` described."""
    model, classes = JointModel(), np.asarray(labels)
    parts = []
    for i, kind in enumerate(kinds.split()[1:]):
        own = {n[2:]: a for n, a in arrays.items() if n.startswith(f"{i}.") and n != f"{i}.seen"}
        seen = arrays[f"{i}.seen"]
        parts.append(from_arrays(kind, own, classes[seen] if i == 0 else seen))
    model.label_model_, model.group_model_ = parts
    model.classes_, model.groups_ = classes, arrays["groups"]
    model.n_features_in_ = model.group_model_.n_features_in_
    return model


def is_skops(content: bytes) -> bool:
    """Whether bytes of `model_bytes` are in skops' format, which is a zip file."""
    return content[:2] == b"PK"


def model_from_bytes(content: bytes, trusted: Sequence[str] = (), source: object = "") -> Any:
    """The inverse; types that nobody has checked are refused, and nothing was loaded.

    Args:
        content: of `model_bytes`.
        trusted: full names of further types of other libraries that the caller has checked.
        source: where the bytes are from, for the error.
    """
    return _from_skops(content, trusted, source) if is_skops(content) else _ours(content, source)


def _ours(content: bytes, source: object) -> Any:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        kind, labels = json.loads(header["__metadata__"]["about"])
        joint = kind.startswith(_JOINT)
        model = _joint(kind, arrays, labels) if joint else from_arrays(kind, arrays, labels)
        row = np.zeros((1, model.n_features_in_), dtype=np.float32)
        with np.errstate(all="ignore"):
            q = model.joint_proba(row).sum(2) if joint else model.predict_proba(row)
        if q.shape != (1, len(labels)) or not np.isfinite(q).all():
            raise ValueError("it gives no probabilities")
        return model
    except (SafetensorError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{source} is not a whole base model ({told}).") from error


def _from_skops(content: bytes, trusted: Sequence[str], source: object) -> Any:
    skops = skops_io()
    known = {*OURS, *trusted}
    try:
        unknown = [name for name in skops.get_untrusted_types(data=content) if name not in known]
        if unknown:
            raise DataError(
                f"{source} holds types that are not trusted: {', '.join(unknown[:5])}. Nothing was "
                "loaded. If you know them, pass them in `trusted=[...]`."
            )
        model = skops.loads(content, trusted=sorted(known))
        if not _sound(model, None, set()):
            raise DataError(f"{source} holds trees with places outside of them. It is not used.")
        return model
    except DataError:
        raise
    except Exception as error:  # whatever a damaged file makes skops raise, it is one sentence here
        raise DataError(
            f"{source} is not a whole skops file ({type(error).__name__}: {error})."
        ) from error


def _sound(value: Any, features: int | None, seen: set[int]) -> bool:
    """Whether all boosted trees anywhere in a model point only at nodes and features they have."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | np.ndarray | ArrayModel):
        return True
    seen.add(id(value))
    if f"{type(value).__module__}.{type(value).__qualname__}" == _TREE:
        return features is not None and _sound_tree(value, features)
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    own = getattr(value, "n_features_in_", None) if hasattr(value, "_predictors") else None
    inner = features if own is None else int(own)
    return all(_sound(part, inner, seen) for part in parts)


def _sound_tree(tree: Any, features: int) -> bool:
    nodes = tree.nodes
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or not len(nodes):
        return False
    here, size = np.arange(len(nodes)), len(nodes)
    inside = nodes["is_leaf"] != 0
    for side in ("left", "right"):  # children come after their parent, so no path is endless
        inside |= (nodes[side] > here) & (nodes[side] < size)
        if not inside.all():
            return False
        inside = nodes["is_leaf"] != 0
    inside |= (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < features)
    sets = min(len(tree.raw_left_cat_bitsets), len(tree.binned_left_cat_bitsets))
    inside &= (nodes["is_categorical"] == 0) | (nodes["bitset_idx"] < sets)
    widths = (tree.raw_left_cat_bitsets.shape[1:], tree.binned_left_cat_bitsets.shape[1:])
    return bool(inside.all()) and widths == ((8,), (8,))
