"""The methods, one file each: the folder is the registry.

A file `methods/x.py` declares ``METHOD = Method(...)``, in one of two ways:

- `loss`: a loss per lane, trained by `nn.stack` (with an `adversary` if it has a discriminator);
- `fit`: anything else, ``fit(sample, lanes, options) -> Fitted``.

`names()` reads the folder without importing: a missing extra breaks only methods that need it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from numpy.typing import ArrayLike, NDArray

from separatrix.core.numbers import not_negative, one_of
from separatrix.errors import InputError, MissingExtraError
from separatrix.nn.lanes import Lane, Options, Recipe, Sample
from separatrix.nn.networks import Networks

if TYPE_CHECKING:
    from separatrix.nn.batch import Adversary, Loss

__all__ = [
    "PAPER",
    "POLICIES",
    "TUNED",
    "Fitted",
    "Lane",
    "Method",
    "Options",
    "Recipe",
    "Sample",
    "Stack",
    "Style",
    "fit",
    "get",
    "names",
    "style",
]


POLICIES = ("randomized", "deterministic")  # draw the label from the posterior, or take the best
PAPER = Recipe()  # Adam 1e-3, batches of 512, 20 epochs (60 on COMPAS: at least 540 updates)
TUNED = Recipe(learning_rate=3e-3, cosine=True, running=0.9)  # docs/evidence/results.md


class Style(NamedTuple):
    """The look of a method in tables and figures."""

    label: str
    colour: str


class Fitted(Protocol):
    """A method trained on every lane: M policies that share their inputs.

    `status` says "ok" or "diverged" per lane. A diverged lane's posteriors are NaN.
    """

    @property
    def status(self) -> tuple[str, ...]: ...

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """P(U = u | x, z) of each lane, array (M, n, K); z are group codes."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `Method.restore`."""
        ...


@runtime_checkable
class Stack(Fitted, Protocol):
    """A fitted method whose lanes are models of their own: a lane can be taken out.

    `n_groups` is 0 where its models see X alone.
    """

    @property
    def n_groups(self) -> int: ...

    def __getitem__(self, lanes: list[int]) -> Stack: ...


@dataclass(frozen=True)
class Method:
    """One way to trade utility for separation.

    Args:
        label: its name in tables and figures.
        colour: its colour in figures.
        reference: the publication.
        trade_offs: the grid of λ that `trace` and `benchmark` use, on the method's own scale.
        multiclass: whether it takes more than two labels; more than two groups each one does.
        loss: loss(batch, trade_off) → (M,), where it is trained as a stack of networks.
        adversary: the discriminators of an adversarial method.
        recipes: how the networks are trained, by name; "default" is always there.
        grids: the grid of a recipe that has its own.
        dataset_grids: the paper's grid for a dataset that it gives another.
        fit: fit(sample, lanes, options) → Fitted, where it is not a loss.
        restore: the inverse of `Fitted.arrays`.
        levels: those of `Recipe.level` that it knows.
        strict: the strict end of the grid: "high" λ (a penalty) or "low" (an allowed violation).
        standardise: whether estimators scale the columns of X first; trees take them as they are.
    """

    label: str
    colour: str
    reference: str
    trade_offs: tuple[float, ...]
    multiclass: bool = True
    loss: Loss | None = None
    adversary: Adversary | None = None
    recipes: Mapping[str, Recipe] = field(default_factory=lambda: {"default": TUNED, "paper": PAPER})
    grids: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    dataset_grids: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    fit: Callable[[Sample, Sequence[Lane], Options], Fitted] | None = None
    restore: Callable[[Mapping[str, NDArray[Any]]], Fitted] = Networks.restore
    levels: tuple[str, ...] = ("draw",)
    strict: str = "high"
    standardise: bool = True

    def __post_init__(self) -> None:
        if (self.loss is None) == (self.fit is None):
            raise InputError(f"The method {self.label!r} must declare either `loss` or `fit`.")
        one_of(self.strict, "strict", "high", "low")

    def grid(self, recipe: str = "default", dataset: str | None = None) -> tuple[float, ...]:
        """The trade-offs of a recipe, or the paper's own for one of its datasets.

        >>> get("adversarial").grid()[:2], get("adversarial").grid(dataset="compas")[:2]
        ((0.1, 0.3162), (0.0, 0.1))
        """
        return self.dataset_grids.get(dataset or "", self.grids.get(recipe, self.trade_offs))


