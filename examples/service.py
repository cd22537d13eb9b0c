"""
A small service
===============

Decisions over HTTP with FastAPI: the coin belongs to the person, every answer is in the log before
it is sent, and a monitor takes the outcomes. separatrix does not depend on FastAPI or uvicorn:

.. code-block:: sh

    pip install fastapi uvicorn
    export MODEL=model SALT_FILE=secret.txt LOG=decisions.jsonl MONITOR=monitor.json
    uvicorn service:app --port 8000

.. code-block:: sh

    curl -X POST localhost:8000/decisions -H 'content-type: application/json' \\
         -d '{"id": "anna", "row": {"age": 35, "job": "pilot", "sex": "f"}}'
    curl -X POST localhost:8000/outcomes -H 'content-type: application/json' \\
         -d '[{"outcome": "yes", "decision": "no", "group": "f"}]'
    curl localhost:8000/metrics

What is promised: an answer that a client has received is in the log, and an outcome that was
acknowledged is in the monitor's file, also if the process is killed a moment later. For a power cut
put both on a disk that flushes. Each worker process needs a monitor of its own
(`sx.Monitor.merge` adds them up); the log may be shared.
"""

import os
from pathlib import Path
from threading import Lock
from typing import Any

import pandas as pd
from fastapi import FastAPI, HTTPException
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

import separatrix as sx

model = sx.load(os.environ["MODEL"])
salt = Path(os.environ["SALT_FILE"]).read_bytes().strip()
log, state = Path(os.environ["LOG"]), Path(os.environ["MONITOR"])
# the model brings its groups and its budget
monitor = sx.Monitor.load(state) if state.exists() else sx.Monitor(model)
saving = Lock()
app = FastAPI(title="Decisions")


class Person(BaseModel):
    """One request: who, and the columns that the model was trained on."""

    id: str
    row: dict[str, Any]


class Outcome(BaseModel):
    """What became true later, the decision that was taken, and the group."""

    outcome: Any
    decision: Any
    group: Any


@app.post("/decisions")
def decide(person: Person) -> dict[str, Any]:
    """The decision; the same person always gets the same one."""
    row = pd.DataFrame([person.row])
    try:
        # the log has the answer before the client has it
        (decision,) = model.predict(row, ids=[person.id], salt=salt, log=log).tolist()
    except sx.SeparatrixError as error:
        raise HTTPException(422, str(error)) from error
    return {"id": person.id, "decision": decision, "model": model.model_hash}


@app.post("/outcomes")
def observe(outcomes: list[Outcome]) -> dict[str, Any]:
    """Add outcomes to the monitor: all of them or, where a value is unknown, none."""
    y, decision = [one.outcome for one in outcomes], [one.decision for one in outcomes]
    z = [one.group for one in outcomes]
    with saving:  # one writer of the state at a time
        try:
            alarm = monitor.update(y, decision, sensitive_features=z)
        except sx.SeparatrixError as error:
            raise HTTPException(422, str(error)) from error
        monitor.save(state)
    return {"rows": monitor.rows, "alarm": None if alarm is None else alarm.to_dict()}


@app.get("/metrics", response_class=PlainTextResponse)
def metrics() -> str:
    """For Prometheus."""
    return monitor.metrics()
