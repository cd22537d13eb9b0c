"""The soft-binned violation in torch: counting, derivatives, limits, lanes, running centres."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import separatrix as sx
from separatrix.core.binned_cmi import centres as core_centres
from separatrix.core.binned_cmi import cmi_of_scores
from separatrix.errors import InputError

torch = pytest.importorskip("torch")

from separatrix.nn import binned  # noqa: E402
from separatrix.nn.binned import penalty_term, quantiles  # noqa: E402
from separatrix.nn.information import Ranks  # noqa: E402

FLOOR = 5e-6  # a cell below a millionth of the rows is read as a millionth, in v as well


@st.composite
def batches(draw: st.DrawFn):
    """Logits of two labels, labels, groups, sizes, weights; a label or group may be absent."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    b, nz = draw(st.integers(2, 60)), draw(st.integers(1, 4))
    logits = torch.tensor(rng.normal(0, draw(st.sampled_from([0.01, 1.0, 8.0])), (b, 2))).clamp(-9, 9)
    if draw(st.booleans()):
        logits = logits.round(decimals=1) * torch.tensor([0, 1])  # ties, exact ones
    y, z = torch.tensor(rng.integers(0, 2, b)), torch.tensor(rng.integers(0, nz, b))
    weight = torch.tensor(rng.gamma(1.0, 1.0, b)) if draw(st.booleans()) else None
    return logits, y, z, nz + draw(st.integers(0, 1)), weight


def people(rows: int = 40, labels: int = 2, groups: int = 2, seed: int = 0):
    g = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, labels, generator=g, dtype=torch.float64)
    y = torch.randint(0, labels, (rows,), generator=g)
    return logits, y, torch.randint(0, groups, (rows,), generator=g)


def counted(score, y, z, groups, at, weight=None) -> float:
    """v of the table in which each row is spread over all hats, written out in full."""
    hats = np.stack([np.interp(score, at, one) for one in np.eye(len(at))], axis=1)
    table = np.zeros((2, groups, len(at)))
    np.add.at(table, (y, z), hats if weight is None else hats * weight[:, None])
    return float(sx.theory.conditional_mutual_information(table))


@pytest.mark.slow
@given(batches(), st.integers(2, 9))
def test_value_equals_counting_and_the_numpy_room(batch, bins):
    logits, y, z, nz, weight = batch
    score, w = torch.softmax(logits, 1)[:, 1].numpy(), None if weight is None else weight.numpy()
    leaf = logits.clone().requires_grad_()
    value = sx.nn.binned_cmi(leaf, y, z, bins, None, 2, nz, weight)
    at = core_centres(score, bins, w)
    room = cmi_of_scores(score, (y * nz + z).numpy(), (2, nz), at, w)
    assert value.item() == pytest.approx(room.value, abs=FLOOR)
    with pytest.MonkeyPatch.context() as patch:  # the numpy room takes the floor off v
        patch.setattr(binned, "EMPTY", 1e-15)
        same = sx.nn.binned_cmi(logits, y, z, bins, None, 2, nz, weight)
    assert same.item() == pytest.approx(room.value, abs=1e-10)
    if len(at) > 1:
        assert value.item() == pytest.approx(counted(score, y.numpy(), z.numpy(), nz, at, w), abs=FLOOR)
    if len(at) == bins and np.diff(at).min() > 1e-9:  # with ties the two sides of a kink differ
        value.backward()
        expected = room.gradient * score * (1 - score)
        inside = ~np.isin(score, at)  # at a centre there are two slopes
        np.testing.assert_allclose(leaf.grad[inside, 1], expected[inside], atol=1e-10)
        np.testing.assert_allclose(leaf.grad[:, 0], -leaf.grad[:, 1], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [2, 3])
def test_gradient_equals_finite_differences(labels):
    logits, y, z = people(16, labels, 3, seed=3)
    at = torch.tensor([0.0, 0.13, 0.41, 0.77, 1.0], dtype=torch.float64)
    weight = torch.rand(16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: sx.nn.binned_cmi(x, y, z, centres=at, sample_weight=weight), (logits.requires_grad_(),)
    )


def test_two_centres_at_the_ends_are_the_draw():
    """K = 2 and centres 0 and 1: U is a draw from the posterior, and v the paper's."""
    logits, y, z = people(seed=5)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    a = sx.nn.binned_cmi(ours, y, z, centres=torch.tensor([0.0, 1.0]))
    b = sx.nn.soft_cmi(theirs, y, z)
    (a + b).backward()
    assert a.item() == pytest.approx(b.item(), abs=1e-12)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@given(batches(), st.integers(2, 9))
