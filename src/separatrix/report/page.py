"""The report's pages: plain data as one offline HTML page.

`page.html.jinja`, `page.css` and the scripts show the data: `decisions.js` what a trace could ship,
`choice.js`, `chart.js` and `panels.js` every point of the records, `events.js` what the reader
does. The page loads nothing, and its content security policy forbids it. Names of columns, labels
and groups may hold any text: the template escapes them, the data are JSON in which no character can
end a script, and the script writes text, never HTML.
"""

from __future__ import annotations

import json
from typing import Any

from separatrix.report.words import number


def render(data: Any) -> str:
    """The page of what `frontier.page.content` collects."""
    return render_template("page.html.jinja", data=data, number=number, json=_embedded(data))


def render_template(name: str, **values: Any) -> str:
    """A template of this room, filled in; every text is escaped."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("separatrix", "report")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(name).render(**values)


def _embedded(data: Any) -> str:
    r"""JSON that is safe inside a script element: nothing in it can be read as markup.

    >>> _embedded("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
