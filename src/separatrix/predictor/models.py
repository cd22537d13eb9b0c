"""A fitted model as bytes and back: never through pickle.

Our own base models and trained methods are arrays, in safetensors' format, and are read from
nothing else. A joint model is a zip of its two classifiers. Models of other libraries go through
skops' audited format: a zip of `schema.json`, a tree of nodes that name types and loaders, and of
arrays that the nodes refer to. skops decides by type alone what it constructs. So sizes are
compared before anything is unpacked, each type that we know beyond skops' own list may come with
its own loader only, and the text of a LightGBM model is checked before LightGBM's parser sees it;
`compiled` looks at every place that compiled code will use afterwards. So scikit-learn's own
pipelines and trees load without a question, and a forged file is one sentence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from separatrix import methods
from separatrix.crossfit.array_models import ArrayModel
from separatrix.crossfit.base_models import OWN, JointModel
from separatrix.crossfit.compiled import unsound
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.methods._tree_text import check_model
from separatrix.nn.networks import Networks

_KINDS = {model.kind: model for model in OWN.values()}
_ABOUT, _MODELS = "about.json", ("label_model", "group_model")  # of a joint model's zip
_TRAINED = "method:"  # before the name of a trained method
_DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")
_ANY, _PADDED = ("losses", "kernels"), ("thresholds",)  # may hold NaN; may hold ±inf
_RATIO, _SMALL = 100, 1 << 24  # a sparse matrix may unpack to so many times its size, or to 16 MB
_BOOSTER = "lightgbm.basic.Booster"
_VARYING = {"__id__", "file", "protocol", "_skops_version"}  # of a node, from one save to the next

# Types that load without `trusted` beyond skops' own: by loader and module. Those of scikit-learn
# hold values and no code; `compiled` checks what the trees among them point at.
_LOADERS = {
    "ObjectNode": {
        "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration",
        "sklearn.compose._column_transformer": "make_column_selector",
        "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
        "sklearn.gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
        "sklearn.gaussian_process.kernels": "ConstantKernel Matern Product RBF Sum WhiteKernel",
        "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
        "lightgbm.sklearn": "LGBMClassifier LGBMRegressor",
        "lightgbm.basic": "Booster",
        "xgboost.sklearn": "XGBClassifier XGBRegressor XGBRFClassifier XGBRFRegressor",
        "xgboost.core": "Booster",
        "catboost.core": "CatBoostClassifier CatBoostRegressor",
    },
    "FunctionNode": {
        "sklearn.utils.validation": "check_array",
        "sklearn.feature_selection._univariate_selection": "chi2 f_classif f_regression",
    },
    "TypeNode": {"numpy": "number", "builtins": "object"},  # a dtype that a column selector asks for
    "DTypeNode": {"numpy": "dtype"},
    "PartialNode": {"functools": "partial"},  # of a function that is itself looked at
    "SparseMatrixNode": {"scipy.sparse._csr": "csr_matrix csr_array"},
    "TreeNode": {"sklearn.tree._tree": "Tree"},
}
_KNOWN: dict[str, tuple[str, ...]] = {
    f"{module}.{name}": (loader,)
    for loader, modules in _LOADERS.items()
    for module, names in modules.items()
    for name in names.split()
}
_KNOWN |= dict.fromkeys(("collections.OrderedDict", "sklearn.utils._bunch.Bunch"), ("DictNode", "TypeNode"))


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
    if isinstance(model, ArrayModel):
        return _array_bytes(model.arrays(), [model.kind, np.asarray(model.classes_).tolist()])
    return _skops_bytes(model)


def _array_bytes(arrays: Mapping[str, NDArray[Any]], about: list[Any]) -> bytes:
    from safetensors.numpy import save

    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    for name, array in ordered.items():
        if array.dtype.kind not in "fiub":
            raise InputError(f"{about[0]!r} keeps {name!r} as {array.dtype}: only numbers are saved.")
    return bytes(save(ordered, {"about": json.dumps(about)}))  # one name: their order is not kept


def file_ending(content: bytes) -> str:
    """How the file of these bytes is called."""
    return _opened(content)[0]


def model_digest(content: bytes) -> str:
    """A hash that equal models share, whatever skops writes around them.

    Of a skops file it is that of its tree: each value with its path, its type and its slot.
    Addresses in memory and names of files are left out: they change from one save to the next.
    """
    try:
        kind, parts = _opened(content)
        if kind == "skops":
            return _digest(json.loads(parts["schema.json"]), parts, {}).hex()
        if kind == "joint":
            about = hashlib.sha256(parts[_ABOUT]).hexdigest()
            content = "\n".join([about, *(model_digest(parts[name]) for name in _MODELS)]).encode()
        return hashlib.sha256(content).hexdigest()
    except DataError:
        raise
    except Exception as error:  # a damaged zip raises many kinds
        raise DataError(f"This is not a whole skops file ({type(error).__name__}).") from error


def model_from_bytes(content: bytes, trusted: Sequence[str] = (), source: object = "") -> Any:
    """The inverse; types that nobody has checked are refused, and nothing was loaded.

    Args:
        content: of `model_bytes`.
        trusted: full names of further types of other libraries that the caller has checked.
        source: where the bytes are from, for the error.
    """
    try:
        kind, parts = _opened(content)
        if kind == "safetensors":
            return _from_arrays(content)
        if kind == "joint":
            return _joint(parts, trusted, source)
        return _from_skops(content, parts, trusted, source)
    except (DataError, MissingExtraError):
        raise
    except Exception as error:  # whatever a damaged file raises, it is one sentence here
        reason = f"{source} is not a whole base model ({type(error).__name__}: {error})."
        raise DataError(f"{reason} Load another copy.") from error


def _joint_bytes(model: JointModel) -> bytes:
    levels = [np.asarray(axis).tolist() for axis in (model.classes_, model.groups_)]
    whole = BytesIO()
    with ZipFile(whole, "w") as archive:  # without dates: equal models, equal bytes
        archive.writestr(ZipInfo(_ABOUT), json.dumps(levels).encode())
        for name in _MODELS:
            archive.writestr(ZipInfo(name), model_bytes(getattr(model, f"{name}_")))
    return whole.getvalue()


def _joint(parts: Mapping[str, bytes], trusted: Sequence[str], source: object) -> JointModel:
    model = JointModel()
    classes, groups = json.loads(parts[_ABOUT])
    for name, levels in zip(_MODELS, (classes, range(len(groups))), strict=True):
        model_of_part = model_from_bytes(parts[name], trusted, f"{source} ({name})")
        if isinstance(model_of_part, JointModel):
            raise ValueError("one joint model holds another")
        if not levels or not set(np.asarray(model_of_part.classes_).tolist()) <= {*levels}:
            raise ValueError(f"the labels of its {name} are not its own")
        setattr(model, f"{name}_", model_of_part)
    model.classes_, model.groups_ = np.asarray(classes), np.asarray(groups)
    model.n_features_in_ = model.group_model_.n_features_in_
    return model


def _from_arrays(content: bytes) -> Any:
    from safetensors.numpy import load

    arrays = load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    kind, labels = json.loads(header["__metadata__"]["about"])
    if kind == Networks.kind:
        networks = Networks.restore(checked_arrays(arrays))
        _check_layers(networks)
        return networks
    if kind.startswith(_TRAINED):
        return methods.get(kind.removeprefix(_TRAINED)).restore(checked_arrays(arrays))
    model = _KINDS[kind].restore(arrays, labels)
    row = np.zeros((1, model.n_features_in_), dtype=np.float32)
    with np.errstate(all="ignore"):
        q = model.predict_proba(row)
    if q.shape != (1, len(labels)) or not np.isfinite(q).all():
        raise ValueError("it gives no probabilities")
    return model


def checked_arrays(arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """The same arrays; others than of finite numbers are refused with a `ValueError`."""
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise ValueError(f"the array {name!r} has the type {array.dtype}")
        good = np.isfinite(array) | (np.isinf(array) & name.endswith(_PADDED)) | name.endswith(_ANY)
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
        which = f"{type(model).__name__} cannot be saved without pickle: {error}"
        raise InputError(f"{which}. Remove that attribute, or use another model.") from error
    types = skops.get_untrusted_types(data=content)
    if ours := [name for name in types if name.startswith("separatrix.")]:
        raise InputError(f"{ours[0]} cannot be saved inside a {type(model).__name__}: pass it on its own.")
    return content


def _from_skops(content: bytes, parts: Mapping[str, bytes], trusted: Sequence[str], source: object) -> Any:
    import skops.io as skops

    known = {**_KNOWN, **dict.fromkeys(trusted)}  # what the caller knows has any loader
    _check_nodes(parts, known)
    if unknown := [name for name in skops.get_untrusted_types(data=content) if name not in known]:
        which = f"{source} holds types that are not trusted: {', '.join(unknown[:5])}"
        raise DataError(f"{which}. Nothing was loaded. If you know them, pass them in `trusted=[...]`.")
    model = skops.loads(content, trusted=sorted(known))
    if wrong := unsound(model):
        raise DataError(f"{source} holds {wrong}. It is not used.")
    return model


def _check_nodes(parts: Mapping[str, bytes], known: Mapping[str, tuple[str, ...] | None]) -> None:
    """Refuse, with a `ValueError`, what skops would construct without a look.

    Args:
        parts: the files of a skops archive.
        known: the loaders of each known type; None for any.
    """
    schema = json.loads(parts["schema.json"])
    _digest(schema, parts, {})  # refuses two nodes of one id
    for node in _nodes(schema):
        name = f"{node.get('__module__')}.{node.get('__class__')}"
        if name.startswith("separatrix."):
            raise ValueError(f"{name} is kept as arrays, never in a skops file")
        loader, loaders = node.get("__loader__"), known.get(name)
        if loaders is not None and loader not in loaders:
            raise ValueError(f"{name} comes with the loader {loader!r}, not {loaders[0]!r}")
        if name == _BOOSTER and loaders is not None:
            _check_booster(node)


def _opened(content: bytes) -> tuple[str, dict[str, bytes]]:
    """The ending of a model's file, and the parts of an archive by name.

    The sizes that an archive declares must be those that it has.
    """
    if content[:2] != b"PK":
        return "safetensors", {}
    with ZipFile(BytesIO(content)) as archive:
        entries = archive.infolist()
        for entry in entries:
            if entry.compress_type != ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(f"{entry.filename!r} is compressed; a model is kept uncompressed")
        if sum(entry.file_size for entry in entries) > len(content):
            raise ValueError("its parts overlap")
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name, packed in parts.items():
        if name.endswith(".npy"):
            _check_array(BytesIO(packed), len(packed), name)
        elif name.endswith(".npz"):
            _check_sparse(packed, name)
    return "joint" if parts.keys() == {_ABOUT, *_MODELS} else "skops", parts


def _digest(node: Any, parts: Mapping[str, bytes], ids: dict[Any, bytes]) -> bytes:
    whole, of_skops = b"", False
    if isinstance(node, Mapping):
        of_skops, kind = "__loader__" in node, b"{"
        if of_skops and isinstance(file := node.get("file"), str):
            whole += _content_digest(file, parts[file])
        for name in sorted(set(node) - (_VARYING if of_skops else set())):
            whole += json.dumps(name).encode() + _digest(node[name], parts, ids)
    elif isinstance(node, list):
        kind, whole = b"[", b"".join(_digest(child, parts, ids) for child in node)
    else:
        kind, whole = b"=", json.dumps(node).encode()
    digest = kind + hashlib.sha256(whole).digest()
    # skops takes the first of two nodes with one id: the second would show us something else
    if of_skops and ids.setdefault(node.get("__id__", digest), digest) != digest:
        raise ValueError(f"two different nodes have the id {node['__id__']!r}")
    return digest


def _content_digest(name: str, content: bytes) -> bytes:
    if not name.endswith((".npy", ".npz")):
        return hashlib.sha256(content).digest()
    loaded = np.load(BytesIO(content), allow_pickle=False)
    arrays = {key: loaded[key] for key in sorted(loaded)} if name.endswith("z") else {"": loaded}
    whole = hashlib.sha256()
    for key, array in arrays.items():
        for field in array.dtype.names or (None,):  # the bytes between two fields are anything
            values = np.ascontiguousarray(array if field is None else array[field])
            whole.update(json.dumps([key, field, values.dtype.str, list(array.shape)]).encode())
            whole.update(hashlib.sha256(values.tobytes()).digest())
    return whole.digest()


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every node of a schema."""
    if isinstance(value, dict) and ("__class__" in value or "__loader__" in value):
        yield value
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _nodes(child)


