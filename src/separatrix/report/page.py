"""The report's page: plain data as one offline HTML page.

`page.html.jinja`, `page.css` and the scripts show the data: `decisions.js` what a trace could ship,
`choice.js`, `chart.js` and `panels.js` every point of the records, `events.js` what the reader
does. The page loads nothing, and its content security policy forbids it. Names of columns, labels
and groups may hold any text: the template escapes them, the data are JSON in which no character can
end a script, and the script writes text, never HTML.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from separatrix.report.words import number

__all__ = ["render"]


def render(data: Any) -> str:
    """The page of what `frontier.page.content` collects."""
    from jinja2 import Environment

    here = files("separatrix.report")
    scripts = (f"{name}.js" for name in ("choice", "chart", "panels", "decisions", "events"))
    names = ("page.html.jinja", "page.css", *scripts)
    template, css, *parts = (here.joinpath(name).read_text(encoding="utf-8") for name in names)
    script = "\n".join(['"use strict";', "(() => {", *parts, "})();"])
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
