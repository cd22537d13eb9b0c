"""Files and folders are whole or absent, and what a killed process left is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from separatrix.errors import DataError, InputError
from separatrix.io import copy_folder, remove_stale, whole_file, whole_folder, write_whole

resource = pytest.importorskip("resource")
KILLED = """
import os, signal, sys
from pathlib import Path
from separatrix.io import {kind}
with {kind}(Path(sys.argv[1])) as temporary:
    print(temporary.name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["whole_file", "whole_folder"])
def test_the_next_writer_removes_what_a_killed_one_left(kind, tmp_path):
    script = KILLED.format(kind=kind)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == [done.stdout.strip()]
    write_whole(tmp_path / "b", b"x")
    assert os.listdir(tmp_path) == ["b"]


def test_what_another_process_still_writes_stays(tmp_path):
    script = KILLED.format(kind="whole_file").replace(
        "os.kill(os.getpid(), signal.SIGKILL)", "input(); temporary.write_text('late')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "a")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        name = writer.stdout.readline().strip()
        remove_stale(tmp_path)
        write_whole(tmp_path / "b", "x")
        assert (tmp_path / name).exists()
        writer.communicate("\n", timeout=20)
    assert (tmp_path / "a").read_text() == "late"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    write_whole(tmp_path / "a", "old")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "a") as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_takes_the_place_of_the_old_one(tmp_path):
    for text in ("old", "new"):
        with whole_folder(tmp_path / "a") as temporary:
            (temporary / text).write_text(text)
    assert os.listdir(tmp_path / "a") == ["new"]
    with pytest.raises(RuntimeError, match="no"), whole_folder(tmp_path / "a") as temporary:
        raise RuntimeError("no")
    assert os.listdir(tmp_path / "a") == ["new"]
    assert os.listdir(tmp_path) == ["a"]


def test_a_copy_that_does_not_fit_is_one_sentence_and_leaves_nothing(tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "large").write_bytes(b"x" * 5_000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(DataError, match=r"to' cannot be written: File too large\."):
            copy_folder(tmp_path / "from", tmp_path / "to")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["from"]


def test_folders_are_made_where_asked_and_otherwise_named(tmp_path):
    write_whole(tmp_path / "x" / "a", b"1")
    with pytest.raises(InputError, match="no folder"):
        write_whole(tmp_path / "y" / "a", b"1", parents=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_whole(tmp_path / "file" / "a", b"1")
