"""The Lightning and Hugging Face examples run where these are installed, and do what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# a process of its own: transformers would take our folder tests/datasets for its package
RUN = """
import json, runpy, sys
plain, penalised = runpy.run_path(sys.argv[1])["audits"].values()
labels = penalised.table.counts.sum((1, 2))
print(json.dumps({"plain": [plain.eo_gap, *plain.eo_gap_interval], "penalised": penalised.eo_gap,
                  "accuracy": penalised.accuracy, "constant": labels.max() / labels.sum()}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "needs"),
    [("lightning_module", ["torch", "lightning"]), ("hugging_face_trainer", ["torch", "transformers", "accelerate"])],
)
def test_the_penalty_lowers_the_gap_of_rows_that_did_not_train(name, needs, tmp_path):
    """And the decisions stay better than the most frequent label for everybody."""
    for package in needs:
        pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(EXAMPLES / f"{name}.py")], cwd=tmp_path, check=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"}, stdout=subprocess.PIPE, text=True, timeout=600,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    gap, low, _ = found["plain"]
    assert found["penalised"] < min(0.6 * gap, low)
    assert found["accuracy"] > found["constant"] + 0.02
