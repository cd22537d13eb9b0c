"""What `benchmark` is asked to run."""

from __future__ import annotations

import pytest

from separatrix.errors import InputError, MissingExtraError
from separatrix.frontier import paper as benchmarking

pytest.importorskip("torch")


def test_the_papers_recipe_of_comparison_methods_is_run_where_it_is_asked_for():
    """CMI and ERM always have it; the others by `recipes`, or by name."""

    def with_it(*arguments, **options):
        jobs = benchmarking._jobs(*arguments, quick=False, **options)
        return {job.method for job in jobs if job.recipe == "paper"}

    assert with_it(None) == {"cmi", "erm", "raw_cmi"}
    assert {"fr_train", "infofair", "cmi"} <= with_it(None, every=True)
    assert with_it(["infofair"]) == {"infofair"}


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
