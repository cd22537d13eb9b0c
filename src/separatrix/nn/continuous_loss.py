r"""The separation penalty for a numeric outcome or a numeric attribute, for any PyTorch loop.

.. math:: L = L_{\mathrm{task}} + β\, I(K; Z \mid B)

K is the soft bin of the output cleared of Y, B a band of the outcome, and v with its gradient the
closed form of `core.conditional_cmi`, computed in float64 on the CPU. A small batch has too few
rows for the cells, and its penalty is mostly noise. Train on the full batch, or keep a `memory`:
v is then that of the batch and the last rows before it. Their outputs are constants; the gradient
of the batch's rows is scaled to stand for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from separatrix.core.binned_cmi import spread_out
from separatrix.core.conditional_cmi import ConditionalCMI, attribute_bins
from separatrix.core.numbers import one_of
from separatrix.errors import InputError
from separatrix.nn.information import attach

_SENSITIVE = ("groups", "continuous")


def continuous_cmi(output: Tensor, y: Tensor, z: Tensor, *, sensitive: str = "groups", bins: int = 8) -> Tensor:
    """Separation violation of a numeric output given the outcome, in soft bins.

    Differentiable once with respect to the output, for fixed centres of the bins. It does not
    change when the output is shifted or scaled.

    Args:
        output: (B,) or (B, 1).
        y: outcomes (B,), numbers or codes of labels.
        z: (B,), codes of groups from 0, or numbers for ``sensitive="continuous"``.
        sensitive: "groups" or "continuous"; numbers are counted in eight bins of equal mass.
        bins: soft bins of the output.

    Returns:
        A scalar, in nats.

    >>> _ = torch.manual_seed(0)
    >>> y, z = torch.randn(4000), torch.randint(0, 2, (4000,))
    >>> u = (y + torch.randn(4000) + z).requires_grad_()
    >>> v = continuous_cmi(u, y, z)
    >>> v.backward()
    >>> round(v.item(), 2), bool((u.grad * (2 * z - 1)).sum() > 0)      # the groups are apart
    (0.12, True)
    """
    column = _column(output, "output")
    outcome, codes = _numbers(y, len(column), "y"), _codes(z, len(column), sensitive)
    return _penalty(column, _array(column), outcome, codes, bins)


class ContinuousSeparationLoss(nn.Module):
    r"""Task loss plus β times the violation of the output, for a numeric outcome or attribute.

    The task is :math:`\mathrm{E}(Y - U)^2 / \mathrm{Var}(Y)`, that is 1 − R², for
    ``target="continuous"``, and the cross-entropy of a logit for ``target="labels"`` (two labels,
    0 and 1). `SeparationLoss` is for labels and groups.

    Args:
        penalty: β ≥ 0. May change between steps; a training that starts at 0 and raises it slowly
            (a warm start) ends better than one with the final β from the first step.
        target: "continuous" or "labels".
        sensitive: "groups" or "continuous".
        memory: how many earlier rows count beside those of the batch; 0 for full batches.
        bins: soft bins of the output.

    >>> _ = torch.manual_seed(0)
    >>> X, z = torch.randn(512, 3), torch.randint(0, 2, (512,))
    >>> y, model = X[:, 0] + z, nn.Linear(3, 1)
    >>> criterion = ContinuousSeparationLoss(1.0)
    >>> criterion(model(X), y, z).backward()
    >>> criterion.last["violation"] > 0
    True
    """

    history: Tensor

    def __init__(
        self, penalty: float, target: str = "continuous", sensitive: str = "groups", memory: int = 0, bins: int = 8
    ) -> None:
        super().__init__()
        if not 0.0 <= penalty < np.inf:
            raise InputError(f"`penalty` is β, finite and not negative, got {penalty}.")
        one_of(target, "target", "continuous", "labels")
        one_of(sensitive, "sensitive", *_SENSITIVE)
        if target == "labels" and sensitive == "groups":
            raise InputError("For labels and groups use `SeparationLoss`.")
        if memory < 0 or bins < 2:
            raise InputError(f"`memory` must be 0 or more rows and `bins` at least 2, got {memory} and {bins}.")
        self.penalty, self.target, self.sensitive, self.memory, self.bins = penalty, target, sensitive, memory, bins
        self.last: dict[str, float] | None = None
        self.register_buffer("history", torch.zeros(0, 3, dtype=torch.float64))

    def forward(self, output: Tensor, y: Tensor, z: Tensor) -> Tensor:
        """The loss of one batch.

        Args:
            output: the prediction, or for labels the logit of label 1, (B,) or (B, 1).
            y: outcomes (B,).
            z: groups or numbers (B,).
        """
        column = _column(output, "output")
        n = len(column)
        outcome = _numbers(y, n, "y")
        task = self._task(column, y.detach().to(column).reshape(-1))
        batch = np.column_stack([_array(column), outcome, _numbers(z, n, "z")])
        if self.sensitive == "groups":
            _codes(z, n, "groups")
        rows = np.concatenate([batch, self.history.cpu().numpy()])
        numbers = self.sensitive == "continuous"
        codes = attribute_bins(rows[:, 2]) if numbers else rows[:, 2].astype(np.intp)
        v = _penalty(column, rows[:, 0], rows[:, 1], codes, self.bins)
        if self.memory and self.training:
            self.history = torch.from_numpy(rows[: self.memory].copy()).to(self.history.device)
        self.last = {"task": float(task.detach()), "violation": float(v.detach())}
        return task + self.penalty * v

    def _task(self, column: Tensor, y: Tensor) -> Tensor:
        if self.target == "labels":
            if bool(((y != 0) & (y != 1)).any()):
                raise InputError("`y` must hold the labels 0 and 1.")
            return nn.functional.binary_cross_entropy_with_logits(column, y)
        spread = y.var(correction=0)
        return nn.functional.mse_loss(column, y) / torch.where(spread > 0, spread, 1.0)

    def extra_repr(self) -> str:
        names = ("penalty", "target", "sensitive", "memory", "bins")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


def _penalty(column: Tensor, u: NDArray[Any], y: NDArray[Any], codes: NDArray[np.intp], bins: int) -> Tensor:
    """v of rows of which the first are those of the column, and its gradient there."""
    cmi = ConditionalCMI.from_outcome(y, codes, int(codes.max()) + 1, bins=bins)
    centres = cmi.centres(u, bins)
    v, slope = cmi(u, centres[spread_out(centres)])
    slope = slope[: len(column)] * (len(u) / len(column))
    gradient = torch.from_numpy(slope).to(column.dtype).to(column.device)
    return attach(column[None, :, None], column.new_full((1,), v), gradient[None, :, None]).squeeze(0)


def _column(x: Tensor, name: str) -> Tensor:
    if x.ndim == 2 and x.shape[1] == 1:
        x = x[:, 0]
    if x.ndim != 1 or not len(x):
        raise InputError(f"`{name}` must have shape (B,) or (B, 1), got {tuple(x.shape)}.")
    return x


def _array(x: Tensor) -> NDArray[np.float64]:
    return np.asarray(x.detach().double().cpu().numpy())


def _numbers(x: Tensor, n: int, name: str) -> NDArray[np.float64]:
    numbers = _array(_column(x, name))
    if len(numbers) != n or not np.isfinite(numbers).all():
        raise InputError(f"`{name}` must be {n} finite numbers, got {len(numbers)} values.")
    return numbers


def _codes(z: Tensor, n: int, sensitive: str) -> NDArray[np.intp]:
    one_of(sensitive, "sensitive", *_SENSITIVE)
    numbers = _numbers(z, n, "z")
    if sensitive == "continuous":
        return attribute_bins(numbers)
    if z.dtype.is_floating_point or numbers.min() < 0:
        raise InputError('`z` must hold integer codes from 0; for numbers such as age pass sensitive="continuous".')
    return numbers.astype(np.intp)
