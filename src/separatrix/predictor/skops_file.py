"""A skops file looked at before skops reads it: its sizes, its types, its loaders, its digest.

A skops file is a zip of `schema.json`, a tree of nodes that name types and loaders, and of arrays
that the nodes refer to. skops decides by type alone what it constructs. Here the sizes are compared
before anything is unpacked, each type that we know beyond skops' own list may come with its own
loader only, and the text of a LightGBM model is checked before LightGBM's parser sees it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from io import BytesIO
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy

from separatrix.methods._tree_text import check_model

__all__ = ["check_file", "check_sizes", "digest", "is_archive", "known_types"]

_SCHEMA = "schema.json"
_RATIO, _SMALL = 100, 1 << 24  # a sparse matrix may unpack to so many times its size, or to 16 MB
_BOOSTER = "lightgbm.basic.Booster"
_OBJECT, _TYPE, _FUNCTION = ("ObjectNode",), ("TypeNode",), ("FunctionNode",)
_KERNELS = "sklearn.gaussian_process.kernels."
_SELECTION = "sklearn.feature_selection._univariate_selection."

# Types of scikit-learn's own pipelines that skops asks about, each with its loaders. They hold
# values and no code; `compiled` checks what the trees among them point at.
_SKLEARN = {
    "numpy.dtype": ("DTypeNode",),
    "numpy.number": _TYPE,
    "builtins.object": _TYPE,  # a dtype that a column selector asks for
    "collections.OrderedDict": ("DictNode", "TypeNode"),
    "functools.partial": ("PartialNode",),  # of a function that is itself looked at
    "scipy.sparse._csr.csr_matrix": ("SparseMatrixNode",),
    "scipy.sparse._csr.csr_array": ("SparseMatrixNode",),
    "sklearn.utils._bunch.Bunch": ("DictNode", "TypeNode"),  # the parts of an ensemble, by name
    "sklearn.utils.validation.check_array": _FUNCTION,
    "sklearn.calibration._CalibratedClassifier": _OBJECT,
    "sklearn.calibration._SigmoidCalibration": _OBJECT,
    "sklearn.compose._column_transformer.make_column_selector": _OBJECT,
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": _OBJECT,
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace": _OBJECT,
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer": _OBJECT,
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer": _OBJECT,
    "sklearn.tree._tree.Tree": ("TreeNode",),
    **{_KERNELS + name: _OBJECT for name in ("ConstantKernel", "Product", "RBF", "Sum", "Matern")},
    _KERNELS + "WhiteKernel": _OBJECT,
    **{_SELECTION + name: _FUNCTION for name in ("chi2", "f_classif", "f_regression")},
}
# Boosted trees of other libraries: by module, so that they are known only where installed.
_LIBRARIES = {
    "lightgbm": ("basic.Booster", "sklearn.LGBMClassifier", "sklearn.LGBMRegressor"),
    "xgboost": (
        "core.Booster", "sklearn.XGBClassifier", "sklearn.XGBRegressor",
        "sklearn.XGBRFClassifier", "sklearn.XGBRFRegressor",
    ),
    "catboost": ("core.CatBoostClassifier", "core.CatBoostRegressor"),
}  # fmt: skip


def known_types() -> dict[str, tuple[str, ...]]:
    """Full names of the types that load without `trusted`, beyond skops' own, and their loaders."""
    known = dict(_SKLEARN)
    for library, names in _LIBRARIES.items():
        if find_spec(library) is not None:
            known |= {f"{library}.{name}": _OBJECT for name in names}
    return known


def check_file(content: bytes, trusted: set[str]) -> None:
    """Refuse, with a `ValueError`, what skops would unpack or construct without a look.

    Args:
        content: the file.
        trusted: types that the caller has checked; these may come with any loader.
    """
    digest(content)
    known = {name: loader for name, loader in known_types().items() if name not in trusted}
    for node in _nodes(_schema(content)):
        name = f"{node.get('__module__')}.{node.get('__class__')}"
        if name.startswith("separatrix."):
            raise ValueError(f"{name} is kept as arrays, never in a skops file")
        loader = node.get("__loader__")
        if name in known and loader not in known[name]:
            raise ValueError(f"{name} comes with the loader {loader!r}, not {known[name][0]!r}")
        if name == _BOOSTER and name in known:
            _check_booster(node)


