"""SeparationLoss: Algorithm 1 written naively, in every setting in which people train."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest

import separatrix as sx
from separatrix.errors import InputError

torch = pytest.importorskip("torch")
nn = torch.nn


def data(n=64, d=5, ny=2, nz=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    y, z = torch.randint(0, ny, (n,), generator=g), torch.randint(0, nz, (n,), generator=g)
    x = torch.randn(n, d, generator=g) + y[:, None] + 0.7 * z[:, None]
    return x, y, z


def network(d=5, ny=2, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU()), nn.Linear(8, ny)


def naive_algorithm_1(body, head, x, y, z, trade_off, eps=1e-8):
    """Two calls of autograd for the norms, CMI as a loop over cells: line by line from the
    paper.
    """
    h = body(x)
    logits = head(h)
    task = nn.functional.cross_entropy(logits, y)
    p = torch.softmax(logits, -1)
    cmi = torch.zeros(())
    for label in y.unique():
        rows = y == label
        mean = p[rows].mean(0)
        for group in z[rows].unique():
            cell = rows & (z == group)
            here = p[cell].mean(0)
            cmi = cmi + cell.float().mean() * (here * (here / mean).log()).sum()
    n_task = torch.autograd.grad(task, h, retain_graph=True)[0].norm(dim=1).mean()
    n_cmi = torch.autograd.grad(cmi, h, retain_graph=True)[0].norm(dim=1).mean()
    return (1 - trade_off) * task / (n_task + eps) + trade_off * cmi / (n_cmi + eps)


def gradients(body, head, loss):
    parameters = [*body.parameters(), *head.parameters()]
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])


@pytest.mark.parametrize("way", ["head", "features"])
@pytest.mark.parametrize("trade_off", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("ny", "nz"), [(2, 2), (4, 3)])
def test_update_equals_algorithm_1(way, trade_off, ny, nz):
    x, y, z = data(ny=ny, nz=nz, n=200)
    body, head = network(ny=ny)
    expected = gradients(body, head, naive_algorithm_1(body, head, x, y, z, trade_off))
    criterion = sx.nn.SeparationLoss(trade_off, ny, nz)
    h = body(x)
    ours = gradients(body, head, criterion(head(h), y, z, **({"head": head} if way == "head" else {"features": h})))
    assert (ours - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.slow
def test_both_ways_to_the_norms_give_the_same_update():
    x, y, z = data()
    body, head = network()
    updated = []
    for way in ("head", "features"):
        b, last = copy.deepcopy(body), copy.deepcopy(head)
        criterion = sx.nn.SeparationLoss(0.4, 2, 3)
        optimiser = torch.optim.SGD([*b.parameters(), *last.parameters()], lr=1e-3)
        for _ in range(5):
            h = b(x)
            optimiser.zero_grad()
            criterion(last(h), y, z, **({"head": last} if way == "head" else {"features": h})).backward()
            optimiser.step()
        updated.append(nn.utils.parameters_to_vector([*b.parameters(), *last.parameters()]))
    torch.testing.assert_close(*updated, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [1.0, 300.0])  # at 300 posteriors are rounded to 0 and 1
def test_the_path_of_two_labels_gives_what_the_general_one_does(size):
    """Weights of one take the general path; value, parts and update are the same."""
    body, head = network()
    x, y, z = data()
    seen = []
    for weight in (None, torch.ones(len(y))):
        criterion = sx.nn.SeparationLoss(0.4, 2, 3)
        loss = criterion(size * head(body(x)), y, z, head=head, sample_weight=weight)
        seen.append((loss.item(), criterion.last, gradients(body, head, 2.0 * loss)))
    (loss, last, update), (same_loss, same_last, same_update) = seen
    assert loss == pytest.approx(same_loss, rel=1e-5)
    assert last == pytest.approx(same_last, rel=1e-4)
    torch.testing.assert_close(update, same_update, rtol=1e-4, atol=1e-5 * float(update.abs().max()))


def test_without_normalisation_it_is_the_plain_sum():
    x, y, z = data()
    body, head = network()
    logits = head(body(x))
    expected = 0.7 * nn.functional.cross_entropy(logits, y) + 0.3 * sx.nn.soft_cmi(logits, y, z, 2, 3)
    criterion = sx.nn.SeparationLoss(0.3, 2, 3, normalise=False)
    ours = criterion(logits, y, z)
    torch.testing.assert_close(ours, expected)
    parameters = [*body.parameters(), *head.parameters()]
    for a, b in zip(
        torch.autograd.grad(ours, parameters, retain_graph=True), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)
    assert criterion.last.task == pytest.approx(nn.functional.cross_entropy(logits, y).item(), rel=1e-6)
    assert criterion.last.cmi == pytest.approx(sx.nn.soft_cmi(logits, y, z, 2, 3).item(), rel=1e-5)


@pytest.mark.slow
def test_mi_utility_raises_the_information():
    x, y, z = data(n=400)
    body, head = network()
    criterion = sx.nn.SeparationLoss(0.0, 2, 3, utility="mi")
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-2)
    before = sx.nn.soft_mi(head(body(x)), y).item()
    for _ in range(60):
        h = body(x)
        optimiser.zero_grad()
        criterion(head(h), y, z, head=head).backward()
        optimiser.step()
    assert sx.nn.soft_mi(head(body(x)), y).item() > before + 0.1
    assert criterion.last.task < 0


def test_sample_weight_is_repetition():
    x, y, z = data(n=30)
    times = torch.randint(1, 4, (30,), generator=torch.Generator().manual_seed(1))
    again = torch.repeat_interleave(torch.arange(30), times)
    body, head = network()
    criterion = sx.nn.SeparationLoss(0.4, 2, 3)
    h = body(x)
    weighted = gradients(body, head, criterion(head(h), y, z, head=head, sample_weight=times.float()))
    h = body(x[again])
    repeated = gradients(body, head, criterion(head(h), y[again], z[again], features=h))
    torch.testing.assert_close(weighted, repeated, rtol=1e-4, atol=1e-4 * repeated.abs().max().item())


@pytest.mark.slow
def test_running_counts_estimate_the_population_gradient():
    """With batches of 8 and 6 cells the running table is closer to the large sample's table than a
    batch is.
    """
    x, y, z = data(n=8 * 400)
    body, head = network()
    head.weight.data *= 10
    whole = sx.nn.soft_cmi(head(body(x)), y, z, 2, 3).item()
    errors = {}
    for running in (0.0, 0.95):
        criterion = sx.nn.SeparationLoss(0.5, 2, 3, running=running)
        seen = []
        for rows in torch.arange(len(y)).split(8):
            criterion(head(body(x[rows])), y[rows], z[rows], head=head)
            seen.append(criterion.last.cmi)
        errors[running] = abs(torch.tensor(seen[50:]).mean().item() - whole)
    assert errors[0.95] < 0.3 * errors[0.0]


def test_running_counts_stay_put_in_eval_mode_and_travel_in_the_state():
    x, y, z = data()
    body, head = network()
    criterion = sx.nn.SeparationLoss(0.5, 2, 3, running=0.9)
    criterion(head(body(x)), y, z, head=head)
    assert criterion.counts.sum().item() == pytest.approx(len(y))
    state = criterion.state_dict()
    criterion.eval()
    criterion(head(body(x)), y, z, head=head)
    assert torch.equal(criterion.counts, state["counts"])
    again = sx.nn.SeparationLoss(0.5, 2, 3, running=0.9)
    again.load_state_dict(state)
    assert torch.equal(again.counts, criterion.counts)


def test_absent_labels_and_groups():
    x, y, z = data(n=6)
    body, head = network()
    criterion = sx.nn.SeparationLoss(0.5, 2, 3)
    loss = criterion(head(body(x)), torch.zeros_like(y), torch.full_like(z, 2), head=head)
    assert gradients(body, head, loss).isfinite().all()
    assert criterion.last.cmi == 0


def test_mixed_precision():
    x, y, z = data(n=512)
    body, head = network()
    full = gradients(body, head, sx.nn.SeparationLoss(0.4, 2, 3)(head(body(x)), y, z, head=head))
    for way in ("head", "features"):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = body(x)
            logits = head(h)
            assert logits.dtype == torch.bfloat16
            loss = sx.nn.SeparationLoss(0.4, 2, 3)(
                logits, y, z, **({"head": head} if way == "head" else {"features": h})
            )
        assert loss.dtype == torch.float32
        half = gradients(body, head, loss)
        assert torch.nn.functional.cosine_similarity(half, full, dim=0) > 0.99


def test_gradient_accumulation_adds_the_parts():
    x, y, z = data(n=64)
    body, head = network()
    criterion = sx.nn.SeparationLoss(0.4, 2, 3)
    parts = sum(
        gradients(body, head, criterion(head(body(x[rows])), y[rows], z[rows], head=head) / 4)
        for rows in torch.arange(64).split(16)
    )
    for p in (*body.parameters(), *head.parameters()):
        p.grad = None
    for rows in torch.arange(64).split(16):
        (criterion(head(body(x[rows])), y[rows], z[rows], head=head) / 4).backward()
    accumulated = torch.cat([p.grad.flatten() for p in (*body.parameters(), *head.parameters())])
    torch.testing.assert_close(accumulated, parts)


@pytest.mark.parametrize("way", ["head", "features"])
@pytest.mark.parametrize("ny", [2, 3])
def test_score_level_is_cross_entropy_plus_the_binned_violation(way, ny):
    """Both normalised as in Algorithm 1, with norms by autograd."""
    x, y, z = data(ny=ny, n=200)
    body, head = network(ny=ny)
    h = body(x)
    logits = head(h)
    task = nn.functional.cross_entropy(logits, y)
    cmi = sx.nn.binned_cmi(logits, y, z, 5, None, ny, 3)
    norms = [torch.autograd.grad(term, h, retain_graph=True)[0].norm(dim=1).mean() for term in (task, cmi)]
    expected = gradients(body, head, 0.6 * task / norms[0] + 0.4 * cmi / norms[1])
    criterion = sx.nn.SeparationLoss(0.4, ny, 3, level="score", bins=5, running=0.0)
    h = body(x)
    loss = criterion(head(h), y, z, **({"head": head} if way == "head" else {"features": h}))
    assert criterion.last.cmi == pytest.approx(cmi.item(), rel=1e-5)
    ours = gradients(body, head, loss)
    assert (ours - expected).norm() <= 1e-4 * expected.norm()


def test_score_level_keeps_centres_and_counts_in_its_state():
    x, y, z = data()
    body, head = network()
    criterion = sx.nn.SeparationLoss(0.5, 2, 3, level="score")
    assert (criterion.bins, criterion.running) == (16, 0.9)
    for _ in range(2):
        criterion(head(body(x)), y, z, head=head)
    assert criterion.counts.sum().item() == pytest.approx(1.9 * len(y))
    state = {name: value.clone() for name, value in criterion.state_dict().items()}
    criterion.eval()
    criterion(head(body(x + 1)), y, z, head=head)
    again = sx.nn.SeparationLoss(0.5, 2, 3, level="score")
    again.load_state_dict(state)
    assert torch.equal(again.centres, criterion.centres)
    assert torch.equal(again.counts, criterion.counts)


@pytest.mark.parametrize("level", ["draw", "score"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_unknown_group_count_for_the_task_only(level, weighted):
    _, y, z = data(n=120)
    hidden = torch.where(torch.arange(120) % 3 == 0, -1, z)
    seen = hidden >= 0
    weight = torch.rand(120, generator=torch.Generator().manual_seed(0)) if weighted else None
    logits = torch.randn(120, 2, generator=torch.Generator().manual_seed(1), requires_grad=True)
    criterion = sx.nn.SeparationLoss(0.3, 2, 3, normalise=False, level=level, running=0.0, bins=4)
    ours = criterion(logits, y, hidden, sample_weight=weight)
    ce = nn.functional.cross_entropy(logits, y, reduction="none")
    task = ce.mean() if weight is None else (ce * weight).sum() / weight.sum()
    rows = (logits[seen], y[seen], hidden[seen])
    w = None if weight is None else weight[seen]
    if level == "draw":
        penalty = sx.nn.soft_cmi(*rows, 2, 3, w)
    else:
        penalty = sx.nn.binned_cmi(*rows, 4, None, 2, 3, w)
    expected = 0.7 * task + 0.3 * penalty
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
    a, b = (torch.autograd.grad(loss, logits)[0] for loss in (ours, expected))
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("way", ["head", "features"])
@pytest.mark.parametrize("flat", [False, True])
def test_one_logit_is_two_logits_whose_first_is_zero(way, flat):
    x, y, z = data(n=100)
    body, one = network(ny=1)
    two = nn.Linear(8, 2)
    with torch.no_grad():
        two.weight.copy_(torch.cat([torch.zeros_like(one.weight), one.weight]))
        two.bias.copy_(torch.cat([torch.zeros_like(one.bias), one.bias]))
    found = []
    for head in (one, two):
        h = body(x)
        logits = head(h).squeeze(1) if flat and head is one else head(h)
        how = {"head": head} if way == "head" else {"features": h}
        loss = sx.nn.SeparationLoss(0.4, 2, 3)(logits, y, z, **how)
        found.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, body.parameters())]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("level", ["draw", "score"])
@pytest.mark.filterwarnings("ignore")  # the compiler warns about itself
def test_torch_compile(level):
    """One graph, forwards and backwards; what torch makes of the graph is its own affair."""
    x, y, z = data(n=64)
    body, head = network()
    criterion = sx.nn.SeparationLoss(0.4, 2, 3, running=0.5, level=level)
    other = copy.deepcopy(criterion)
    compiled = torch.compile(
        lambda logits, y, z: criterion(logits, y, z, head=head), fullgraph=True, backend="aot_eager"
    )
    for rows in (slice(0, 32), slice(32, 64)):
        ours = gradients(body, head, compiled(head(body(x[rows])), y[rows], z[rows]))
        eager = gradients(body, head, other(head(body(x[rows])), y[rows], z[rows], head=head))
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(criterion.counts, other.counts, rtol=1e-5, atol=1e-4)


@pytest.mark.nightly
def test_two_processes_equal_one_on_the_joined_batch(tmp_path):
    """Also with unequal batches per rank; the naive way, penalties averaged over ranks, does
    not.
    """
    script = Path(__file__).with_name("two_ranks.py")
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    runs = [
        subprocess.Popen([sys.executable, str(script), str(rank), str(tmp_path)], env=environment) for rank in range(2)
    ]
    assert [run.wait(timeout=120) for run in runs] == [0, 0]
    result = torch.load(tmp_path / "result.pt", weights_only=True)
    torch.testing.assert_close(result["ranks"], result["joined"], rtol=0, atol=1e-6)
    torch.testing.assert_close(result["many ranks"], result["joined"], rtol=0, atol=1e-6)
    assert (result["averaged"] - result["joined"]).abs().max() > 1e-4
    torch.testing.assert_close(result["score ranks"], result["score joined"], rtol=0, atol=1e-5)
    assert (result["score joined"] - result["joined"]).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("build", "call", "message"),
    [
        ({"trade_off": 1.5}, {}, r"λ in \[0, 1\], got 1.5"),
        ({"utility": "auc"}, {}, r"'ce' or 'mi', got 'auc'"),
        ({"level": "label"}, {}, r"'draw' or 'score', got 'label'"),
        ({"level": "score", "bins": 1}, {}, r"`bins` must be a whole number from 2 on"),
        ({"level": "score", "utility": "mi"}, {}, r'utility="mi" is that of a draw'),
        ({"running": 1.0}, {}, r"decay in \[0, 1\), got 1.0"),
        ({"n_labels": 1}, {}, r"`n_labels` must be a whole number from 2 on, got 1"),
        ({}, {}, r"Pass `head=`"),
        ({}, {"head": nn.Linear(8, 5)}, r"`head` must have 2 outputs, got 5"),
        ({}, {"features": torch.zeros(4, 8)}, r"`features`: pass the tensor, with gradient"),
        ({}, {"features": torch.zeros(4, 8, requires_grad=True)}, r"not computed from `features`"),
        ({"n_labels": 3}, {"head": nn.Linear(8, 3)}, r"shape \(B, 3\), got \(4, 2\)"),
    ],
)
def test_errors(build, call, message):
    with pytest.raises(InputError, match=message):
        sx.nn.SeparationLoss(**{"trade_off": 0.5, "n_labels": 2, "n_groups": 2} | build)(
            torch.zeros(4, 2, requires_grad=True), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1]), **call
        )
