"""Report: a folder of records as one offline HTML page to choose a point of the frontier.

`Frontier.report` and `separatrix report` call `write(folder, path)`. `content` turns the records
into plain data; `page.html.jinja`, `page.css` and the scripts (choice, chart, panels, events) show
them. The page loads nothing, and its content security policy forbids it. Names of columns, labels
and groups may hold any text: the template escapes them, the data are JSON in which no character can
end a script, and the script writes text, never HTML.
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
        posterior_audit: the audit of ERM's held-out posteriors. The records keep their sums but not
            their squares; without it the randomised policy has neither interval nor test.

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
    made = environment.from_string(template)
    return made.render(css=css, script=script, data=data, json=_embedded(data))


def _embedded(data: Any) -> str:
    r"""JSON that is safe inside a script element: nothing in it can be read as markup.

    >>> _embedded("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