def _check_array(file: Any, size: int, name: str) -> None:
    """An array must declare as many numbers as the file has bytes for."""
    version = npy.read_magic(file)
    reader = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if reader is None:
        raise ValueError(f"{name!r} is an array of version {version}")
    shape, _, dtype = reader(file)
    if dtype.hasobject or any(n < 0 for n in shape):
        raise ValueError(f"{name!r} does not hold numbers")
    declared = dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object))
    if declared != size - file.tell():
        raise ValueError(f"{name!r} declares {declared:,} bytes and has {size - file.tell():,}")


def _check_sparse(content: bytes, name: str) -> None:
    """scipy compresses sparse matrices: their declared sizes must be those of real ones."""
    with ZipFile(BytesIO(content)) as archive:
        declared = sum(entry.file_size for entry in archive.infolist())
        if declared > max(_RATIO * len(content), _SMALL):
            raise ValueError(f"{name!r} unpacks {len(content):,} bytes to {declared:,}")
        for entry in archive.infolist():
            with archive.open(entry) as file:
                _check_array(file, entry.file_size, f"{name}/{entry.filename}")


def _check_booster(node: Mapping[str, Any]) -> None:
    """The text of a LightGBM model must be whole before LightGBM parses it."""
    state = node.get("content", {})
    fields = state["content"] if state.get("__loader__") == "DictNode" else {}
    texts = [fields[name] for name in ("_handle", "handle") if name in fields]
    if not texts or any(text["__loader__"] != "JsonNode" for text in texts):
        raise ValueError("its LightGBM model has no text")
    for text in texts:
        check_model(json.loads(text["content"]))
