"""Report: a folder of records as one HTML page that opens offline, to look at a frontier and to
choose a point on it.

`write(folder, path)` is what `Frontier.report` and `separatrix report` call. `content` turns the
records into plain data; `page.html.jinja`, `page.css` and the scripts show them (choice, chart,
panels, events: joined into one). The page loads nothing: no network, no fonts, no libraries, and
its content security policy forbids it. Names of columns, labels and groups are the user's: the
template escapes them, the data are JSON in which no character can end a script, and the script
writes text, never HTML.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from separatrix.auditing.result import Audit
from separatrix.io import write_whole
from separatrix.runs.results import Results
from separatrix.show.content import content

__all__ = ["page", "write"]


def write(
    folder: str | Path,
    path: str | Path,
    *,
    confidence: float = 0.95,
    posterior_audit: Audit | None = None,
) -> Path:
    """Write the report of a folder of records.

    Args:
        folder: that `trace` or `benchmark` wrote.
        path: of the HTML file; written whole or not at all.
        confidence: of the intervals and bounds.
        posterior_audit: the audit of ERM's held-out posteriors, where they are at hand. The records
            keep their sums but not their squares, so without it the audit of the randomised policy
            has neither interval nor test.

    Returns:
        The path.
    """
    place = Path(path)
    write_whole(place, page(folder, confidence=confidence, posterior_audit=posterior_audit))
    return place


def page(
    folder: str | Path, *, confidence: float = 0.95, posterior_audit: Audit | None = None
) -> str:
    """The report as text."""
    from jinja2 import Environment

    here = files("separatrix.show")
    names = ("page.html.jinja", "page.css", "choice.js", "chart.js", "panels.js", "events.js")
    template, css, *scripts = (here.joinpath(name).read_text(encoding="utf-8") for name in names)
    script = "\n".join(['"use strict";', "(() => {", *scripts, "})();"])
    data = content(Results.read(folder), str(folder), confidence, posterior_audit)
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        css=css, script=script, data=data, json=_embedded(data)
    )


def _embedded(data: Any) -> str:
    r"""JSON that is safe inside a script element: nothing in it can be read as markup.

    >>> _embedded("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
