"""Report: a folder of records as one offline HTML page to choose what to ship.

`Frontier.report` and `separatrix report` call `write(folder, path)`. `content` turns the records
into plain data; `page.html.jinja`, `page.css` and the scripts show them: `decisions.js` what a
trace could ship, `choice.js`, `chart.js` and `panels.js` every point of the records, `events.js`
what the reader does. The page loads nothing, and its content security policy forbids it. Names of
columns, labels and groups may hold any text: the template escapes them, the data are JSON in which
no character can end a script, and the script writes text, never HTML.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from separatrix.auditing.result import Audit
from separatrix.deploy.words import number
from separatrix.io import write_whole
from separatrix.runs.results import Results
from separatrix.show.content import content

__all__ = ["page", "write"]


def write(
    folder: str | Path,
    path: str | Path,
    *,
    confidence: float = 0.95,
    plain_audit: Audit | None = None,
) -> Path:
    """Write the report of a folder of records.

    Args:
        folder: that `trace` or `benchmark` wrote.
        path: of the HTML file; written whole or not at all.
        confidence: of the intervals and bounds.
        plain_audit: of a trace, the audit of the plain model's decisions on unseen rows.

    Returns:
        The path.
    """
    place = Path(path)
    write_whole(place, page(folder, confidence=confidence, plain_audit=plain_audit))
    return place


def page(folder: str | Path, *, confidence: float = 0.95, plain_audit: Audit | None = None) -> str:
    """The report as text."""
    from jinja2 import Environment

    here = files("separatrix.show")
    scripts = (f"{name}.js" for name in ("choice", "chart", "panels", "decisions", "events"))
    names = ("page.html.jinja", "page.css", *scripts)
    template, css, *parts = (here.joinpath(name).read_text(encoding="utf-8") for name in names)
    script = "\n".join(['"use strict";', "(() => {", *parts, "})();"])
    data = content(Results.read(folder), str(folder), confidence, plain_audit)
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made = environment.from_string(template)
    return made.render(css=css, script=script, data=data, json=_embedded(data), number=number)


def _embedded(data: Any) -> str:
    r"""JSON that is safe inside a script element: nothing in it can be read as markup.

    >>> _embedded("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