def check_sizes(content: bytes) -> None:
    """Refuse an archive by the sizes that it declares, before anything is unpacked."""
    with ZipFile(BytesIO(content)) as archive:
        for entry in archive.infolist():
            if entry.compress_type != ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(
                    f"{entry.filename!r} is compressed, {entry.compress_size:,} bytes for "
                    f"{entry.file_size:,}; a model is kept uncompressed"
                )
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as file:
                    _check_array(file, entry.file_size, entry.filename)
        if sum(entry.file_size for entry in archive.infolist()) > len(content):
            raise ValueError("its parts overlap")
        for name in archive.namelist():
            if name.endswith(".npz"):
                _check_sparse(archive.read(name), name)


def digest(content: bytes) -> str:
    """SHA-256 of a skops file's tree: each value with its path, its type and its slot.

    Addresses in memory and names of files are left out: they change from one save to the next.
    """
    check_sizes(content)
    with ZipFile(BytesIO(content)) as archive:
        return _digest(_schema(content), archive, {}).hex()


def _digest(node: Any, archive: ZipFile, ids: dict[Any, bytes]) -> bytes:
    whole = hashlib.sha256()
    if isinstance(node, Mapping):
        file = node.get("file") if "__loader__" in node else None
        if isinstance(file, str):
            whole.update(_content_digest(archive, file))
        left_out = {"__id__", "file", "protocol", "_skops_version"} if "__loader__" in node else ()
        for name in sorted(set(node) - set(left_out)):
            whole.update(json.dumps(name).encode() + _digest(node[name], archive, ids))
        found = b"{" + whole.digest()
        # skops takes the first of two nodes with one id: the second would show us something else
        if "__id__" in left_out and ids.setdefault(node.get("__id__", found), found) != found:
            raise ValueError(f"two different nodes have the id {node['__id__']!r}")
        return found
    if isinstance(node, list):
        for one in node:
            whole.update(_digest(one, archive, ids))
        return b"[" + whole.digest()
    whole.update(json.dumps(node).encode())
    return b"=" + whole.digest()


def _content_digest(archive: ZipFile, name: str) -> bytes:
    content = archive.read(name)
    if name.endswith(".npz"):
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            parts = {key: arrays[key] for key in sorted(arrays)}
    elif name.endswith(".npy"):
        parts = {"": np.load(BytesIO(content), allow_pickle=False)}
    else:
        return hashlib.sha256(content).digest()
    whole = hashlib.sha256()
    for key, array in parts.items():
        for field in array.dtype.names or (None,):  # the bytes between two fields are anything
            part = np.ascontiguousarray(array if field is None else array[field])
            whole.update(json.dumps([key, field, part.dtype.str, list(array.shape)]).encode())
            whole.update(hashlib.sha256(part.tobytes()).digest())
    return whole.digest()


def _schema(content: bytes) -> Any:
    with ZipFile(BytesIO(content)) as archive:
        return json.loads(archive.read(_SCHEMA))


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every node of a schema."""
    if isinstance(value, dict):
        if "__class__" in value or "__loader__" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _nodes(one)


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
    fields = state.get("content", {}) if state.get("__loader__") == "DictNode" else {}
    texts = [fields[name] for name in ("_handle", "handle") if name in fields]
    if not texts:
        raise ValueError("its LightGBM model has no text")
    for one in texts:
        text = json.loads(one["content"]) if one.get("__loader__") == "JsonNode" else None
        if not isinstance(text, str):
            raise ValueError("its LightGBM model is no text")
        check_model(text)


def is_archive(content: bytes) -> bool:
    """Whether bytes begin as a zip file."""
    return content[:2] == b"PK"
