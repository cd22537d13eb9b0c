"""The key of a run holds all that decides its result, the code included."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from separatrix.errors import InputError
from separatrix.frontier import sweep
from separatrix.frontier.store import RunKey
from separatrix.frontier.sweep import Job, Source, grid, run, source_hash

LAW = {"law": "bayes", "n": 400}
QUICK = (("epochs", 1), ("min_steps", 5), ("batch", 128))


def stacks(method="erm"):
    return grid([Source("synthetic", LAW)], [Job(method, (0.0,), changes=QUICK)], folds=2)


def test_every_field_changes_the_key():
    (first, *_) = stacks()[0].runs
    for name in RunKey.__dataclass_fields__:
        value = {"details": {}}.get(name, "other")
        assert replace(first, **{name: value}).key != first.key, name


def test_results_of_changed_code_are_not_used_again(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    assert run(stacks(), tmp_path / "a").added == {"ok": 2}
    before = stacks()[0].runs[0].key
    monkeypatch.setattr(sweep, "source_hash", lambda: "of an edited file")
    assert stacks()[0].runs[0].key != before
    with pytest.raises(InputError, match="'erm' on 'synthetic' with other code"):
        run(stacks(), tmp_path / "a")
    assert run(stacks(), tmp_path / "b").added == {"ok": 2}  # nothing was found finished


@pytest.mark.parametrize("path", ["methods/cmi.py", "nn/stack.py", "optimum/roc/regions.py"])
def test_the_hash_of_the_code_covers_what_makes_numbers(path, monkeypatch):
    before = source_hash.__wrapped__()
    real = Path.read_text
    edited = lambda self, **how: real(self, **how) + "#" * self.as_posix().endswith(path)  # noqa: E731
    monkeypatch.setattr(Path, "read_text", edited)
    assert source_hash.__wrapped__() != before
