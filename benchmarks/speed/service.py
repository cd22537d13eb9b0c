"""The service of examples/service.py over loopback: requests a second, and a kill at the end.

    pip install fastapi uvicorn
    python -m benchmarks.speed service [--seconds 5]

A logistic model with thresholds by group decides one row per request; four clients keep their
connections. The server is killed with signal 9 under fire, and every answer that a client has
received must be in the log.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import separatrix as sx
from separatrix.columns.draws import id_digests

QUICK = None  # needs fastapi and uvicorn
CLIENTS = 4
EXAMPLES = Path(__file__).parents[2] / "examples"


def train(folder: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3_000, 8)), columns=[f"x{i}" for i in range(8)])
    sex = rng.choice(["f", "m"], len(frame))
    y = (frame["x0"] + 0.8 * (sex == "m") + rng.normal(size=len(frame)) > 0).astype(int)
    model = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.03, sensitive_columns="sex", cv=3, random_state=0)
    model.fit(frame.assign(sex=(sex == "m") * 1.0), y).save(folder)


@contextmanager
def serve(home: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    names = {"MODEL": "model", "SALT_FILE": "salt", "LOG": "log.jsonl", "MONITOR": "monitor.json"}
    paths = {name: str(home / place) for name, place in names.items()}
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port)]
    quiet = ["--log-level", "warning", "--app-dir", str(EXAMPLES)]
    server = subprocess.Popen([*command, *quiet], env={**os.environ, **paths})
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if server.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield server
    finally:
        server.kill()
        server.wait()


def client(port: int, first: int) -> list[str]:
    """Ids whose answers have arrived when the server was killed."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    row = {f"x{i}": 0.1 * i for i in range(8)} | {"sex": 1.0}
    answered: list[str] = []
    while True:
        person = f"person {first + len(answered)}"
        body = json.dumps({"id": person, "row": row})
        try:
            link.request("POST", "/decisions", body, {"content-type": "application/json"})
            reply = link.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            return answered
        if reply.status != 200:
            raise RuntimeError(f"{reply.status}: {text.decode()}")
        answered.append(person)


def main(seconds: float = 5.0) -> None:
    """Print requests a second, and what a kill lost."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        sys.exit("This measurement needs fastapi and uvicorn: pip install fastapi uvicorn.")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(CLIENTS) as pool:
        home = Path(folder)
        train(home / "model")
        (home / "salt").write_text(secrets.token_hex(16))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with serve(home, port) as server:
            shots = [pool.submit(client, port, k * 10**6) for k in range(CLIENTS)]
            time.sleep(seconds)
            server.kill()
            answered = [one for shot in shots for one in shot.result()]
        print(f"{len(answered) / seconds:.0f} requests a second with {CLIENTS} clients")
        model = sx.load(home / "model")
        known = id_digests(answered, (home / "salt").read_text(), bytes.fromhex(model.model_hash))
        lines = (home / "log.jsonl").read_text().splitlines()
        lost = len(set(known) - {json.loads(line)["id"] for line in lines})
        print(f"killed after {len(answered):,} answers: {lost} of them are not in the log")
    sys.exit(1 if lost else 0)
