"""The stack: every lane ends where it would have ended alone, whatever way its batches are made."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from separatrix.errors import InputError
from separatrix.nn.lanes import Lane, Options, Recipe, Sample

torch = pytest.importorskip("torch")

from separatrix.methods.cmi import loss as cmi_loss  # noqa: E402
from separatrix.nn import rows  # noqa: E402
from separatrix.nn.information import attach  # noqa: E402
from separatrix.nn.rows import Feed, distinct_rows  # noqa: E402
from separatrix.nn.stack import chunks, train  # noqa: E402

RECIPE = Recipe(hidden=(16, 8), epochs=3, min_steps=0, batch=64, learning_rate=1e-3)


def people(n=700, d=6, seed=0, binned=False, n_labels=2, n_groups=3) -> Sample:
    rng = np.random.default_rng(seed)
    z = rng.integers(0, n_groups, n)
    y = (rng.random(n) < 0.3 + 0.15 * z).astype(int) if n_labels == 2 else rng.integers(0, n_labels, n)
    X = rng.normal(size=(n, d)) + y[:, None] + 0.5 * z[:, None]
    return Sample((X > 1).astype(float)[:, :3] if binned else X, y, z)


def grid(n=700) -> list[Lane]:
    folds = np.array_split(np.random.default_rng(1).permutation(n), 3)
    rows = [np.sort(np.concatenate([f for f in folds if f is not fold])) for fold in folds]
    return [Lane(t, r, s) for r in rows for s in (0, 7) for t in (0.0, 0.1, 0.3)]


def alone(sample: Sample, lane: Lane, recipe: Recipe, use_sensitive: bool = True) -> np.ndarray:
    """One network in plain PyTorch: nn.Linear, autograd, torch.optim.Adam, Algorithm 1 by
    SeparationLoss.
    """
    from separatrix.nn import SeparationLoss

    blind = sample.n_groups if use_sensitive else 0
    X = torch.tensor(sample.X)
    if blind:
        X = torch.cat([torch.nn.functional.one_hot(torch.tensor(sample.z), blind).float(), X], 1)
    y, z = torch.tensor(sample.y), torch.tensor(sample.z)
    widths = (X.shape[1], *recipe.hidden, sample.n_labels)
    generator = torch.Generator().manual_seed(lane.seed)
    modules = []
    for a, b in pairwise(widths):
        layer = torch.nn.Linear(a, b)
        last = b == sample.n_labels and len(modules) == 2 * len(recipe.hidden)
        draw = torch.rand((b, a) if last else (a, b), generator=generator) * 2 - 1
        layer.weight.data = (draw if last else draw.T) / a**0.5
        layer.bias.data = (torch.rand(b, generator=generator) * 2 - 1) / a**0.5
        modules += [layer, torch.nn.ReLU()]
    modules[0].weight.data[:, :blind] = 0
    body, head = torch.nn.Sequential(*modules[:-2]), modules[-2]
    criterion = SeparationLoss(lane.trade_off, sample.n_labels, sample.n_groups, running=recipe.running)
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], recipe.learning_rate)
    random = np.random.default_rng([lane.seed, 1])
    rows = np.arange(len(sample)) if lane.rows is None else lane.rows
    steps = -(-len(rows) // recipe.batch)
    for epoch in range(recipe.epochs):
        for step, batch in enumerate(torch.tensor(random.permutation(rows)).split(recipe.batch)):
            if recipe.cosine:
                progress = (epoch + step / steps) / recipe.epochs
                optimiser.param_groups[0]["lr"] = recipe.learning_rate * 0.5 * (1 + np.cos(np.pi * progress))
            optimiser.zero_grad()
            criterion(head(body(X[batch])), y[batch], z[batch], head=head).backward()
            optimiser.step()
    with torch.no_grad():
        return torch.softmax(head(body(X)), 1).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("binned", [False, True])
@pytest.mark.parametrize("change", [{}, {"cosine": True, "running": 0.9}])
def test_each_lane_equals_the_same_network_trained_alone_in_plain_pytorch(binned, change):
    sample, recipe = people(binned=binned), replace(RECIPE, **change)
    lanes = grid()
    networks = train(sample, lanes, Options(recipe), cmi_loss)
    q = networks.posteriors(sample.X, sample.z)
    assert networks.status == ("ok",) * len(lanes)
    for lane, posterior in list(zip(lanes, q, strict=True))[::4]:
        np.testing.assert_allclose(posterior, alone(sample, lane, recipe), atol=1e-5)


def test_lanes_of_different_lengths_run_side_by_side():
    """65 and 66 rows are two steps, the second padded; 64 rows are one step and another chunk."""
    sample = people(200)
    lanes = [Lane(0.1, np.arange(65)), Lane(0.1, np.arange(64)), Lane(0.1, np.arange(66))]
    together = train(sample, lanes, Options(RECIPE), cmi_loss).posteriors(sample.X, sample.z)
    assert chunks(lanes, 200, 64) == [[0, 2], [1]]
    for lane, posterior in zip(lanes, together, strict=True):
        np.testing.assert_allclose(posterior, alone(sample, lane, RECIPE), atol=1e-5)


def train_apart(*arguments):
    """`train` with equal rows kept apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "distinct_rows", lambda *_, **__: None)
        return train(*arguments)