def names() -> list[str]:
    """The methods in the folder, in alphabetical order; nothing is imported.

    >>> "cmi" in names()
    True
    """
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def style(name: str) -> Style:
    """Label and colour, read from the method's file without importing torch or fairlearn.

    >>> style("cmi")
    Style(label='CMI', colour='#0072b2')
    """
    declared = _declared(name)
    return Style(*(ast.literal_eval(declared[field_name]) for field_name in Style._fields))


def strict_end(name: str) -> str:
    """`Method.strict`, read from the method's file without importing it.

    >>> strict_end("cmi"), strict_end("exponentiated_gradient")
    ('high', 'low')
    """
    declared = _declared(name)
    return str(ast.literal_eval(declared["strict"])) if "strict" in declared else "high"


@cache
def _declared(name: str) -> dict[str | None, ast.expr]:
    """The arguments of `Method` in a method's file, by name."""
    _check_name(name)
    source = files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")
    (call,) = (
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and [getattr(to, "id", "") for to in node.targets] == ["METHOD"]
    )
    assert isinstance(call, ast.Call)
    return {keyword.arg: keyword.value for keyword in call.keywords}


def get(name: str) -> Method:
    """The method in the file `methods/<name>.py`."""
    _check_name(name)
    try:
        method = import_module(f"separatrix.methods.{name}").METHOD
    except ModuleNotFoundError as error:
        extra = {"torch": "torch", "fairlearn": "fairlearn", "lightgbm": "boosting"}.get(error.name or "")
        if extra is None:
            raise
        install = f"pip install 'separatrix[{extra}]'"
        raise MissingExtraError(f"The method {name!r} needs {error.name}: {install}.") from error
    except OSError as error:  # LightGBM without the system's OpenMP: libgomp1 of Debian
        raise MissingExtraError(f"The method {name!r} needs a library of the system: {error}.") from error
    assert isinstance(method, Method)
    return method


def _check_name(name: str) -> None:
    if name not in names():
        raise InputError(f"There is no method {name!r}. The methods are {', '.join(names())}.")


def fit(
    name: str,
    sample: Sample,
    lanes: Sequence[Lane],
    *,
    recipe: str | Recipe = "default",
    use_sensitive: bool = True,
    device: str = "cpu",
    n_jobs: int = 1,
    progress: bool = False,
) -> Fitted:
    """Train one method on every lane: the whole (λ × fold × seed) grid is one call.

    Args:
        name: a method, see `names`.
        sample: the rows; each lane says which of them train it.
        lanes: the networks to train.
        recipe: the name of one of the method's recipes, or a `Recipe`.
        use_sensitive: input [Z|X] (True) or X alone.
        device, n_jobs, progress: see `Options`.

    Returns:
        Its policies, in the order of the lanes.
    """
    method = get(name)
    if not lanes:
        raise InputError("`lanes` is empty: pass at least one `Lane(trade_off)`.")
    if sample.n_labels > 2 and not method.multiclass:
        raise InputError(f"The method {name!r} takes two labels; this sample has {sample.n_labels}.")
    for lane in lanes:
        not_negative(lane.trade_off, "trade_off")
    if isinstance(recipe, str) and recipe not in method.recipes:
        raise InputError(f"{name!r} has no recipe {recipe!r}; it has {', '.join(method.recipes)}.")
    chosen = method.recipes[recipe] if isinstance(recipe, str) else recipe
    if chosen.level not in method.levels:
        levels = " or ".join(map(repr, method.levels))
        raise InputError(f"{name!r} has no penalty on the {chosen.level}; pass level={levels}, or the method 'cmi'.")
    options = Options(chosen, use_sensitive, device, n_jobs, progress)
    if method.fit is not None:
        return method.fit(sample, lanes, options)
    from separatrix.nn.stack import train

    assert method.loss is not None
    return train(sample, lanes, options, method.loss, method.adversary)


def __dir__() -> list[str]:
    return __all__
