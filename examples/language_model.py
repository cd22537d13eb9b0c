"""
A language model of 20,000 words
================================

A next-word head trained with `SeparationLoss` on made-up text. Two kinds of speakers use different
grammar and words, so a prediction reveals who speaks beyond what the next word does. A batch has
about one row per word and speaker, too few to measure a violation. So the loss conditions on the
class of the word (`label_groups`) and keeps running counts. The output is from unseen text.
"""

import time

import numpy as np
import torch
from torch import nn

import separatrix as sx

VOCABULARY, CLASSES, GROUPS, WIDTH, BATCH = 20_000, 10, 2, 32, 256
WORD_CLASS = np.arange(VOCABULARY) % CLASSES  # the coarser label: noun, verb, …
GRAMMARS = np.random.default_rng(0).dirichlet(np.full(CLASSES, 0.2), (GROUPS, CLASSES))


def made_text(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A word (rows,), the word that follows, and the kind of speaker."""
    rng = np.random.default_rng(seed)
    per_class = VOCABULARY // CLASSES // GROUPS
    frequency = 1.0 / np.arange(1, per_class + 1) ** 1.5

    def word(classes: np.ndarray) -> np.ndarray:
        rank = rng.choice(per_class, rows, p=frequency / frequency.sum())
        # words come in pairs, one for each kind of speaker; one time in four the other one is used
        own = np.where(rng.random(rows) < 0.75, speaker, 1 - speaker)
        return (GROUPS * rank + own) * CLASSES + classes

    speaker = rng.integers(0, GROUPS, rows)
    before = rng.integers(0, CLASSES, rows)
    grammar = GRAMMARS[speaker, before].cumsum(1)[:, :-1]
    after = (rng.random((rows, 1)) > grammar).sum(1)
    return torch.tensor(word(before)), torch.tensor(word(after)), torch.tensor(speaker)


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(words))


def train(trade_off: float, steps: int = 150) -> LanguageModel:
    """A model for one λ; 0 is plain cross-entropy."""
    torch.manual_seed(0)
    model = LanguageModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = sx.nn.SeparationLoss(trade_off, VOCABULARY, GROUPS, label_groups=WORD_CLASS, running=0.9)
    words, y, z = made_text(steps * BATCH, seed=1)
    for batch in torch.arange(len(y)).split(BATCH):
        optimizer.zero_grad()
        criterion(model(words[batch]), y[batch], z[batch], head=model.head).backward()
        optimizer.step()
    return model


@torch.no_grad()
def measure(model: LanguageModel) -> tuple[float, float]:
    """On unseen text: v = I(U; Z | word class), and the cross-entropy."""
    words, y, z = made_text(2_000, seed=2)
    logits = model(words)
    v = sx.nn.soft_cmi(logits, torch.tensor(WORD_CLASS)[y], z)
    return v.item(), nn.functional.cross_entropy(logits, y).item()


# %%
# Without the penalty, and with it.

for trade_off in (0.0, 0.3):
    start = time.process_time()
    v, cross_entropy = measure(train(trade_off))
    print(
        f"λ = {trade_off}: v = {v:.4f} nats, cross-entropy {cross_entropy:.3f}, "
        f"{time.process_time() - start:.0f} s of CPU"
    )