@pytest.mark.parametrize("use_sensitive", [True, False])
def test_merged_rows_give_the_same_network(use_sensitive):
    sample = people(binned=True)
    options = Options(RECIPE, use_sensitive=use_sensitive)
    lanes = grid()[:4]
    assert Feed(sample, lanes, options, merge=True).merged is not None
    q = [trained(sample, lanes, options, cmi_loss).posteriors(sample.X, sample.z) for trained in (train, train_apart)]
    np.testing.assert_allclose(*q, atol=1e-5)


def test_exact_batches_are_full_batches():
    sample = people(binned=True)
    recipe = replace(RECIPE, exact=True)
    lane = Lane(0.2, np.arange(0, 700, 2))
    exact = train(sample, [lane], Options(recipe), cmi_loss).posteriors(sample.X, sample.z)
    steps = 3 * -(-350 // 64)
    recipe = replace(RECIPE, batch=None, epochs=steps)
    full = train_apart(sample, [lane], Options(recipe), cmi_loss)
    np.testing.assert_allclose(exact, full.posteriors(sample.X, sample.z), atol=1e-5)


def test_distinct_rows_are_exact():
    sample = people(binned=True)
    inputs, place, y, z, code = distinct_rows(sample, True, 1_000)
    assert np.array_equal(sample.X[inputs][place][code], sample.X)
    assert np.array_equal(y[code], sample.y)
    assert np.array_equal(z[code], sample.z)
    assert len(y) == len(np.unique(np.column_stack([sample.X, sample.z, sample.y]), axis=0))
    assert distinct_rows(sample, True, 3) is None
    assert distinct_rows(people(), True, 100) is None


def test_a_lane_that_diverges_does_not_touch_the_others():
    def exploding(batch, trade_off):
        factor = torch.where(trade_off > 0.5, float("nan"), 1.0).to(batch.logits.dtype)
        value = cmi_loss(batch, trade_off)
        return value * factor

    sample = people()
    networks = train(sample, [Lane(0.1), Lane(0.9), Lane(0.3)], Options(RECIPE), exploding)
    assert networks.status == ("ok", "diverged", "ok")
    healthy = train(sample, [Lane(0.1), Lane(0.3)], Options(RECIPE), cmi_loss)
    q = networks.posteriors(sample.X, sample.z)
    assert np.isnan(q[1]).all()
    np.testing.assert_allclose(q[[0, 2]], healthy.posteriors(sample.X, sample.z), atol=1e-5)


def test_losses_that_use_features_and_draws():
    """∂L/∂features reaches the body, for gathered and for merged rows alike."""

    def of_features(batch, trade_off):
        weight = torch.ones_like(batch.y) if batch.weight is None else batch.weight
        target = batch.features.detach() * 0 + 1.0
        return ((batch.features - target) ** 2 * weight.unsqueeze(-1)).sum((1, 2)) / weight.sum(1)

    sample = people(binned=True)
    results = [
        trained(sample, [Lane(0.1), Lane(0.2)], Options(RECIPE), of_features) for trained in (train, train_apart)
    ]
    for a, b in zip(results[0].weights, results[1].weights, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert results[0].losses[0, -1] < 0.9 * results[0].losses[0, 0]

    def counts(batch, trade_off):
        assert batch.cells.sum().item() == pytest.approx(2 * 700)
        return attach(batch.logits, 0.0 * trade_off, torch.zeros_like(batch.logits))

    train_apart(sample, [Lane(0.1), Lane(0.2)], Options(RECIPE), counts)


def test_processes_give_the_same_bits():
    sample, lanes = people(), grid()
    one = train(sample, lanes, Options(RECIPE), cmi_loss)
    two = train(sample, lanes, Options(RECIPE, n_jobs=2), cmi_loss)
    for a, b in zip((*one.weights, *one.biases, one.losses), (*two.weights, *two.biases, two.losses), strict=True):
        assert np.array_equal(a, b)


def test_memory_mapped_features(tmp_path, monkeypatch):
    monkeypatch.setattr("separatrix.nn.rows._IN_MEMORY", 0)
    sample = people()
    np.save(tmp_path / "X.npy", sample.X)
    mapped = Sample(np.load(tmp_path / "X.npy", mmap_mode="r"), sample.y, sample.z)
    assert isinstance(mapped.X, np.memmap)
    a = train(mapped, grid()[:4], Options(RECIPE), cmi_loss)
    monkeypatch.undo()
    b = train_apart(sample, grid()[:4], Options(RECIPE), cmi_loss)
    np.testing.assert_allclose(a.posteriors(mapped.X, mapped.z), b.posteriors(sample.X, sample.z), atol=1e-6)


def test_sample_weights_are_repetition():
    sample = people(200)
    times = np.random.default_rng(0).integers(1, 4, 200)
    again = np.repeat(np.arange(200), times)
    recipe = replace(RECIPE, batch=None, epochs=10)
    weighted = Sample(sample.X, sample.y, sample.z, weight=times)
    repeated = Sample(sample.X[again], sample.y[again], sample.z[again])
    q = [train(s, [Lane(0.2)], Options(recipe), cmi_loss).posteriors(sample.X, sample.z) for s in (weighted, repeated)]
    np.testing.assert_allclose(*q, atol=1e-4)  # Adam's ε sees the scale of the weights


@pytest.mark.slow
def test_early_stopping_keeps_the_best_weights_of_each_lane():
    rng = np.random.default_rng(0)
    noise = Sample(rng.normal(size=(300, 20)), rng.integers(0, 2, 300), rng.integers(0, 2, 300))
    recipe = replace(RECIPE, epochs=200, learning_rate=1e-2, hidden=(32, 32))
    lanes = [Lane(0.0), Lane(0.2), Lane(0.5)]
    stopped = train(noise, lanes, Options(replace(recipe, patience=3)), cmi_loss)
    assert np.isnan(stopped.losses[:, 50:]).all()  # labels that are noise cannot be learnt for long
    fresh = Sample(rng.normal(size=(300, 20)), rng.integers(0, 2, 300), rng.integers(0, 2, 300))
    full = train(noise, lanes, Options(recipe), cmi_loss)

    def surprise(networks):
        q = networks.posteriors(fresh.X, fresh.z)
        return -np.log(q[:, np.arange(300), fresh.y] + 1e-12).mean(1)

    assert (surprise(stopped) < 0.8).all()
    assert (surprise(full)[:2] > 2).all()
    alone = train(noise, lanes[1:2], Options(replace(recipe, patience=3)), cmi_loss)
    np.testing.assert_allclose(
        alone.posteriors(fresh.X, fresh.z)[0], stopped.posteriors(fresh.X, fresh.z)[1], atol=1e-4
    )


def test_small_data_gets_its_least_number_of_updates():
    networks = train(people(100), [Lane(0.1)], Options(replace(RECIPE, min_steps=50)), cmi_loss)
    assert networks.losses.shape == (1, 25)


def test_chunks_depend_on_the_lanes_alone():
    lanes = grid()
    parts = chunks(lanes, 700, 64)
    assert sorted(i for part in parts for i in part) == list(range(len(lanes)))
    eleven = [Lane(t, np.arange(5), 0) for t in range(11)]
    assert chunks(eleven, 5, 64) == [list(range(11))]
    assert [len(part) for part in chunks([Lane(0, seed=s) for s in range(48)], 5, 64)] == [24, 24]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sample([[np.nan]], [0], [0]), r"`X` holds a value in row 0 that is not finite"),
        (lambda: Sample([1.0], [0], [0]), r"`X` must have one row per person"),
        (lambda: Sample([[1.0]], [0.5], [0]), r"`y` must be one column of integer codes"),
        (lambda: Sample([[1.0]], [3], [0], n_labels=2), r"`y` holds the code 3, outside 0 … 1"),
        (lambda: Sample([[1.0]], [0], [0, 1]), r"same number of rows"),
        (lambda: Recipe(batch=1), r"`batch` must be a whole number from 2 on"),
        (lambda: Recipe(hidden=()), r"at least one positive width"),
        (lambda: Recipe(learning_rate=0), r"`learning_rate` must be positive"),
        (lambda: train(people(50), [Lane(0.1, np.array([], int))], Options(RECIPE), cmi_loss), r"no training rows"),
    ],
)
def test_errors_name_the_value(make, message):
    with pytest.raises(InputError, match=message):
        make()