def test_data_processing_and_refinement(batch, bins):
    """A soft bin is a random function of the score; a hat is a mixture of the narrower ones."""
    logits, y, z, nz, weight = batch
    score = torch.softmax(logits, 1)[:, 1]
    at = score.unique()
    if len(at) < 2:
        return
    few = torch.cat([at[:1], at[1:-1][:: max(len(at) // bins, 1)], at[-1:]])
    coarse, fine = (sx.nn.binned_cmi(logits, y, z, None, c, 2, nz, weight).item() for c in (few, at))
    assert -1e-12 <= coarse <= fine + FLOOR
    assert fine == pytest.approx(  # scores on the centres: their own plug-in violation
        counted(score.numpy(), y.numpy(), z.numpy(), nz, at.numpy(), None if weight is None else weight.numpy()),
        abs=FLOOR,
    )


@pytest.mark.slow
@given(st.integers(0, 1000))
@settings(max_examples=20)
def test_an_increasing_map_changes_v_within_the_bins_only(seed):
    """Exactly nothing where every score has a bin; little where sixty rows share one."""
    logits, y, z = people(1_000, seed=seed)
    logits[:, 1] += 0.8 * z * (2 * y - 1)
    logits[:, 0] = 0
    mapped = logits.clone()
    mapped[:, 1] = logits[:, 1] ** 3 / 4 + logits[:, 1] - 1
    for bins, allowed in ((1_000, 1e-9), (16, 6e-3)):
        a, b = (sx.nn.binned_cmi(x, y, z, bins).item() for x in (logits, mapped))
        assert a == pytest.approx(b, abs=allowed)


@pytest.mark.slow
@given(batches())
@settings(max_examples=40)
def test_finite_at_empty_cells_and_saturated_logits(batch):
    logits, y, z, nz, weight = batch
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        leaf = (100 * logits).to(dtype).requires_grad_()
        v = sx.nn.binned_cmi(leaf, y, z, 6, None, 2, nz, weight)
        v.backward()
        assert v.item() >= -1e-9
        assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_lanes_do_not_mix(labels, weighted):
    g = torch.Generator().manual_seed(5)
    logits = torch.randn(4, 60, labels, generator=g, requires_grad=True)
    y, z = (torch.randint(0, k, (4, 60), generator=g) for k in (labels, 5))
    weight = torch.rand(4, 60, generator=g) if weighted else None
    together = sx.nn.binned_cmi(logits, y, z, 7, None, labels, 5, weight)
    together.sum().backward()
    for m in range(4):
        alone = logits[m].detach().requires_grad_()
        w = None if weight is None else weight[m]
        value = sx.nn.binned_cmi(alone, y[m], z[m], 7, None, labels, 5, w)
        value.backward()
        torch.testing.assert_close(together[m], value, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(logits.grad[m], alone.grad, rtol=1e-4, atol=1e-7)


def test_more_labels_have_the_mean_of_their_scores():
    logits, y, z = people(80, 3, 2, seed=9)
    p = torch.softmax(logits, 1)
    parts = [cmi_of_scores(s, (y * 2 + z).numpy(), (3, 2), core_centres(s, 5)).value for s in p.T.contiguous().numpy()]
    assert sx.nn.binned_cmi(logits, y, z, 5).item() == pytest.approx(np.mean(parts), abs=1e-10)


def test_weights_are_repeated_rows():
    logits, y, z = people(seed=6)
    times = torch.randint(0, 4, (40,), generator=torch.Generator().manual_seed(2))
    again = torch.repeat_interleave(torch.arange(40), times)
    weighted = sx.nn.binned_cmi(logits, y, z, 6, None, 2, 2, times.double())
    assert abs(weighted - sx.nn.binned_cmi(logits[again], y[again], z[again], 6)) < 1e-12


def test_running_centres_come_to_rest_at_the_quantiles():
    """The centre of a decay of 0.9 has the error of about twenty batches, not of one."""
    g, memory = torch.Generator().manual_seed(0), {}
    errors = []
    for _ in range(200):
        score = torch.rand(1, 256, generator=g)
        p = torch.stack([1 - score, score], 1)
        cell = torch.zeros(1, 256, dtype=torch.long)
        penalty_term(p, cell, (5, 1, 1), None, 0.9, memory)
        found = torch.stack([memory["centres"][0], quantiles(score, 5)[0]])
        errors.append(found[:, 1:-1] - torch.tensor([0.25, 0.5, 0.75]))
    running, alone = torch.stack(errors[20:]).square().mean((0, 2)).sqrt()
    assert running < 0.4 * alone
    # counts: a tenth of the history is forgotten with every batch, and bins keep their shares
    assert memory["counts"].sum().item() == pytest.approx(2560, rel=1e-3)
    shares = memory["counts"].sum((0, 2, 3)) / memory["counts"].sum()
    expected = torch.tensor([1, 2, 2, 2, 1.0]).double() / 8
    torch.testing.assert_close(shares, expected, atol=0.02, rtol=0)


def test_a_second_rank_with_the_same_rows_changes_nothing():
    logits, y, z = people(50, 3, 2)
    p, cell = torch.softmax(logits, 1).T[None], (y * 2 + z)[None]
    one, alone = penalty_term(p, cell, (4, 3, 2), None, 0.0, {})
    ranks = Ranks(lambda t: t.mul_(2), lambda t: torch.cat([t, torch.zeros(6, 3), t], 1))
    two, both = penalty_term(p, cell, (4, 3, 2), None, 0.0, {}, ranks)
    assert alone[0].sum().item() == pytest.approx(50)
    torch.testing.assert_close(both, 2 * alone)
    torch.testing.assert_close(two.value, one.value)
    torch.testing.assert_close(two.rows, one.rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bins": 1}, r"`bins` must be a whole number from 2 on, got 1"),
        ({"centres": torch.tensor([0.5, 0.1])}, r"`centres` must be two or more rising scores"),
        ({"z": torch.tensor([0, 3])}, r"`z` holds the code 3"),
    ],
)
def test_errors_name_the_value(change, message):
    arguments = {"y": torch.tensor([0, 1]), "z": torch.tensor([0, 1]), "n_groups": 2} | change
    with pytest.raises(InputError, match=message):
        sx.nn.binned_cmi(torch.zeros(2, 2), **arguments)
