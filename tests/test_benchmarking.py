"""What `benchmark` is asked to run."""

from __future__ import annotations

import pytest

from separatrix import benchmarking
from separatrix.errors import InputError, MissingExtraError

pytest.importorskip("torch")


def test_a_recipe_is_named_after_its_method():
    (job,) = benchmarking._jobs(["cmi:score"], quick=False)
    assert (job.method, job.recipe, job.made().level) == ("cmi", "score", "score")
    assert [job.recipe for job in benchmarking._jobs(["cmi"], quick=False)] == ["default", "paper"]
    (unknown,) = benchmarking._jobs(["cmi:best"], quick=False)
    with pytest.raises(InputError, match="'cmi' has no recipe 'best'; it has default"):
        unknown.made()


def test_blind_runs_every_method_that_can_on_x_alone():
    jobs = benchmarking._jobs(["cmi", "erm", "threshold_optimizer"], quick=False, blind=True)
    alone = {job.method for job in jobs if job.inputs == "x"}
    assert alone == {"cmi", "erm"}
    assert len({(job.method, job.inputs, job.recipe) for job in jobs}) == len(jobs)


def test_without_torch_it_says_so_before_it_starts(tmp_path, monkeypatch):
    def missing(name):
        raise MissingExtraError(f"The method {name!r} needs torch.")

    monkeypatch.setattr("separatrix.methods.get", missing)
    with pytest.raises(MissingExtraError, match="'cmi' needs torch"):
        list(benchmarking.benchmark(["adult"], tmp_path / "results"))
    assert not (tmp_path / "results").exists()
