"""Base models, and the rows that they take.

A model is found by name, fitted, saved as arrays. A classifier says P(y | x), a regressor a number,
and a `JointModel` q(y, z | x).

Rows may be of any kind: some rows, some columns, the group among them. A column *holds* the group
if it has the name of a sensitive column, if it is that column, or if the group decides its value: a
code, an indicator, one of several sensitive columns that were joined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import hstack, issparse
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from separatrix import methods
from separatrix.columns.frames import as_frame, column_names, named_columns
from separatrix.columns.scores import check_posteriors, quantity_column
from separatrix.columns.values import as_array, objects
from separatrix.core.numbers import as_floats
from separatrix.crossfit.array_models import ArrayModel, BoostedTrees, Logistic, Network
from separatrix.errors import InputError, MissingExtraError
from separatrix.methods import Fitted, Stack
from separatrix.optimum.rules import check_joint

Array = NDArray[np.float64]
_FIRST = 500  # rows that a column is compared on before all of them are
_COLUMN = "separatrix_group_"  # names of the 0/1 columns in a frame

# what a base model is asked for, by what it reads
READS = {
    "x": "predict_proba", "xz": "predict_proba", "joint": "joint_proba", "value": "predict",
}  # fmt: skip
NAMES = {  # in words
    "trees": "boosted trees", "logistic": "logistic regression", "network": "network"
}  # fmt: skip
OWN: dict[str, type[ArrayModel]] = {"trees": BoostedTrees, "logistic": Logistic, "network": Network}


def base_model_named(name: str) -> Any:
    """A classifier that is not fitted yet: "trees", "logistic", "network" or "MODULE:CLASS".

    >>> base_model_named("trees")
    BoostedTrees()
    >>> base_model_named("sklearn.naive_bayes:GaussianNB")
    GaussianNB()
    """
    if name == "network" and find_spec("torch") is None:
        raise MissingExtraError("The base model 'network' needs torch: pip install 'separatrix[torch]'.")
    if name in OWN:
        return OWN[name]()
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        known = f"{', '.join(NAMES)} or MODULE:CLASS, such as sklearn.ensemble:RandomForestClassifier"
        raise InputError(f"There is no base model {name!r}. Pass {known}.")
    try:
        model = getattr(import_module(module), attribute)()
    except ImportError as error:
        hint = "Is it installed, and is its folder on PYTHONPATH?"
        raise InputError(f"The module {module!r} of {name!r} cannot be imported ({error}). {hint}") from error
    except AttributeError as error:
        raise InputError(f"The module {module!r} has no class {attribute!r} ({error}).") from error
    except TypeError as error:
        raise InputError(f"{name!r} is no class that can be called without arguments ({error}).") from error
    for method in ("fit", "predict_proba"):
        if not hasattr(model, method):
            hint = "sklearn.calibration.CalibratedClassifierCV makes probabilities"
            raise InputError(f"{name!r} has no `{method}`, which a base model needs; {hint}.")
    return model


def fit_one(model: Any, X: Any, y: NDArray[Any], sample_weight: Array | None) -> Any:
    """A fitted clone; weights reach the last step of a pipeline."""
    fitted = _cloned(model)
    if sample_weight is None:
        return fitted.fit(X, y)
    prefix, last = last_step(fitted)
    if not has_fit_parameter(last, "sample_weight"):
        raise InputError(f"{type(last).__name__} takes no `sample_weight`: leave it out, or use another `estimator`.")
    return fitted.fit(X, y, **{f"{prefix}sample_weight": sample_weight})


def _cloned(model: Any) -> Any:
    try:
        return clone(model)
    except RuntimeError:  # CatBoost keeps a copy of the list `cat_features`, which `clone` refuses
        return deepcopy(model)


def without_categories(model: Any, names: Collection[str]) -> Any:
    """The model, no longer told that columns of these names are categories.

    CatBoost and others look for every column of `cat_features` in X.
    """
    if isinstance(model, Pipeline) or not hasattr(model, "get_params"):
        return model
    shorter = {
        option: [column for column in value if column not in names]
        for option, value in model.get_params(deep=False).items()
        if "cat" in option and isinstance(value, list | tuple) and {*names}.intersection(value)
    }
    return _cloned(model).set_params(**shorter) if shorter else model


def no_other_columns(estimator: Any, rows: Any, held: Sequence[int]) -> str:
    """Why no model can be fitted without the columns that hold the group; "" if one can."""
    width = len(rows) if by_name(rows) else rows.shape[-1]
    if held and len(held) == width:
        return "X has no other column"
    if held and categories_by_place(estimator):
        return f"{type(estimator).__name__} knows its categories by the place of a column"
    return ""


def categories_by_place(estimator: Any) -> bool:
    """Whether a model is told by number which columns are categories."""
    settings: dict[str, Any] = getattr(estimator, "get_params", dict)()
    lists = [value for name, value in settings.items() if "cat" in name and np.ndim(value) == 1]
    return any(np.asarray(places).dtype.kind in "iub" for places in lists)  # none are floats


def last_step(model: Any) -> tuple[str, Any]:
    """What a pipeline puts before a parameter of its last step, and that step; "" for others."""
    prefix = ""
    while isinstance(model, Pipeline):
        name, model = model.steps[-1]
        prefix += f"{name}__"
    return prefix, model


def scores_of(model: Any, X: Any, reads: str, shape: tuple[int, int]) -> Array:
    """What a base model says about rows.

    Args:
        model: fitted; None where X is the scores themselves.
        X: rows as it takes them.
        reads: "x", "xz", "joint" or "value", see `cross_fit`.
        shape: how many labels and groups there are.

    Returns:
        P(y | x) (n, labels), q(y, z | x) (n, labels, groups), or numbers (n,).
    """
    if reads == "value":
        return quantity_column(X, "X") if model is None else _predictions(model, X)
    if reads == "joint":
        return check_joint(X, shape) if model is None else np.asarray(model.joint_proba(X, shape))
    return _as_posteriors(X, shape[0]) if model is None else posteriors(model, X, shape[0])


def posteriors(model: Any, X: Any, n_labels: int) -> Array:
    """P(Y | x) (n, K) of a classifier; one that was fitted to codes may lack rare ones."""
    if not hasattr(model, "predict_proba"):
        hint = "Wrap it in sklearn.calibration.CalibratedClassifierCV, or pass another `estimator`."
        raise InputError(f"{type(model).__name__} has no `predict_proba`: a rule needs probabilities. {hint}")
    q = np.asarray(model.predict_proba(X), dtype=np.float64)
    if q.shape[1] < n_labels:
        known, q = q, np.zeros((len(q), n_labels))
        q[:, np.asarray(model.classes_, dtype=np.intp)] = known
    return q / q.sum(1, keepdims=True)  # single precision sums to one only within 1e-7


def _as_posteriors(X: Any, n_labels: int) -> Array:
    """Probabilities (n, K) from an array of them, or from one column for two labels."""
    q = as_floats(X, "X")
    if q.ndim == 2 and q.shape[1] == 1:
        q = q[:, 0]
    if q.ndim == 1 and n_labels == 2:
        q = np.stack([1.0 - q, q], axis=1)
    if q.ndim != 2 or q.shape[1] != n_labels:
        raise InputError(f"`X` must be probabilities, in {n_labels} columns, got shape {np.shape(X)}.")
    return check_posteriors(q, "X")


def _predictions(model: Any, X: Any) -> Array:
    """One finite number per row."""
    if hasattr(model, "predict_proba"):
        raise InputError(f"{type(model).__name__} is a classifier: a numeric outcome needs a regressor.")
    return quantity_column(np.ravel(model.predict(X)), "predictions")


@dataclass(frozen=True, eq=False)
class Base:
    """A fitted model, and what it says about a row: its scores.

    Args:
        model: a classifier, a `JointModel`, a regressor, or a trained method; None where the rows
            are the scores themselves.
        reads: "x", the rows; "xz", the rows and the group, of a classifier as one column per group
            in front of them; "joint", the rows, of which it says q(y, z | x); "value", the rows, of
            which it predicts a number.
        left_out: places of the columns of a matrix that the model does not see.
        method, trade_off: of a trained method, its file in `methods/` and its λ; "" for others.
        lane: of a trained method, which of its lanes.
    """

    model: Any
    reads: str = "x"
    left_out: tuple[int, ...] = ()
    method: str = ""
    trade_off: float = 0.0
    lane: int = 0

    def __post_init__(self) -> None:
        if self.reads not in READS:
            raise InputError(f"`reads` must be one of {', '.join(READS)}, got {self.reads!r}.")
        if not np.isfinite(self.trade_off) or min(self.lane, *self.left_out, 0) < 0:
            got = f"{self.trade_off}, {self.lane}, {self.left_out}"
            raise InputError(f"λ must be finite and places not negative, got {got}.")
        if self.method and (status := self.model.status[self.lane]) != "ok":
            raise InputError(f"{self.method} at λ = {self.trade_off} is {status!r}: it cannot predict.")

    @classmethod
    def from_lane(cls, method: str, trade_off: float, fitted: Fitted, lane: int = 0) -> Base:
        """One lane of a trained method, and no more than its own part of a stack of models."""
        reads = "xz"
        if isinstance(fitted, Stack):
            fitted, lane, reads = fitted[[lane]], 0, "xz" if fitted.n_groups else "x"
        return cls(fitted, reads, (), method, float(trade_off), lane)

    def check(self, labels: int) -> None:
        """Refuse, with a `ValueError`, a model that does not do what its file is for."""
        if self.method not in ("", *methods.names()):
            raise ValueError(f"there is no method {self.method!r}")
        asked = "posteriors" if self.method else READS[self.reads]
        classifier = hasattr(self.model, "predict_proba")
        if not callable(getattr(self.model, asked, None)) or (asked == "predict" and classifier):
            raise ValueError(f"a {type(self.model).__name__} is no model for {asked!r}")
        if asked == "predict_proba":
            classes = np.asarray(getattr(self.model, "classes_", ()))
            codes = classes.dtype.kind in "iub" and len(classes) > 0  # some may be unseen
            if len(classes) != labels and not (codes and {*classes.tolist()} <= {*range(labels)}):
                raise ValueError(f"its model was not fitted to the {labels} labels")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model reads by name; none of a matrix."""
        return tuple(map(str, getattr(self.model, "feature_names_in_", ())))

    def scores(self, rows: Any, z: NDArray[Any] | None, shape: tuple[int, int]) -> Array:
        """P(y | x) (n, labels), q(y, z | x) (n, labels, groups), or predicted numbers (n,).

        Args:
            rows: as the model takes them.
            z: codes of the groups, where it reads them.
            shape: how many labels and groups there are.
        """
        if self.method:
            return np.asarray(self.model.posteriors(rows, z)[self.lane], dtype=np.float64)
        if self.reads == "xz":
            assert z is not None
            rows = with_group(rows, z, shape[1])
        return scores_of(self.model, rows, self.reads, shape)


