"""
In the Hugging Face Trainer
===========================

`compute_loss` takes the groups out of the batch and passes them to the loss with the model's last
layer. The model is a small BERT with three labels and random weights. The sentences are made up;
their fourth token reveals the group. A quarter of the groups is unknown: their code is −1, and
those rows count for the task only.
"""

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import separatrix as sx


class SeparationTrainer(Trainer):
    def __init__(self, *args, criterion: sx.nn.SeparationLoss, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.criterion = criterion.to(self.args.device)
        self.model_accepts_loss_kwargs = False  # our loss is a mean: accumulation divides it

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        groups = inputs.pop("groups")
        outputs = model(**inputs)
        head = self.model.classifier
        loss = self.criterion(outputs.logits, inputs["labels"], groups, head=head)
        return (loss, outputs) if return_outputs else loss


# %%
# Sentences of eight tokens: the first three speak of the label, the fourth of the group.

rng = np.random.default_rng(0)
n, n_labels, n_groups = 6_000, 3, 2
group = rng.integers(0, n_groups, n)
label = np.array([rng.choice(3, p=[[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]][z]) for z in group])
tokens = rng.integers(10, 40, (n, 8))
told = rng.random((n, 3)) < 0.3
tokens[:, :3] = np.where(told, label[:, None], tokens[:, :3])
tokens[:, 3] = 3 + group
groups = np.where(rng.random(n) < 0.25, -1, group)
rows = [
    {"input_ids": torch.tensor(t), "labels": int(y), "groups": int(z)}
    for t, y, z in zip(tokens, label, groups, strict=True)
]
train, test = rows[:4_000], rows[4_000:]

# %%
# Without the penalty, and with it: audited on rows that did not train.

audits = {}
for trade_off in (0.0, 0.5):
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=40,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=8,
            num_labels=n_labels,
        )
    )
    trainer = SeparationTrainer(
        model,
        TrainingArguments(
            output_dir="trainer",
            num_train_epochs=6,
            per_device_train_batch_size=256,
            per_device_eval_batch_size=512,
            learning_rate=5e-3,
            remove_unused_columns=False,  # else the groups are dropped before the loss sees them
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=train,
        criterion=sx.nn.SeparationLoss(trade_off, n_labels=n_labels, n_groups=n_groups),
    )
    trainer.train()
    decisions = trainer.predict(test).predictions.argmax(1)
    audits[trade_off] = audit = sx.audit(label[4_000:], decisions, sensitive_features=group[4_000:])
    print(f"λ = {trade_off}: accuracy {audit.accuracy:.3f}, EO gap {audit.eo_gap:.3f}")
