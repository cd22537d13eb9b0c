"""
In Lightning
============

A `LightningModule` with one logit per row. The loss is a submodule, so it moves with the model, and
`training_step` passes it the group and the last layer. The group of a third of the rows is unknown:
their code is −1, and they count for the task only.
"""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import separatrix as sx


class Hiring(lightning.LightningModule):
    def __init__(self, n_features: int, trade_off: float) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_features, 32), nn.ReLU())
        self.head = nn.Linear(32, 1)
        self.criterion = sx.nn.SeparationLoss(trade_off, n_labels=2, n_groups=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x)).squeeze(-1)

    def training_step(self, batch, _):
        x, y, z = batch
        loss = self.criterion(self(x), y, z, head=self.head)
        self.log("task", self.criterion.last.task)
        self.log("violation", self.criterion.last.cmi)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


# %%
# The embedded Adult data, the group among the features.

adult = sx.datasets.load("adult")
y, z = torch.tensor(adult.y), torch.tensor(adult.z)
X = torch.cat([nn.functional.one_hot(z), torch.tensor(adult.X)], dim=1)
order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
train, test = order[:-6_000], order[-6_000:]
known = z.clone()
known[order[::3]] = -1

# %%
# Without the penalty, and with it: audited on rows that did not train.

audits = {}
for trade_off in (0.0, 0.3):
    lightning.seed_everything(0, verbose=False)
    model = Hiring(X.shape[1], trade_off)
    rows = TensorDataset(X[train], y[train], known[train])
    trainer = lightning.Trainer(
        max_epochs=4,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(rows, batch_size=512, shuffle=True))
    with torch.no_grad():
        chance = model(X[test]).sigmoid().numpy()
    audits[trade_off] = audit = sx.audit(y[test].numpy(), chance > 0.5, sensitive_features=z[test].numpy())
    print(f"λ = {trade_off}: accuracy {audit.accuracy:.3f}, EO gap {audit.eo_gap:.3f}")