class JointModel(BaseEstimator):
    """q(y, z | x) from two classifiers.

    Args:
        label_model: a classifier with `predict_proba` for P(y | x, z); None for boosted trees.
        group_model: the same for P(z | x); None for the kind of `label_model`.

    Attributes:
        classes_, groups_: the labels and the groups, sorted.
        label_model_, group_model_: the fitted classifiers.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 500))
    >>> X = rng.normal(size=(500, 2)) + np.stack([2 * y, 3 * z], 1)
    >>> model = JointModel(LogisticRegression()).fit(X, y, z)
    >>> model.joint_proba([[2.0, 0.0], [0.0, 3.0]]).round(1).tolist()
    [[[0.1, 0.0], [0.9, 0.0]], [[0.0, 0.9], [0.0, 0.1]]]
    """

    def __init__(self, label_model: Any = None, group_model: Any = None) -> None:
        self.label_model = label_model
        self.group_model = group_model

    def fit(self, X: Any, y: NDArray[Any], z: NDArray[Any], sample_weight: Array | None = None) -> JointModel:
        """Fit both classifiers.

        Args:
            X: a matrix of numbers, or rows as both classifiers take them.
            y, z: labels and groups, one per row; codes 0, 1, … of the groups where cross-fitted.
            sample_weight: weight of each row.
        """
        y, z = np.asarray(y), np.asarray(z)
        self.classes_, self.groups_ = np.unique(y), np.unique(z)
        code = np.searchsorted(self.groups_, z)
        label_model = BoostedTrees() if self.label_model is None else self.label_model
        group_model = label_model if self.group_model is None else self.group_model
        self.group_model_ = fit_one(group_model, X, code, sample_weight)
        self.label_model_ = fit_one(label_model, self._with_group(X, code), y, sample_weight)
        return self

    def joint_proba(self, X: Any, shape: tuple[int, int] | None = None) -> Array:
        """q(y, z | x), array (n, labels, groups).

        Args:
            X: rows.
            shape: of all labels and groups; zero for those, fitted as codes, that it never saw.
        """
        check_is_fitted(self, "label_model_")
        known = len(self.groups_)
        labels, groups = shape or (len(self.classes_), known)
        of_z = posteriors(self.group_model_, X, known)
        joint = np.zeros((len(of_z), labels, groups))
        for g, place in enumerate(range(known) if known == groups else self.groups_):
            rows = self._with_group(X, np.full(len(of_z), g))
            joint[:, :, place] = posteriors(self.label_model_, rows, labels) * of_z[:, [g]]
        return joint

    def _with_group(self, X: Any, code: NDArray[np.intp]) -> Any:
        """Rows with one 0/1 column per group behind the others."""
        each = np.eye(len(self.groups_))[code]
        if issparse(X):
            return hstack([X, each], format="csr")
        frame = nw.from_native(X, pass_through=True, eager_only=True)
        if isinstance(frame, nw.DataFrame):
            named = {f"{_COLUMN}{g}": column for g, column in enumerate(each.T)}
            new = nw.from_dict(named, backend=frame.implementation)
            return nw.concat([frame, new], how="horizontal").to_native()
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.dtype.kind not in "fiub":
            got = f"got shape {rows.shape} of {rows.dtype}"
            raise InputError(f"Without the group at decision time `X` must be a matrix of numbers or a frame; {got}.")
        return np.hstack([rows, each.astype(rows.dtype if rows.dtype.kind == "f" else float)])


