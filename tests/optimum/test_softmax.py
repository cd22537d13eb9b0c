"""The path of softmax channels where its linear programme gives trouble; what it reaches is tested
with the limit.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from separatrix.optimum import softmax


def posteriors(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 3, n), rng.integers(0, 2, n)
    return (
        rng.dirichlet(np.ones(3), n) * 0.5 + 0.5 * np.eye(3)[(y + (rng.random(n) < 0.2 * z)) % 3],
        y,
        z,
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (1, r"groups took longer than 20 s: the channel"),
        (4, r"groups failed, Solve error: the channel"),
    ],
)
def test_a_linear_programme_without_an_answer_says_so_and_leaves_a_constant(
    monkeypatch: pytest.MonkeyPatch, status: int, reason: str
) -> None:
    answer = SimpleNamespace(x=None, status=status, message="Solve error")
    monkeypatch.setattr(softmax, "linprog", lambda *_, **__: answer)
    p, y, z = posteriors(2000)
    with pytest.warns(UserWarning, match=reason):
        path = softmax.softmax_path(p, y, z, betas=(0.0, 1.0, float("inf")))
    assert path.violation[-1] == pytest.approx(0.0, abs=1e-12)
    assert path.utility[-1] == pytest.approx(0.0, abs=1e-12)
    assert path.utility[0] > path.utility[1] > 0.1  # the rest of the path does not need it


def test_cells_of_a_few_rows_and_saturated_posteriors_are_separated_exactly() -> None:
    """Rates of 1e-12 beside 1 made the solver stop without an answer."""
    p, y, z = posteriors(150)
    p = p**30 / (p**30).sum(1, keepdims=True)
    path = softmax.softmax_path(p, y, z, betas=(float("inf"),))
    assert path.violation[0] < 1e-6
