"""A full disk, a folder that cannot be written, a worker that the system ends: one sentence, and no
temporary file is left.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest

import separatrix as sx
from people import people
from separatrix.cli import main
from separatrix.errors import DataError, SeparatrixError
from separatrix.io import in_processes, write_whole
from separatrix.production.streaming import predict_file

resource = pytest.importorskip("resource")


@contextmanager
def files_of_at_most(size):
    """As on a disk that is full after so many bytes: writing raises an OSError."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.fixture
def home(tmp_path):
    """A folder with rows to predict."""
    pl.DataFrame(people(3_000, seed=60)).write_csv(tmp_path / "rows.csv")
    return tmp_path


def writers(single, home):
    """Everything that writes, by name."""
    monitor = sx.Monitor(single.counts(rows := people(200, seed=61), rows["pay"]), max_violation=0.01)
    return {
        "predict to csv": lambda out: predict_file(single, home / "rows.csv", out / "out.csv", random_state=0),
        "predict to parquet": lambda out: predict_file(single, home / "rows.csv", out / "out.parquet", random_state=0),
        "log": lambda out: predict_file(
            single, home / "rows.csv", home / "fine.csv", random_state=0, log=out / "log.jsonl"
        ),
        "save": lambda out: single.save(out / "model"),
        "monitor": lambda out: monitor.save(out / "monitor.json"),
        "bytes": lambda out: write_whole(out / "bytes", b"x" * 10_000),
    }


@pytest.mark.parametrize("what", ["predict to csv", "predict to parquet", "log", "save", "bytes"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(single, home, what):
    write = writers(single, home)[what]
    (home / "out").mkdir()
    with files_of_at_most(400), pytest.raises(DataError, match="cannot be written") as error:
        write(home / "out")
    assert len(str(error.value).splitlines()) == 1
    assert os.listdir(home / "out") == []
    assert not [name for name in os.listdir(home) if "unfinished" in name]
    write(home / "out")  # and with space again it works
    assert len(os.listdir(home / "out")) == 1


def test_a_full_disk_keeps_the_old_model(single, mixture, tmp_path):
    single.save(tmp_path / "model")
    with files_of_at_most(400), pytest.raises(DataError, match="cannot be written"):
        mixture.save(tmp_path / "model")
    assert sx.load(tmp_path / "model").model_hash == single.model_hash
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("what", ["predict to csv", "predict to parquet", "log", "save", "monitor", "bytes"])
def test_a_folder_that_cannot_be_written_is_one_sentence(single, home, what):
    """A file in place of the folder: root may write everywhere else."""
    (home / "out").write_text("")
    with pytest.raises(SeparatrixError, match=r"cannot be written|no folder") as error:
        writers(single, home)[what](home / "out")
    assert len(str(error.value).splitlines()) == 1
    assert not [name for name in os.listdir(home) if "unfinished" in name]


@contextmanager
def as_nobody():
    """Root may write everywhere, so it becomes somebody else for a while."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(mine)


@pytest.mark.parametrize("what", ["predict to csv", "log", "save", "monitor", "bytes"])
def test_a_read_only_folder_is_one_sentence(single, home, what):
    write = writers(single, home)[what]
    (home / "fine").mkdir()
    write(home / "fine")  # what is imported late is imported
    with TemporaryDirectory() as name:
        place = Path(name)
        shutil.copy(home / "rows.csv", place)
        (place / "out").mkdir()
        for folder, mode in ((place, 0o755), (place / "out", 0o555)):
            folder.chmod(mode)
        write = writers(single, place)[what]
        with as_nobody(), pytest.raises(DataError, match="Permission denied") as error:
            write(place / "out")
        assert len(str(error.value).splitlines()) == 1
        assert os.listdir(place / "out") == []


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.nightly
def test_a_killed_worker_is_one_sentence(monkeypatch, capsys):
    from joblib import delayed

    def run():
        with in_processes((delayed(die)() for _ in range(4)), 2) as answers:
            list(answers)

    with pytest.raises(SeparatrixError, match="run again to resume") as error:
        run()
    assert len(str(error.value).splitlines()) == 1
    monkeypatch.setattr("separatrix.datasets.names", run)
    monkeypatch.setattr(sys, "argv", ["separatrix", "datasets"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def slow(i):
    time.sleep(0.2 * i)
    return i


@pytest.mark.nightly
def test_an_error_stops_the_other_processes_without_a_warning(recwarn):
    from joblib import delayed

    def run():
        calls = (delayed(slow)(i) for i in range(8))
        with in_processes(calls, 2, in_order=False) as answers:
            raise DataError(f"The disk is full after {next(answers)}.")

    with pytest.raises(DataError, match="disk is full"):
        run()
    assert len(recwarn) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "{home}/model", "{home}/rows.csv", "--out", "{home}/o.csv", "--seed", "-1"],
         "from 0 on"),
        (["predict", "{home}/model", "{home}/rows.csv", "--out", "{home}/no/o.csv"], "no folder"),
        (["predict", "{home}/model", "{home}/rows.csv", "--out", "{home}/o.csv", "--seed", "1",
          "--salt-file", "{home}/salt", "--id", "age"], "--seed or --salt-file"),
        (["predict", "{home}/model", "{home}/rows.csv", "--out", "{home}/o.csv", "--verify-key",
          "{home}/none"], "cannot be read"),
        (["predict", "{home}/model", "{home}/rows.csv", "--out", "{home}/o.csv", "--salt-file",
          "{home}/salt", "--id", "age"], "can be guessed"),
        (["replay", "{home}/model", "{home}/none.jsonl"], "cannot be read"),
    ],
)  # fmt: skip
def test_the_command_says_it_in_one_sentence(single, home, monkeypatch, capsys, arguments, message):
    single.save(home / "model")
    (home / "salt").write_text("0123456789abcdef\n")
    before = sorted(os.listdir(home))
    monkeypatch.setattr(sys, "argv", ["separatrix", *(a.format(home=home) for a in arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err.strip().splitlines()
    assert ended.value.code == 2
    assert message in told[-1]
    assert all("repeats these" in line for line in told[:-1])
    assert sorted(os.listdir(home)) == before


def test_predict_and_replay_from_the_command_line(mixture, home, monkeypatch, capsys):
    mixture.save(home / "model")
    (home / "salt").write_text("kept by the operator, not in the model\n")
    frame = pl.read_csv(home / "rows.csv").with_columns(id=np.arange(3_000))
    frame.write_csv(home / "rows.csv")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["separatrix", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code in (0, None)
        return capsys.readouterr()

    rows, model = home / "rows.csv", home / "model"
    keyed = ("--id", "id", "--salt-file", home / "salt")
    call("predict", model, rows, "--out", home / "a.csv", *keyed, "--log", home / "log.jsonl")
    told = call("replay", model, home / "log.jsonl", rows, *keyed)
    assert "3,000 decisions" in told.out
    fresh = call("predict", model, rows, "--out", home / "b.csv")
    seed = fresh.err.split("--seed ")[1].split()[0]
    call("predict", model, rows, "--out", home / "c.csv", "--seed", seed)
    assert (home / "b.csv").read_text() == (home / "c.csv").read_text()
    call("predict", model, rows, "--out", home / "d.csv")
    assert (home / "b.csv").read_text() != (home / "d.csv").read_text()