def as_rows(X: Any) -> Any:
    """Rows that can be taken by number: a CSR matrix, or an array.

    Text among numbers stays text, and numbers stay numbers.
    """
    if issparse(X):
        return X.tocsr()
    try:
        rows = np.asarray(X)
        mixed = rows.dtype.kind in "US" and rows.ndim == 2 and not isinstance(X, np.ndarray)
        return np.asarray(X, dtype=object) if mixed else rows
    except ValueError as error:  # rows of different lengths
        raise InputError(f"`X` is no table: {error}.") from error


def by_name(X: Any) -> bool:
    """Whether rows are a mapping of columns."""
    return isinstance(X, Mapping) and not issparse(X)  # one kind of sparse matrix is a mapping


def has_text(X: Any) -> bool:
    """Whether rows are columns by name, and not all of them numbers."""
    if by_name(X):
        return True
    frame = as_frame(X, "X")
    if not isinstance(frame, nw.DataFrame):
        return False
    return any(not (d.is_numeric() or d == nw.Boolean) for d in frame.schema.values())


def some_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """These rows of a matrix, a frame or columns by name."""
    if by_name(X):
        return {name: _safe_indexing(column, rows) for name, column in X.items()}
    return _safe_indexing(X, rows)


def without_columns(X: Any, places: Sequence[int]) -> Any:
    """The rows without the columns at these places, as the same kind of table."""
    if by_name(X):
        return {k: column for i, (k, column) in enumerate(X.items()) if i not in places}
    frame = as_frame(X, "X")
    table: Any = as_rows(X) if frame is None else X
    if frame is not None and not nw.dependencies.is_pandas_dataframe(X):
        names = frame.collect_schema().names()
        return frame.select([name for i, name in enumerate(names) if i not in places]).to_native()
    remaining = [i for i in range(table.shape[1]) if i not in places]
    return table[:, remaining] if frame is None else table.iloc[:, remaining]  # pandas' names may be no text


