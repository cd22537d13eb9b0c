"""Many labels: the cells that occur give what the full table gives, and a vocabulary fits."""

from __future__ import annotations

import resource

import pytest

import separatrix as sx
from separatrix.errors import InputError

torch = pytest.importorskip("torch")
nn = torch.nn
from separatrix.nn import information, separation_loss  # noqa: E402

LABELS, GROUPS, ROWS = 130, 3, 400


def rows(seed=0, labels=LABELS, n=ROWS):
    g = torch.Generator().manual_seed(seed)
    y, z = torch.randint(0, labels, (n,), generator=g), torch.randint(0, GROUPS, (n,), generator=g)
    h = torch.randn(n, 8, generator=g) + 0.3 * z[:, None]
    return h.requires_grad_(), y, z


@pytest.fixture
def full_table(monkeypatch):
    """A switch: from here on the full table is counted, whatever the number of labels."""

    def switch():
        for module in (information, separation_loss):
            monkeypatch.setattr(module, "MANY", 10**9)

    return switch


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("scale", [1.0, 200.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("measure", ["cmi", "mi"])
def test_the_cells_that_occur_give_the_value_of_the_full_table(dtype, scale, weighted, measure, full_table):
    g = torch.Generator().manual_seed(1)
    logits = scale * torch.randn(2, ROWS, LABELS, generator=g, dtype=dtype)
    _, y, z = rows()
    weight = torch.rand(ROWS, generator=g).mul(2).sub(0.5).clamp_min(0) if weighted else None
    found = []
    for switch in (lambda: None, full_table):
        switch()
        leaf = logits.clone().requires_grad_()
        if measure == "cmi":
            v = sx.nn.soft_cmi(leaf, y, z, sample_weight=weight)
        else:
            v = sx.nn.soft_mi(leaf, y, sample_weight=weight)
        v.sum().backward()
        found.append((v.detach(), leaf.grad))
    tolerance = 1e-13 if dtype == torch.float64 else 1e-6
    assert found[0][0].min() > 0.01
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("way", ["head", "features"])
@pytest.mark.parametrize("running", [0.0, 0.7])
@pytest.mark.parametrize("more", ["nothing", "weights", "unknown groups", "label groups"])
def test_the_step_is_that_of_the_full_table(way, running, more, full_table):
    """Three steps, so that running counts have a history: losses, logs and gradients agree."""
    torch.manual_seed(0)
    head = nn.Linear(8, LABELS)
    coarse = torch.arange(LABELS) // 10 if more == "label groups" else None
    found = []
    for switch in (lambda: None, full_table):
        switch()
        criterion = sx.nn.SeparationLoss(0.4, LABELS, GROUPS, running=running, label_groups=coarse)
        for seed in range(3):
            h, y, z = rows(seed)
            weight = None
            if more == "weights":
                weight = torch.rand(ROWS, generator=torch.Generator().manual_seed(seed))
            if more == "unknown groups":
                z = torch.where(torch.arange(ROWS) % 4 == 0, -1, z)
            how = {"head": head} if way == "head" else {"features": h}
            loss = criterion(head(h), y, z, sample_weight=weight, **how)
            gradients = torch.autograd.grad(loss, (h, head.weight, head.bias))
            found.append((torch.tensor(criterion.last), loss.detach(), *gradients))
    for ours, theirs in zip(found[:3], found[3:], strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6 * b.abs().max().item())


def test_a_label_of_one_group_adds_nothing():
    _, y, z = rows()
    single = y == 7
    z = torch.where(single, 0, z)
    logits = torch.randn(ROWS, LABELS, generator=torch.Generator().manual_seed(0))
    changed = torch.where(single[:, None], 3.0 * logits.roll(1, 1), logits)
    assert single.any()
    assert sx.nn.soft_cmi(changed, y, z) == sx.nn.soft_cmi(logits, y, z)


def test_a_vanishing_violation_is_not_lost_in_float32():
    g = torch.Generator().manual_seed(8)
    logits = 1e-4 * torch.randn(4096, LABELS, generator=g)
    y, z = torch.randint(0, 2, (4096,), generator=g), torch.randint(0, 2, (4096,), generator=g)
    exact = sx.nn.soft_cmi(logits.double(), y, z).item()
    assert 0 < exact < 1e-9
    assert sx.nn.soft_cmi(logits, y, z).item() == pytest.approx(exact, rel=1e-2)


@pytest.mark.slow
def test_a_vocabulary_fits():
    """The full table of these would have 30 billion numbers."""
    labels = 100_000
    h, y, z = rows(labels=labels)
    y[:40] = 5  # one frequent label
    head = nn.Linear(8, labels)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    criterion = sx.nn.SeparationLoss(0.3, labels, GROUPS)
    assert not list(criterion.buffers())
    criterion(head(h), y, z, head=head).backward()
    assert criterion.last.cmi > 0
    assert h.grad.isfinite().all()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert used * 1024 < 8 * 4 * ROWS * labels


def test_running_counts_are_of_the_cells_that_occurred():
    head = nn.Linear(8, LABELS)
    criterion = sx.nn.SeparationLoss(0.4, LABELS, GROUPS, running=0.5)
    for seed in range(40):
        h, y, z = rows(seed, n=20)
        criterion(head(h), y, z, head=head)
    assert criterion.counts.shape == (len(criterion.cells), LABELS)
    # 0.5 to the tenth is a thousandth of a row: what is older is forgotten
    assert len(criterion.cells) <= 20 * 10
    assert criterion.counts.sum().item() == pytest.approx(40, rel=0.01)
    again = sx.nn.SeparationLoss(0.4, LABELS, GROUPS, running=0.5)
    again.load_state_dict(criterion.state_dict())
    assert torch.equal(again.counts, criterion.counts)
    criterion.eval()
    criterion(head(h), y, z, head=head)
    assert torch.equal(again.counts, criterion.counts)


def test_backward_twice_gives_the_same_gradient():
    h, y, z = rows()
    head = nn.Linear(8, LABELS)
    loss = sx.nn.SeparationLoss(0.4, LABELS, GROUPS)(head(h), y, z, head=head)
    first = torch.autograd.grad(loss, h, retain_graph=True)[0].clone()
    assert torch.equal(torch.autograd.grad(loss, h, retain_graph=True)[0], first)
    torch.testing.assert_close(torch.autograd.grad(3 * loss, h)[0], 3 * first)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ({"label_groups": [0, 1]}, r"one code per label, shape \(130,\), got \(2,\)"),
        ({"label_groups": [-1] * LABELS}, r"`label_groups` holds the code -1"),
        ({"label_groups": [0.5] * LABELS}, r"must hold integer codes, got torch.float32"),
        ({"label_groups": [0] * LABELS, "utility": "mi"}, r'pass utility="ce"'),
        ({"n_labels": 50_000, "utility": "mi"}, r'50,000 labels .* utility="ce"'),
        ({"n_labels": 50_000, "level": "score"}, r'50,000 labels .* Pass level="draw"'),
    ],
)
def test_errors(build, message):
    with pytest.raises(InputError, match=message):
        sx.nn.SeparationLoss(**{"trade_off": 0.5, "n_labels": LABELS, "n_groups": 2} | build)


def test_running_counts_too_large_for_memory_are_refused(monkeypatch):
    monkeypatch.setattr("separatrix.nn.many_labels._MOST", 1000)
    h, y, z = rows()
    head = nn.Linear(8, LABELS)
    criterion = sx.nn.SeparationLoss(0.4, LABELS, GROUPS, running=0.5)
    with pytest.raises(InputError, match="label_groups="):
        criterion(head(h), y, z, head=head)