def with_group(rows: Any, z: NDArray[np.intp], count: int) -> NDArray[Any]:
    """A matrix with one 0/1 column per group in front."""
    return np.hstack([np.eye(count, dtype=np.float32)[z], np.asarray(rows)])


def holding_columns(X: Any, z: NDArray[np.intp], sensitive: Mapping[str, Any], named: Any = None) -> tuple[int, ...]:
    """The places of the columns of X that hold the group.

    Args:
        X: a matrix, a frame or columns by name.
        z: codes of the groups.
        sensitive: the sensitive columns by name, as they were passed.
        named: `sensitive_columns`, which hold the group whatever they say.

    >>> X = np.array([[0.3, 1, 5], [0.1, 0, 7], [0.2, 1, 5], [0.9, 0, 7]])
    >>> holding_columns(X, np.array([1, 0, 1, 0]), {})
    (1, 2)
    """
    names, columns = _columns(X)
    given = [] if named is None else listed_names(named)
    if names:
        given_names = {*sensitive, *map(str, given)}
        given_places = {i for i, name in enumerate(names) if name in given_names}
    else:
        given_places = {int(place) % len(columns) for place in given}
    raw = [_values(values) for values in sensitive.values()]
    first = np.unique(z, return_index=True)[1]
    place = np.searchsorted(z[first], z)
    return tuple(
        i for i, column in enumerate(columns) if i in given_places or _recodes(_values(column), raw, first, place)
    )


def _columns(X: Any) -> tuple[list[str], list[Any]]:
    """Names, none for a matrix, and columns; nothing for rows that are no table."""
    if by_name(X) or as_frame(X, "X") is not None:
        names = column_names(X, "X")
        return names, list(named_columns(X, names, "X").values())
    if issparse(X):
        by_column = X.tocsc()
        return [], [by_column[:, i].toarray().ravel() for i in range(X.shape[1])]
    rows = as_rows(X)
    return [], [] if rows.ndim != 2 else list(rows.T)


def _values(column: Any) -> NDArray[Any]:
    nested = isinstance(column, list) and any(isinstance(value, list | tuple) for value in column)
    return objects(column) if nested else as_array(column, "X")  # groups that are tuples stay whole


def _recodes(column: NDArray[Any], raw: Sequence[NDArray[Any]], first: NDArray[np.intp], place: NDArray[Any]) -> bool:
    """Whether a column is a sensitive one, or is decided by the group and tells groups apart."""
    one_each = column[first]  # the value in each group's first row
    if bool((one_each[place[:_FIRST]] == column[:_FIRST]).all()):
        recoded = any(one_each[0] != other for other in one_each[1:])
        return recoded and bool((one_each[place] == column).all())
    same = [codes for codes in raw if codes.shape == column.shape]
    return any(bool((codes[:_FIRST] == column[:_FIRST]).all()) and bool((codes == column).all()) for codes in same)


def listed_names(names: Any) -> list[Any]:
    """One name or several, as a list."""
    return list(names) if isinstance(names, list | tuple | np.ndarray) else [names]
